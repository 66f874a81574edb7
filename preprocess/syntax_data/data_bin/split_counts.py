"""Counts for the report and the signature."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from syntax_data.features.distance import greatest_distance
from syntax_data.features.sentence import AlignedSentence
from syntax_data.trees.counts import ParseCounts
from syntax_data.trees.formats import CONLLU, TREES
from syntax_data.trees.tree import DependencyTree, NoParse

#: The totals in a signature.
_SIGNED = ("sentences", "words", "subwords", "symbols", "words_without_subword")


@dataclass
class SplitCounts:
    """Counts of a split's sentences.

    Attributes:
        parses: by kind.
        totals: ``sentences``, ``words``, ``subwords``, ``symbols`` and ``words_without_subword``, which are among the
            words, and ``markers``, which are among the subwords.
        longest_distance: the greatest finite one.
        deepest_tree: the greatest depth of a dependency tree.
    """

    parses: dict[str, ParseCounts]
    totals: Counter[str] = field(default_factory=Counter)
    longest_distance: int = 0
    deepest_tree: int = 0

    def add(self, sentence: AlignedSentence) -> None:
        """Count a sentence."""
        self.totals["sentences"] += 1
        self.totals["words"] += len(sentence.words) + len(sentence.symbols)
        self.totals["subwords"] += len(sentence.word_of) + sum(map(len, sentence.symbols))
        self.totals["symbols"] += len(sentence.symbols)
        lost = len(sentence.words) - len(set(sentence.word_of))
        if sentence.categories is not None:
            lost = max(lost, len(sentence.categories) - len(set(sentence.word_of_leaf)))
        self.totals["words_without_subword"] += lost
        for kind, counts in self.parses.items():
            parse = sentence.parses[kind]
            if isinstance(parse, NoParse):
                counts.no_parse[parse.reason] += 1
            else:
                counts.parsed += 1
        if isinstance(sentence.dependencies, DependencyTree):
            self.deepest_tree = max(self.deepest_tree, sentence.dependencies.depth)
        if sentence.distances:
            self.longest_distance = max(self.longest_distance, greatest_distance(sentence.distances))

    def update(self, other: SplitCounts) -> None:
        """Add the counts of other sentences."""
        for kind, counts in self.parses.items():
            counts.update(other.parses[kind])
        self.totals.update(other.totals)
        self.longest_distance = max(self.longest_distance, other.longest_distance)
        self.deepest_tree = max(self.deepest_tree, other.deepest_tree)

    def as_dict(self) -> dict[str, Any]:
        """For the signature."""
        return {
            **{name: self.totals[name] for name in _SIGNED},
            "no_parse": {kind: dict(counts.no_parse) for kind, counts in self.parses.items()},
            "longest_distance": self.longest_distance,
            "deepest_tree": self.deepest_tree,
        }

    def __str__(self) -> str:
        """The report."""
        totals = self.totals
        report = f"{totals['sentences']} sentences; {totals['words']} words; {totals['subwords']} subwords "
        report += f"({totals['subwords'] / max(totals['words'], 1):.2f} a word)"
        if totals["words_without_subword"]:
            report += f"; {totals['words_without_subword']} words without a subword"
        if totals["symbols"]:
            report += f"; {totals['symbols']} symbols"
        if totals["markers"]:
            report += f"; {totals['markers']} markers"
        for kind, counts in self.parses.items():
            report += f"; {kind}: {counts}"
        if TREES.name in self.parses:
            report += f"; longest distance {self.longest_distance}"
        if CONLLU.name in self.parses:
            report += f"; deepest dependency tree {self.deepest_tree}"
        return report

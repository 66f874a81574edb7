"""What a split holds, in numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from syntax_data.features.aligned import AlignedSentence
from syntax_data.features.distance import greatest_distance
from syntax_data.trees.counts import ParseCounts
from syntax_data.trees.formats import CONLLU, TREES
from syntax_data.trees.tree import DependencyTree, NoParse


@dataclass
class SplitCounts:
    """Counts of a split's sentences.

    Attributes:
        parses: of each kind of parse how many there are, and why others are not there.
        symbols: how many of the words are some.
        longest_distance: the greatest finite one.
        deepest_tree: the greatest depth of a dependency tree.
    """

    parses: dict[str, ParseCounts]
    sentences: int = 0
    words: int = 0
    subwords: int = 0
    symbols: int = 0
    longest_distance: int = 0
    deepest_tree: int = 0

    @classmethod
    def of_kinds(cls, kinds: Sequence[str]) -> SplitCounts:
        """Nothing yet, for these kinds of parses."""
        return cls({kind: ParseCounts() for kind in kinds})

    def add(self, sentence: AlignedSentence) -> None:
        """Counts a sentence."""
        self.sentences += 1
        self.words += len(sentence.words) + len(sentence.symbols)
        self.subwords += len(sentence.word_of) + sum(map(len, sentence.symbols))
        self.symbols += len(sentence.symbols)
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
        """Adds what was counted of other sentences."""
        for kind, counts in self.parses.items():
            counts.update(other.parses[kind])
        self.sentences += other.sentences
        self.words += other.words
        self.subwords += other.subwords
        self.symbols += other.symbols
        self.longest_distance = max(self.longest_distance, other.longest_distance)
        self.deepest_tree = max(self.deepest_tree, other.deepest_tree)

    def as_dict(self) -> dict[str, Any]:
        """For the signature."""
        return {
            "sentences": self.sentences,
            "words": self.words,
            "subwords": self.subwords,
            "symbols": self.symbols,
            "no_parse": {kind: dict(counts.no_parse) for kind, counts in self.parses.items()},
            "longest_distance": self.longest_distance,
            "deepest_tree": self.deepest_tree,
        }

    def __str__(self) -> str:
        """For people."""
        told = [
            f"{self.sentences} sentences",
            f"{self.words} words",
            f"{self.subwords} subwords ({self.subwords / max(self.words, 1):.2f} a word)",
            *([f"{self.symbols} symbols"] if self.symbols else []),
            *(f"{kind}: {counts}" for kind, counts in self.parses.items()),
        ]
        if TREES.name in self.parses:
            told.append(f"longest distance {self.longest_distance}")
        if CONLLU.name in self.parses:
            told.append(f"deepest dependency tree {self.deepest_tree}")
        return "; ".join(told)

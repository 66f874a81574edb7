"""Features of a sentence: its subwords and its parses, aligned."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from syntax_data.controls import Control, Others
from syntax_data.features.distance import syntactic_distances
from syntax_data.features.feature import INFINITE
from syntax_data.text.alignment import AlignmentError, Subwords, align
from syntax_data.text.symbols import symbol_pattern
from syntax_data.trees.formats import CONLLU, FORMATS, TREES
from syntax_data.trees.tree import DependencyTree, NoParse, Tree, trace_hint


@dataclass(frozen=True)
class Settings:
    """What the features depend on beside text and parses; see fairseq-syntax-binarize's options of these names."""

    subwords: str = "subword_nmt"
    on_bad_parse: str = "error"
    binarize_trees: str = "none"
    control: str | None = None
    symbols: str = ""


@dataclass
class AlignedSentence:
    """A sentence's words and parses, and to which words its n - 1 subwords belong.

    All but `symbols` are of the sentence without its symbols, the words that the parser never saw.

    Attributes:
        words: those of the parse whose format is the last one in ``FORMATS``, else of the subwords alone.
        word_of: for each subword the index of its word.
        word_of_leaf: for each subword the index of its leaf of `trees`.
        parses: by the name of their format; why there is none; nothing where it is not wanted.
        distances: between the leaves; ``None`` without trees.
        mismatches: for each kind of parse that was of another text, what differs; in its place is
            ``NoParse("mismatch")``.
        symbols: the subwords, of all of the sentence's, that each symbol has, in order.
    """

    words: list[str]
    word_of: list[int]
    word_of_leaf: list[int]
    parses: dict[str, Any]
    distances: list[int] | None = None
    mismatches: dict[str, AlignmentError] = field(default_factory=dict)
    symbols: list[range] = field(default_factory=list)

    @property
    def trees(self) -> list[Tree] | NoParse | None:
        """The constituency trees, one for each sentence of the line."""
        return self.parses.get(TREES.name)

    @property
    def dependencies(self) -> DependencyTree | NoParse | None:
        """The dependency trees of the line's sentences."""
        return self.parses.get(CONLLU.name)


def align_sentence(
    text: str,
    subwords: Subwords,
    parses: Mapping[str, Any],
    *,
    settings: Settings,
    others: Others | None = None,
) -> AlignedSentence:
    """Aligns the subwords of `text` with its parses.

    Args:
        parses: by the name of their format, each of which may be absent, or a :class:`NoParse`. One of another text is
            left out, and told of in ``mismatches``.
        others: what ``--control shuffled`` draws from.
    """
    subwords, symbols = symbol_pattern(settings.symbols).take_out(subwords)
    aligned = AlignedSentence(subwords.words, subwords.word_of, subwords.word_of, {}, symbols=symbols)
    for kind in FORMATS:
        if (parse := parses.get(kind)) is None:
            continue
        if not isinstance(parse, NoParse):
            try:
                words = FORMATS[kind].tokens(parse)
                aligned.word_of = _align(subwords, words)
                aligned.words = words
                if kind == TREES.name:
                    aligned.word_of_leaf = aligned.word_of
            except AlignmentError as error:
                hint = trace_hint(parse) if kind == TREES.name else ""
                parse, aligned.mismatches[kind] = NoParse("mismatch"), AlignmentError(f"{error}{hint}")
        aligned.parses[kind] = parse
    if settings.control:
        control = Control.read(settings.control)
        of_symbols = {i for symbol in symbols for i in symbol}
        # The same in a file and at inference.
        plain = " ".join(token for i, token in enumerate(text.split()) if i not in of_symbols)
        trees, dependencies = control.parses(aligned.trees, aligned.dependencies, text=plain, others=others)
        made = {TREES.name: trees, CONLLU.name: dependencies}
        aligned.parses = {kind: made[kind] for kind in aligned.parses}
    if isinstance(aligned.trees, list):
        aligned.distances = syntactic_distances(aligned.trees, binarize=settings.binarize_trees)
    return aligned


def _align(subwords: Subwords, words: list[str]) -> list[int]:
    if len(words) >= INFINITE:
        raise AlignmentError(f"expected fewer than {INFINITE} words in a line, found {len(words)}")
    return align(subwords, words)

"""A sentence's words, parses and subwords, aligned."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from syntax_data.text.alignment import AlignmentError
from syntax_data.trees.formats import CONLLU, TREES
from syntax_data.trees.tree import DependencyTree, NoParse, Tree


@dataclass
class AlignedSentence:
    """A sentence's words and parses, and the word of each of its n - 1 subwords.

    All but `symbols` are of the sentence without its symbols, the words that the parser never saw.

    Attributes:
        words: of the parse whose format is the last one in ``FORMATS``, else of the subwords alone.
        word_of: for each subword the index of its word.
        word_of_leaf: for each subword the index of its leaf of `trees`.
        parses: by the name of their format, as far as they are wanted; :class:`NoParse` with the reason if there is
            none.
        distances: between the leaves; ``None`` without trees.
        categories: of the constituents above each leaf, under most controls the parser's; ``None`` without trees.
        mismatches: for each kind of parse of another text, the difference; its parse is ``NoParse("mismatch")``.
        symbols: the subwords of each symbol, in order, numbered among all of the sentence.
    """

    words: list[str]
    word_of: list[int]
    word_of_leaf: list[int]
    parses: dict[str, Any]
    distances: list[int] | None = None
    categories: list[tuple[str, ...]] | None = None
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

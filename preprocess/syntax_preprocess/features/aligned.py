"""Features of a sentence: its subwords and its parses, aligned."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from syntax_preprocess.alignment import AlignmentError, Subwords, align
from syntax_preprocess.controls import control_heads, control_trees
from syntax_preprocess.features.distance import syntactic_distances
from syntax_preprocess.features.feature import INFINITE
from syntax_preprocess.formats import CONLLU, TREES
from syntax_preprocess.trees import DependencyTree, NoParse, Tree


@dataclass(frozen=True)
class Settings:
    """What the features depend on beside text and parses; see fairseq-syntax-binarize's options of these names."""

    subwords: str = "subword_nmt"
    on_mismatch: str = "fail"
    binarize_trees: str = "none"
    control: str | None = None


@dataclass
class AlignedSentence:
    """A sentence's words and parses, and to which words its n - 1 subwords belong.

    Attributes:
        words: those of the dependency tree, else of the constituency trees, else of the subwords alone.
        word_of: for each subword the index of its word.
        word_of_leaf: for each subword the index of its leaf of `trees`.
        trees: one for each sentence of the line.
        distances: between the leaves; ``None`` without trees.
        mismatches: for each kind of parse that was of another text, what differs; in its place is
            ``NoParse("mismatch")``.
    """

    words: list[str]
    word_of: list[int]
    word_of_leaf: list[int]
    trees: list[Tree] | NoParse | None
    dependencies: DependencyTree | NoParse | None
    distances: list[int] | None = None
    mismatches: dict[str, AlignmentError] = field(default_factory=dict)


def align_sentence(
    text: str,
    subwords: Subwords,
    parses: Mapping[str, Any],
    *,
    settings: Settings,
) -> AlignedSentence:
    """Aligns the subwords of `text` with its parses.

    Args:
        parses: by the name of their format, each of which may be absent, or a :class:`NoParse`. One of another text is
            left out, and told of in ``mismatches``.
    """
    mismatches: dict[str, AlignmentError] = {}
    words = subwords.words
    word_of = word_of_leaf = subwords.word_of
    trees, dependencies = (parses.get(kind) for kind in (TREES.name, CONLLU.name))
    if isinstance(trees, list):
        leaves = TREES.tokens(trees)
        try:
            word_of = word_of_leaf = _align(subwords, leaves)
            words = leaves
        except AlignmentError as error:
            trees, mismatches[TREES.name] = NoParse("mismatch"), error
    if isinstance(dependencies, DependencyTree):
        try:
            word_of = _align(subwords, dependencies.tokens)
            words = dependencies.tokens
        except AlignmentError as error:
            dependencies, mismatches[CONLLU.name] = NoParse("mismatch"), error
    if settings.control and isinstance(trees, list):
        trees = control_trees(settings.control, trees, text)
    if settings.control and isinstance(dependencies, DependencyTree):
        dependencies = control_heads(settings.control, dependencies, text)
    distances = syntactic_distances(trees, binarize=settings.binarize_trees) if isinstance(trees, list) else None
    return AlignedSentence(words, word_of, word_of_leaf, trees, dependencies, distances, mismatches)


def _align(subwords: Subwords, words: list[str]) -> list[int]:
    if len(words) >= INFINITE:
        raise AlignmentError(f"expected fewer than {INFINITE} words in a line, found {len(words)}")
    return align(subwords, words)

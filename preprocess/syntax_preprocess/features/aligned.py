"""Features of a sentence: its subwords and its parses, aligned."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from syntax_preprocess.alignment import AlignmentError, Subwords, align
from syntax_preprocess.controls import control_heads, control_trees
from syntax_preprocess.features import (
    INFINITE,
    case_feature,
    distance_feature,
    head_feature,
    position_feature,
    syntactic_distances,
    word_feature,
)
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
    """

    words: list[str]
    word_of: list[int]
    word_of_leaf: list[int]
    trees: list[Tree] | NoParse | None
    dependencies: DependencyTree | NoParse | None
    distances: list[int] | None = None

    def feature(self, name: str, number: Callable[[str, str], int]) -> list[int]:
        """Values of a feature for the subwords and ``</s>``, none if it is made of a parse that is not there.

        Args:
            name: a key of :data:`~syntax_preprocess.features.FEATURES`.
            number: the number of a label of a feature, from 1.
        """
        if name == "word":
            return word_feature(self.word_of)
        if name == "case":
            return case_feature(self.word_of, self.words)
        if name == "position":
            return position_feature(self.word_of)
        if name == "distance":
            return [] if self.distances is None else distance_feature(self.word_of_leaf, self.distances)
        if not isinstance(self.dependencies, DependencyTree):
            return []
        if name == "head":
            return head_feature(self.word_of, self.dependencies)
        labels = getattr(self.dependencies, name)
        return [*(number(name, labels[word]) for word in self.word_of), 0]


def align_sentence(
    text: str,
    subwords: Subwords,
    parses: Mapping[str, Any],
    *,
    settings: Settings,
    mismatched: Callable[[str, AlignmentError], NoParse],
) -> AlignedSentence:
    """Aligns the subwords of `text` with its parses.

    Args:
        parses: by the name of their format, each of which may be absent, or a :class:`NoParse`.
        mismatched: called with the kind of a parse that is of another text, and what is wrong; raises, or says what
            to have in its place.
    """
    words = subwords.words
    word_of = word_of_leaf = subwords.word_of
    trees, dependencies = (parses.get(kind) for kind in (TREES.name, CONLLU.name))
    if isinstance(trees, list):
        leaves = TREES.tokens(trees)
        try:
            word_of = word_of_leaf = _align(subwords, leaves)
            words = leaves
        except AlignmentError as error:
            trees = mismatched(TREES.name, error)
    if isinstance(dependencies, DependencyTree):
        try:
            word_of = _align(subwords, dependencies.tokens)
            words = dependencies.tokens
        except AlignmentError as error:
            dependencies = mismatched(CONLLU.name, error)
    if settings.control and isinstance(trees, list):
        trees = control_trees(settings.control, trees, text)
    if settings.control and isinstance(dependencies, DependencyTree):
        dependencies = control_heads(settings.control, dependencies, text)
    distances = syntactic_distances(trees, binarize=settings.binarize_trees) if isinstance(trees, list) else None
    return AlignedSentence(words, word_of, word_of_leaf, trees, dependencies, distances)


def _align(subwords: Subwords, words: list[str]) -> list[int]:
    if len(words) >= INFINITE:
        raise AlignmentError(f"expected fewer than {INFINITE} words in a line, found {len(words)}")
    return align(subwords, words)


def greatest_distance(distances: Iterable[int]) -> int:
    """The greatest of the finite distances, 0 if there is none."""
    return max((d for d in distances if d != INFINITE), default=0)

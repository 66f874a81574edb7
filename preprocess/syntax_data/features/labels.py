"""Labels of relations, parts of speech and constituents: ``deprel``, ``upos``, ``category`` …, ``shared_category``.

Labels are numbered from 1 in the order in which they first come; 0 is ``</s>``, and a symbol.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise

import numpy as np

from syntax_data.features.feature import Feature, Rows, Wrong
from syntax_data.features.sentence import AlignedSentence
from syntax_data.trees.categories import shared_categories
from syntax_data.trees.formats import CONLLU, TREES
from syntax_data.trees.tree import DependencyTree


class LabelFeature(Feature):
    """Labels of the subwords; a symbol has that of ``</s>``."""

    dtype = "uint8"

    def with_symbols(self, values: list[int], sentence: AlignedSentence) -> list[int]:
        for symbol in sentence.symbols:
            values = [*values[: symbol.start], *[0] * len(symbol), *values[symbol.start :]]
        return values

    def cut(self, values: np.ndarray, kept: np.ndarray, _: Mapping[str, np.ndarray]) -> np.ndarray:
        return values[kept]

    def wrong(self, rows: Rows, features: Mapping[str, Rows], labels: Sequence[str]) -> Wrong:
        yield rows.last & (rows.values != 0), "0 for </s>"
        zero_is_fine = np.ones(len(rows.values), bool)  # at symbols
        for name in {"case", "position"} & features.keys():
            of_all = features[name]
            zero_is_fine &= of_all.values[np.repeat(rows.lengths > 0, of_all.lengths)] == 0
        wrong = (~rows.last & (rows.values < 1) & ~zero_is_fine) | (rows.values >= len(labels))
        yield wrong, f"a number from 1 to {len(labels) - 1}"


class WordLabel(LabelFeature):
    """Labels of the words in CoNLL-U."""

    source = CONLLU.name
    labels = ()

    def __init__(self, name: str, of_words: Callable[[DependencyTree], Sequence[str]]):
        self.name = name
        self.of_words = of_words

    def values(self, sentence: AlignedSentence, number: Callable[[str], int]) -> list[int]:
        if not isinstance(sentence.dependencies, DependencyTree):
            return []
        labels = self.of_words(sentence.dependencies)
        return [*(number(labels[word]) for word in sentence.word_of), 0]


class Category(LabelFeature):
    """Categories of the constituents above the words' parts of speech.

    See :func:`syntax_data.trees.categories.word_categories`.

    Args:
        level: 1 for the constituents right above, 2 for those above these, 3 for the next.
    """

    source = TREES.name
    labels = ()

    def __init__(self, level: int):
        self.name = "category" if level == 1 else f"category_{level}"
        self.level = level

    def values(self, sentence: AlignedSentence, number: Callable[[str], int]) -> list[int]:
        if sentence.categories is None:
            return []
        categories = [above[self.level - 1] for above in sentence.categories]
        return [*(number(categories[leaf]) for leaf in sentence.word_of_leaf), 0]


class SharedCategory(LabelFeature):
    """Categories of the smallest constituents that words share with the next word that has a subword.

    See :func:`syntax_data.trees.categories.shared_categories`.
    """

    name = "shared_category"
    source = TREES.name
    labels = ()

    def values(self, sentence: AlignedSentence, number: Callable[[str], int]) -> list[int]:
        if not isinstance(sentence.trees, list) or (distances := sentence.distances) is None:
            return []
        categories, leaves = shared_categories(sentence.trees), sentence.word_of_leaf
        # Over words without a subword it is that of the greatest distance.
        boundary = {a: max(range(a, b), key=distances.__getitem__) for a, b in pairwise(dict.fromkeys(leaves))}
        return [*(number(categories[boundary[leaf]] if leaf in boundary else "_") for leaf in leaves), 0]

    def resegmented(self, values: np.ndarray, first_in: np.ndarray, features: Mapping[str, np.ndarray]) -> np.ndarray:
        """As :meth:`values`, over words in which no subword begins; needs ``distance`` for these."""
        if (distance := features.get("distance")) is None:
            return values[first_in]
        labels, following = np.empty_like(values, shape=len(first_in)), values[-1]
        for k, (start, end) in reversed([*enumerate(pairwise([*first_in, len(values)]))]):
            inside = distance[start:end]
            if inside.any():  # else the next subword is of the same word
                following = values[start + inside.argmax()]
            labels[k] = following
        return labels

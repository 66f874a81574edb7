"""``distance``: syntactic distance between a subword and the next.

0 inside a word, :data:`~syntax_data.features.feature.INFINITE` between two sentences of the line, before ``</s>``
and after it.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np

from syntax_data.features.feature import INFINITE, Feature, Rows, Wrong
from syntax_data.features.sentence import AlignedSentence
from syntax_data.trees.formats import TREES
from syntax_data.trees.tree import Tree


def syntactic_distances(trees: Sequence[Tree], *, binarize: str = "none") -> list[int]:
    """Syntactic distances between m words (Hou 2024, §3.1; Shen et al. 2018).

    d_i = height(LCA(w_i, w_{i+1})) - 1 for i = 0 … m - 2, where unary chains are collapsed,
    height(word) = 1 and height(node) = 1 + max over its children. Trees stay n-ary, so all boundaries
    between the children of one node share a distance, unless `binarize` is ``right``, which makes
    (a (b c)) of the children (a b c), ``left`` ((a b) c). Between two trees it is :data:`INFINITE`.
    """
    distances: list[int] = []
    for number, tree in enumerate(trees):
        if number:
            distances.append(INFINITE)
        # Of each constituent that is open: its children to come, heights of those done, and boundaries between them.
        stack: list[tuple[list[Tree | str], list[int], list[int]]] = [(tree.children[::-1], [], [])]
        while stack:
            children, heights, boundaries = stack[-1]
            if not children:
                stack.pop()
                height = _close(heights, boundaries, distances, binarize)
                if stack:
                    stack[-1][1].append(height)
                continue
            if heights:
                boundaries.append(len(distances))
                distances.append(0)
            child = children.pop()
            while not isinstance(child, str) and len(child.children) == 1:
                child = child.children[0]  # a unary chain adds no height
            if isinstance(child, str):
                heights.append(1)
            else:
                stack.append((child.children[::-1], [], []))
    return distances


def _close(heights: list[int], boundaries: list[int], distances: list[int], binarize: str) -> int:
    """Write the distances between a constituent's children; return its height."""
    if binarize == "none":
        height = max(heights) + (len(heights) > 1)
        for boundary in boundaries:
            distances[boundary] = height - 1
        return height
    if binarize == "right":
        heights.reverse()
        boundaries.reverse()
    height = heights[0]
    for other, boundary in zip(heights[1:], boundaries, strict=True):
        height = 1 + max(height, other)
        distances[boundary] = height - 1
    return height


def distance_feature(word_of: Sequence[int], distances: Sequence[int]) -> list[int]:
    """``distance`` for n - 1 subwords and ``</s>``, from m - 1 word distances.

    The distance over words that have no subword is the greatest on the way: that of the lowest common ancestor.
    """
    inside = [
        0 if left == right else distances[left] if left + 1 == right else max(distances[left:right])
        for left, right in itertools.pairwise(word_of)
    ]
    return [*inside, INFINITE, INFINITE] if word_of else [INFINITE]


def greatest_distance(distances: Iterable[int]) -> int:
    """The greatest of the finite distances, 0 if there is none."""
    return max((d for d in distances if d != INFINITE), default=0)


class Distance(Feature):
    name = "distance"
    source = TREES.name

    def values(self, sentence: AlignedSentence, _: Callable[[str], int]) -> list[int]:
        return [] if sentence.distances is None else distance_feature(sentence.word_of_leaf, sentence.distances)

    def with_symbols(self, values: list[int], sentence: AlignedSentence) -> list[int]:
        """After a symbol the distance before it; before a line's first word, infinite."""
        for symbol in sentence.symbols:
            last = values[symbol.start - 1] if symbol.start else INFINITE
            values = [*values[: symbol.start], *[0] * (len(symbol) - 1), last, *values[symbol.start :]]
        return values

    def resegmented(self, values: np.ndarray, first_in: np.ndarray, _: Mapping[str, np.ndarray]) -> np.ndarray:
        """Distances over subwords in which none begins are the greatest on the way: infinite before ``</s>``."""
        inside = np.append(first_in[:-1] == first_in[1:], False)
        return np.where(inside, 0, np.maximum.reduceat(values, first_in)).astype(values.dtype)

    def wrong(self, rows: Rows, _: Mapping[str, Rows], __: Sequence[str]) -> Wrong:
        before_last = np.append(rows.last[1:], False)
        yield (rows.last | before_last) & (rows.values != INFINITE), f"{INFINITE} before and after </s>"

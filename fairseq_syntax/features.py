"""Trees to the integers a sentence's feature files hold: one for each subword and ``</s>``.

========  ===========================================================================================
feature   value at subword i of n (the last is ``</s>``), all in 0 … 65535
========  ===========================================================================================
word      index of the subword's word; ``</s>`` is a word of its own, after the last
head      0 if the subword's word is a root, else 1 + the index of its head's word; 0 for ``</s>``
distance  syntactic distance between subwords i and i + 1: 0 inside a word, :data:`INFINITE` between
          two sentences of the line, before ``</s>`` and after it
========  ===========================================================================================

A sentence without a parse has no values: its entry in that feature's file is empty.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from fairseq_syntax.trees import DependencyTree, Tree

#: The largest value a feature file can hold; as a distance it stands for +∞.
INFINITE = 65535

#: Every feature, and the kind of parse it is made of (``None``: of the subwords alone).
SOURCES: dict[str, str | None] = {"word": None, "distance": "trees", "head": "conllu"}


def syntactic_distances(trees: Sequence[Tree]) -> list[int]:
    """Syntactic distances between the m words of a line (Hou 2024, §3.1; Shen et al. 2018).

    d_i = height(LCA(w_i, w_{i+1})) - 1 for i = 0 … m - 2, where unary chains are collapsed,
    height(word) = 1 and height(node) = 1 + max over its children. Trees stay n-ary, so all boundaries
    between the children of one node share a distance. Between two trees it is :data:`INFINITE`.
    """
    distances: list[int] = []
    for number, tree in enumerate(trees):
        if number:
            distances.append(INFINITE)
        _append_distances(tree, distances)
    return distances


def _append_distances(tree: Tree, distances: list[int]) -> None:
    # Depth first, without recursion (trees can be as deep as a sentence is long). A frame holds its
    # node's remaining children, the greatest height among those done, and the boundaries between them.
    stack: list[tuple[list[Tree | str], list[int], list[int]]] = [(tree.children[::-1], [], [])]
    while stack:
        children, heights, boundaries = stack[-1]
        if children:
            if heights:
                boundaries.append(len(distances))
                distances.append(0)
            child = children.pop()
            if isinstance(child, str):
                heights.append(1)
            else:
                stack.append((child.children[::-1], [], []))
            continue
        stack.pop()
        height = max(heights) + (len(heights) > 1)  # one child: a unary chain adds nothing
        for boundary in boundaries:
            distances[boundary] = height - 1
        if stack:
            stack[-1][1].append(height)


def word_feature(word_of: Sequence[int]) -> list[int]:
    """``word`` for the n - 1 subwords of `word_of` and ``</s>``; see the module's table."""
    return [*word_of, word_of[-1] + 1 if word_of else 0]


def distance_feature(word_of: Sequence[int], distances: Sequence[int]) -> list[int]:
    """``distance`` for the n - 1 subwords of `word_of` and ``</s>``, from the m - 1 word distances."""
    inside = [distances[left] if left != right else 0 for left, right in itertools.pairwise(word_of)]
    return [*inside, INFINITE, INFINITE] if word_of else [INFINITE]


def head_feature(word_of: Sequence[int], tree: DependencyTree) -> list[int]:
    """``head`` for the n - 1 subwords of `word_of` and ``</s>``; see the module's table."""
    return [*(tree.heads[word] for word in word_of), 0]

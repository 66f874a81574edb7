"""Distances, heads and words of subwords."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairseq_syntax.testing import random_tree
from syntax_data.features import FEATURES, INFINITE
from syntax_data.features.dependencies import head_feature
from syntax_data.features.distance import distance_feature, syntactic_distances
from syntax_data.features.sentence import AlignedSentence
from syntax_data.features.word import word_feature
from syntax_data.trees.brackets import parse_brackets
from syntax_data.trees.tree import DependencyTree, Tree


def distances(text: str) -> list[int]:
    trees = parse_brackets(text, path="x", line=1)
    assert trees is not None
    return syntactic_distances(trees)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # The paper's figure 1 (b): I | have a dog | . with heights 4, 3, 2.
        ("(S (NP (PRP I)) (VP (VBP have) (NP (DT a) (NN dog))) (. .))", [3, 2, 1, 3]),
        ("(S (X a))", []),
        ("", []),
        ("(S a b c)", [1, 1]),  # siblings share one distance
        ("(ROOT (S (U (V (W a))) (U (X b))))", [1]),  # unary chains collapse
        ("(S (A (B a b) c) (D d))", [1, 2, 3]),
        ("(S a b) (S c d) (S e)", [1, INFINITE, 1, INFINITE]),  # sentences of one line
        ("(S a) (S b)", [INFINITE]),
    ],
)
def test_distances(text, expected):
    assert distances(text) == expected


def height(tree: Tree | str) -> int:
    if isinstance(tree, str):
        return 1
    heights = [height(child) for child in tree.children]
    return heights[0] if len(heights) == 1 else 1 + max(heights)


def lowest_common(tree: Tree | str, i: int) -> Tree | str:
    """The smallest subtree that holds words i and i + 1."""
    if isinstance(tree, str):
        return tree
    begin = 0
    for child in tree.children:
        words = 1 if isinstance(child, str) else len(child.leaves())
        if begin <= i and i + 1 < begin + words:
            return lowest_common(child, i - begin)
        begin += words
    return tree


@given(st.integers(), st.integers(1, 12))
def test_distances_are_heights_of_lowest_common_ancestors(seed, words):
    tree = random_tree(Random(seed), words)
    expected = [height(lowest_common(tree, i)) - 1 for i in range(words - 1)]
    assert syntactic_distances([tree]) == expected


def binary(tree: Tree | str, direction: str) -> Tree | str:
    if isinstance(tree, str):
        return tree
    children = [binary(child, direction) for child in tree.children]
    while len(children) > 2:
        pair = slice(0, 2) if direction == "left" else slice(-2, None)
        children[pair] = [Tree("X", children[pair])]
    return Tree(tree.label, children)


@given(st.integers(), st.integers(1, 12), st.sampled_from(["left", "right"]))
def test_distances_of_binarized_trees(seed, words, direction):
    tree = random_tree(Random(seed), words)
    expected = syntactic_distances([binary(tree, direction)])
    assert syntactic_distances([tree], binarize=direction) == expected


def test_subword_features():
    word_of = [0, 0, 1, 2, 2, 2]
    assert word_feature(word_of) == [0, 0, 1, 2, 2, 2, 3]
    assert distance_feature(word_of, [5, 7]) == [0, 5, 7, 0, 0, INFINITE, INFINITE]
    assert head_feature(word_of, DependencyTree(["a", "b", "c"], [2, 0, 1])) == [2, 2, 0, 1, 1, 1, 0]
    nothing = word_feature([]), distance_feature([], []), head_feature([], DependencyTree([], []))
    assert nothing == ([0], [INFINITE], [0])


def test_words_without_a_subword_are_contracted():
    # Of a b c d e, only a, c and e have subwords; b's head is c, c's head is d, d's is the root e.
    word_of = [0, 2, 2, 4]
    assert word_feature(word_of) == [0, 1, 1, 2, 3]
    assert distance_feature(word_of, [1, 5, 3, 2]) == [5, 0, 3, INFINITE, INFINITE]
    assert distance_feature(word_of, [1, INFINITE, 3, 2])[0] == INFINITE
    tree = DependencyTree(list("abcde"), [2, 3, 4, 5, 0])
    assert head_feature(word_of, tree) == [2, 3, 3, 0, 0]  # a depends on c, over b; c on e, over d
    tree = DependencyTree(list("abcde"), [4, 4, 4, 0, 4])
    assert head_feature(word_of, tree) == [0, 0, 0, 0, 0]  # the root has none: its children are roots


def test_position_and_case():
    sentence = AlignedSentence(["The", "dog", "'ÄB", "1x"], [0, 1, 1, 2, 2, 2, 3], [], {})
    assert FEATURES["position"].of(sentence, int) == [1, 2, 4, 2, 3, 4, 1, 0]
    assert FEATURES["case"].of(sentence, int) == [2, 1, 1, 2, 2, 2, 1, 0]

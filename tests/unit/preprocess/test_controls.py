"""Trees of the right size that know nothing of the sentence."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bracketed import bracketed
from fairseq_syntax.testing import random_tree
from syntax_preprocess.conllu import format_conllu, parse_conllu
from syntax_preprocess.controls import control_heads, control_trees
from syntax_preprocess.trees import DependencyTree, Tree, sentence_sizes


def test_linear_trees_branch_to_the_right():
    (tree,) = control_trees("linear", [Tree("S", [Tree("X", ["a", "b"]), "c", "d"])], "seed")
    assert bracketed(tree) == "(X a (X b (X c d)))"
    heads = control_heads("linear", DependencyTree(list("abcd"), [2, 0, 2, 2]), "seed").heads
    assert heads == [0, 1, 2, 3]


@given(st.lists(st.integers(1, 8), min_size=1, max_size=4), st.text(max_size=3), st.sampled_from(["linear", "random"]))
def test_sizes_and_words_stay(sizes, seed, kind):
    trees = [random_tree(Random(seed), size) for size in sizes]
    controls = control_trees(kind, trees, seed)
    assert [tree.leaves() for tree in controls] == [tree.leaves() for tree in trees]
    heads: list[int] = []
    for size in sizes:
        heads += [i and len(heads) + i for i in range(size)]
    real = DependencyTree(["w"] * sum(sizes), heads, sentences=len(sizes))
    assert sentence_sizes(real.heads) == sizes
    control = control_heads(kind, real, seed)
    assert sentence_sizes(control.heads) == sizes
    assert parse_conllu(format_conllu(control).splitlines()[:-1], path="x", line=1).heads == control.heads  # a tree


def test_random_trees_follow_the_seed_alone():
    tree = random_tree(Random(1), 12)
    first, again, other = (bracketed(control_trees("random", [tree], seed)[0]) for seed in ("a", "a", "b"))
    assert first == again != other
    heads = [control_heads("random", DependencyTree(["w"] * 12, [0, *range(1, 12)]), seed).heads for seed in "aab"]
    assert heads[0] == heads[1] != heads[2]


def test_random_heads_fit_the_random_tree():
    # Each constituent of the tree is a subtree of the heads: all of its words but one hang inside it.
    words = [str(i) for i in range(9)]
    (tree,) = control_trees("random", [Tree("S", [*words])], "x")
    heads = control_heads("random", DependencyTree(words, [0, *range(1, 9)]), "x").heads
    stack = [tree]
    while stack:
        node = stack.pop()
        inside = {int(leaf) for leaf in node.leaves()}
        assert sum(heads[i] - 1 not in inside for i in inside) == 1
        stack += [child for child in node.children if isinstance(child, Tree)]


@pytest.mark.parametrize("kind", ["linear", "random"])
def test_one_word(kind):
    assert bracketed(control_trees(kind, [Tree("S", ["a"])], "")[0]) == "(X a)"
    assert control_heads(kind, DependencyTree(["a"], [0]), "").heads == [0]

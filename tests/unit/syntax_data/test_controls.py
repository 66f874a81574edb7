"""The parses of each control, and laws of all of them."""

from __future__ import annotations

import itertools
import pickle
from collections import Counter
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bracketed import bracketed
from fairseq_syntax.testing import random_tree
from syntax_data.controls import KINDS, Control, SentencePool, control_heads, control_trees
from syntax_data.controls.noise import noisy_heads, noisy_tree
from syntax_data.controls.shuffled import MOST, NO_OTHER
from syntax_data.trees.brackets import parse_brackets
from syntax_data.trees.categories import shared_categories, word_categories
from syntax_data.trees.conllu import format_conllu, parse_conllu
from syntax_data.trees.tree import DependencyTree, NoParse, Tree, sentence_sizes

ALL = [Control.read(f"{kind}:50" if kind == "noise" else kind) for kind in KINDS]


def random_heads(random: Random, size: int, first: int = 0) -> list[int]:
    """The heads of a random tree over `size` words after `first`; they may cross."""
    order = random.sample(range(first, first + size), size)
    heads = dict.fromkeys(order[:1], 0)
    for i, word in enumerate(order[1:], start=1):
        heads[word] = random.choice(order[:i]) + 1
    return [heads[word] for word in sorted(heads)]


def line(sizes: list[int], seed: object, word: str = "w") -> tuple[list[Tree], DependencyTree]:
    """A line of random sentences, parsed in both ways over the same words."""
    random = Random(str(seed))
    words = [f"{word}{i}" for i in range(sum(sizes))]
    trees, heads, rest = [], [], iter(words)
    for size in sizes:
        heads += random_heads(random, size, len(heads))
        tree = random_tree(random, size)
        for node in parts(tree):
            node.children = [next(rest) if isinstance(child, str) else child for child in node.children]
        trees.append(tree)
    columns = [["_"] * 3 + [f"u{i}"] + ["_"] * 3 + [f"d{head}"] + ["_"] * 2 for i, head in enumerate(heads)]
    return trees, DependencyTree(words, heads, columns, len(sizes))


def parts(tree: Tree) -> list[Tree]:
    """All constituents, the outer before the inner, from the left."""
    return [tree, *(node for child in tree.children if isinstance(child, Tree) for node in parts(child))]


def brackets(tree: Tree) -> set[tuple[str, ...]]:
    """The words of each constituent that has several; words differ."""
    return {tuple(node.leaves()) for node in parts(tree) if len(node.leaves()) > 1}


@pytest.mark.parametrize(
    ("kind", "tree", "heads"),
    [
        ("right-branching", "(X a (X b (X c d)))", [0, 1, 2, 3]),
        ("left-branching", "(X (X (X a b) c) d)", [2, 3, 4, 0]),
        ("flat", "(X a b c d)", [0, 1, 1, 1]),
        ("noise:0", "(S (Y a b) c d)", [2, 0, 2, 2]),
    ],
)
def test_parses_drawn_by_hand(kind, tree, heads):
    own = [Tree("S", [Tree("Y", ["a", "b"]), "c", "d"])], DependencyTree(list("abcd"), [2, 0, 2, 2])
    (found,), dependencies = Control.read(kind).parses(*own, text="seed", pool=None)
    assert bracketed(found) == tree
    assert dependencies.heads == heads
    noisy = noisy_tree(Tree("S", [Tree("NP", ["the", "dog"]), "barks"]), 1, Random(0), Random(0))
    assert bracketed(noisy) == "(S the (X dog barks))"  # the only other one


@given(st.lists(st.integers(1, 8), min_size=1, max_size=4), st.text(max_size=3), st.sampled_from(ALL))
def test_laws(sizes, seed, control):
    trees, real = line(sizes, seed)
    assert sum(sentence_sizes(real.heads)) == sum(sizes)
    pool = SentencePool()
    for number in range(4):
        pool.add(number, *line(sizes, f"{seed} {number}", word=f"{number}v"))
    made, heads = control.parses(trees, real, text=seed, pool=pool)
    assert (made, heads) == control.parses(trees, real, text=seed, pool=pool)
    if control.kind == "no-parse":
        assert made == heads == NoParse("--control no-parse")
        return
    assert [tree.leaves() for tree in made] == [tree.leaves() for tree in trees]
    assert parse_conllu(format_conllu(heads).splitlines()[:-1], path="x", line=1).heads == heads.heads  # trees
    ends = [sum(sizes[:i]) for i in range(len(sizes) + 1)]
    for first, end in itertools.pairwise(ends):
        within = heads.heads[first:end]
        assert within.count(0) == 1
        assert all(head == 0 or first < head <= end for head in within)
    assert (heads.tokens, heads.sentences) == (real.tokens, len(sizes))
    order = sorted if control.kind == "random-tags" else list
    assert (order(heads.upos) == order(real.upos)) == (control.kind != "dummy-tags")


@given(st.lists(st.integers(1, 6), min_size=1, max_size=3), st.sampled_from(ALL))
def test_what_is_not_parsed_stays_so(sizes, control):
    trees, _ = line(sizes, "seed")
    pool = SentencePool()
    pool.add(1, line(sizes, "other", word="v")[0], None)
    made, none = control.parses(trees, NoParse("failed"), text="", pool=pool)
    assert none == NoParse("failed")
    assert isinstance(made, NoParse if control.kind == "no-parse" else list)
    assert control.parses(NoParse("failed"), None, text="", pool=None) == (NoParse("failed"), None)


@pytest.mark.parametrize("kind", ["random", "shuffled", "noise:60"])
def test_draws_follow_text_and_seed_alone(kind):
    trees, real = line([12], "real")
    pool = SentencePool()
    for number in range(50):
        pool.add(number, *line([12], number, word="v"))
        pool.add(number + 50, *line([12], number, word="w"))  # the same words: never drawn

    def drawn(control: str, text: str) -> tuple[str, list[int]]:
        (tree,), heads = Control.read(control).parses(trees, real, text=text, pool=pool)
        return bracketed(tree), heads.heads

    found = [drawn(kind, "a"), drawn(kind, "b"), drawn(f"{kind}@1", "a"), drawn(f"{kind}@2", "a")]
    assert drawn(kind, "a") == found[0]
    for i in range(2):
        assert len({str(one[i]) for one in found}) == 4


def test_random_tags_come_in_another_order_and_the_parses_stay():
    trees, real = line([12], "real")
    controls = [Control.read(name) for name in ("random-tags", "random-tags@1")]
    found = [control.parses(trees, real, text="a", pool=None) for control in controls]
    for made, heads in found:
        assert (made, heads.heads, heads.deprel) == (trees, real.heads, real.deprel)
        assert sorted(heads.upos) == sorted(real.upos)
    assert len({tuple(of.upos) for of in (real, *(heads for _, heads in found))}) == 3


def test_dummy_tags_are_one_for_each_form_and_the_parses_stay():
    forms = [f"w{i % 300}" for i in range(900)]
    own = [Tree("S", [Tree("NP", forms[:2]), *forms[2:]])], DependencyTree(forms, [0, *range(1, 900)])
    found = []
    for text, name in (("a", "dummy-tags"), ("b", "dummy-tags"), ("a", "dummy-tags@1")):
        (tree,), heads = Control.read(name).parses(*own, text=text, pool=None)
        assert (brackets(tree), heads.heads) == (brackets(own[0][0]), own[1].heads)
        found.append([heads.upos, heads.deprel, *map(list, zip(*word_categories([tree]), strict=True))])
        assert {*shared_categories([tree])} == {found[-1][2][0], "_"}  # both brackets begin with this word
    assert found[0] == found[1]
    for labels, other, count in zip(found[0], found[2], (17, 37, 26, 26, 26), strict=True):
        assert labels[:300] == labels[300:600] == labels[600:]
        assert labels != other
        assert len({*labels}) == count
        assert max(Counter(labels[:300]).values()) < 3 * 300 / count
    assert found[0][2] != found[0][3] != found[0][4]


def test_random_heads_fit_the_random_tree():
    # Each constituent of the tree is a subtree of the heads: all of its words but one depend on words inside it.
    words = [str(i) for i in range(9)]
    (tree,) = control_trees("random", [Tree("S", [*words])], "x")
    heads = control_heads("random", DependencyTree(words, [0, *range(1, 9)]), "x").heads
    for node in parts(tree):
        inside = {int(leaf) for leaf in node.leaves()}
        assert sum(heads[i] - 1 not in inside for i in inside) == 1


def test_noise_makes_the_share_of_heads_wrong():
    random = Random(1)
    true = [random_heads(random, 10) for _ in range(200)]
    wrong = {}
    for share in (0, 0.1, 0.4, 0.7, 1):
        noisy = [noisy_heads(heads, share, str(i)) for i, heads in enumerate(true)]
        wrong[share] = [(i, w) for i in range(200) for w in range(10) if noisy[i][w] != true[i][w]]
        assert len(wrong[share]) / 2000 == pytest.approx(share, abs=0.03)
    assert not wrong[0]
    assert len(wrong[1]) > 1990
    for less, more in ((0.1, 0.4), (0.4, 0.7)):  # those of a smaller share, and others
        assert len(set(wrong[less]) - set(wrong[more])) <= 0.02 * len(wrong[less])


def test_new_heads_are_all_equally_frequent():
    # A chain depends on the root 1; word 2 may go to the root's other words 3 and 4 alone, not to what is below it.
    heads = [0, 1, 1, 1, 2]
    found = Counter()
    for seed in range(4000):
        noisy = noisy_heads(heads, 0.2, str(seed))
        if [w for w in range(5) if noisy[w] != heads[w]] == [1]:
            found[noisy[1]] += 1
    assert set(found) == {3, 4}
    assert found[3] / found.total() == pytest.approx(0.5, abs=0.06)


def test_heads_without_another_choice_stay():
    assert noisy_heads([0], 1, "") == [0]
    # With both drawn again the root changes; the word below the root has no other head than the root.
    found = {(share, tuple(noisy_heads([0, 1], share, str(seed)))) for share in (0.5, 1) for seed in range(20)}
    assert found == {(0.5, (0, 1)), (0.5, (2, 0)), (1, (2, 0))}


@given(st.integers(1, 12), st.integers(), st.sampled_from([0.0, 0.3, 0.7, 1.0]))
def test_noisy_brackets(size, seed, share):
    true = random_tree(Random(seed), size)
    noisy = noisy_tree(true, share, Random(f"{seed} marks"), Random(f"{seed} draws"))
    assert noisy.leaves() == true.leaves()
    assert len(brackets(noisy)) == len(brackets(true))
    whole = {tuple(true.leaves())} if size > 1 else set()
    if share == 0:
        assert noisy == true
    elif share == 1:
        assert brackets(noisy) & brackets(true) == whole
    if noisy != true:
        assert all(len(node.children) > 1 for node in parts(noisy))
        (again,) = parse_brackets(bracketed(noisy), path="x", line=1)
        assert again == noisy


def test_noise_makes_the_share_of_brackets_wrong():
    trees = [random_tree(Random(i), 20) for i in range(100)]
    inner = [brackets(tree) - {tuple(tree.leaves())} for tree in trees]
    kept: list[set[tuple[int, tuple[str, ...]]]] = []
    for share in (0.1, 0.4, 0.7):
        kept.append(set())
        for i, tree in enumerate(trees):
            noisy = noisy_tree(tree, share, Random(f"{i} marks"), Random(f"{i} draws"))
            kept[-1] |= {(i, bracket) for bracket in brackets(noisy) & inner[i]}
        assert 1 - len(kept[-1]) / sum(map(len, inner)) == pytest.approx(share, abs=0.05)
    assert kept[2] < kept[1] < kept[0]


def test_shuffled_takes_the_other_line_whole():
    own = [Tree("S", ["a", "b"]), Tree("S", ["c"])], DependencyTree(list("abc"), [0, 1, 0], sentences=2)
    pool = SentencePool()
    pool.add(1, *own)
    columns = [["_"] * 3 + ["U"] + ["_"] * 3 + [label] + ["_"] * 2 for label in ("root", "obj", "det")]
    tree = Tree("S", [Tree("N", [Tree("T", ["x"])]), Tree("N-1", ["z", "y"])])
    pool.add(2, [tree], DependencyTree(list("xzy"), [0, 3, 1], columns))
    trees, heads = Control.read("shuffled").parses(*own, text="", pool=pool)
    assert [bracketed(tree) for tree in trees] == ["(S (_ (S (N (X a)))) (N-1 (_ (S (N (X b)))) (_ (S (N (X c))))))"]
    assert (heads.tokens, heads.heads, heads.sentences, heads.depth) == (list("abc"), [0, 3, 1], 1, 3)
    assert heads.deprel == ["root", "obj", "det"]
    assert heads.upos == ["_"] * 3


def test_shuffled_never_takes_the_same_words():
    pool = SentencePool()
    pool.add(1, [Tree("S", ["A", "b"])], None)
    pool.add(2, [Tree("S", ["a", "b", "c"])], None)
    pool.add(3, None, DependencyTree(["x", "y"], [0, 1]))  # no tree
    parses = Control.read("shuffled").parses([Tree("S", ["a", "B"])], None, text="", pool=pool)
    assert parses == (NoParse(NO_OTHER), None)
    with pytest.raises(ValueError, match="--control shuffled: expected other sentences to draw from, found none"):
        Control.read("shuffled").parses([Tree("S", ["a", "B"])], None, text="", pool=None)


def test_a_pool_does_not_grow_with_the_text():
    sizes = []
    for count in (MOST, 2 * MOST):
        pool, more = SentencePool(), SentencePool()
        for number in range(count):
            (pool if number < MOST else more).add(number, *line([3], number, word=f"{number}w"))
        pool.update(more)
        sizes.append(len(pickle.dumps(pool)))
    assert sizes[1] < 1.01 * sizes[0]


NAMES = {
    "flat": Control("flat"),
    "noise:20": Control("noise", percent=20),
    "noise:100@7": Control("noise", percent=100, seed=7),
    "random@2": Control("random", seed=2),
    "dummy-tags@3": Control("dummy-tags", seed=3),
}


@pytest.mark.parametrize(("text", "control"), NAMES.items())
def test_names(text, control):
    assert Control.read(text) == control
    assert Control.read(str(control)) == control
    assert str(control) == text


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (
            ["", "Flat", "tree", "flat@", "flat@x", "noise:0.2", "flat,random"],
            "right-branching, .*random-tags, dummy-tags or no-parse",
        ),
        (["noise", "noise:101", "flat:3"], "a percentage, an integer from 0 to 100, after"),
    ],
)
def test_other_names_are_refused(texts, expected):
    for text in texts:
        with pytest.raises(ValueError, match=f"--control: expected {expected}"):
            Control.read(text)

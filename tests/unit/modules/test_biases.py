"""Masks against the definitions, drawn by hand or written independently."""

from __future__ import annotations

from random import Random

import pytest
import torch

from fairseq_syntax.modules import numerics
from fairseq_syntax.modules.biases import (
    UNKNOWN,
    AttentionBias,
    BiasBuilder,
    Buckets,
    ParentScaling,
    RelativePosition,
    SyntacticDependencyOfInterest,
    SyntacticLocalRange,
    SyntaxAwareLocalAttention,
    SyntaxBias,
    TreeHeight,
    TreePath,
    bias_names,
    register_syntax_bias,
)
from fairseq_syntax.options import option
from fairseq_syntax.testing import random_features, random_tree
from small import padded
from syntax_data.features import INFINITE
from syntax_data.features.dependencies import head_feature
from syntax_data.features.distance import distance_feature, syntactic_distances
from syntax_data.features.word import word_feature
from syntax_data.trees.tree import DependencyTree, Tree
from time_limit import within

# The increase reflects lower credit losses; `reflects` is two subwords here.
WORD_OF = [0, 1, 2, 2, 3, 4, 5]
TREE = Tree(
    "S",
    [
        Tree("NP", ["The", "increase"]),
        Tree("VP", ["reflects", Tree("NP", ["lower", "credit", "losses"])]),
    ],
)
HEADS = DependencyTree(["The", "increase", "reflects", "lower", "credit", "losses"], [2, 3, 0, 6, 6, 3])


def slr(distance: torch.Tensor, form: str = "hard") -> torch.Tensor:
    return SyntacticLocalRange(form=form).log_mask(distance)


def soft_slr(distance: torch.Tensor, temperature: float) -> torch.Tensor:
    return SyntacticLocalRange(temperature=temperature).log_mask(distance)


def sdoi(word: torch.Tensor, head: torch.Tensor, subwords: str = "share") -> torch.Tensor:
    return SyntacticDependencyOfInterest(subwords=subwords).log_mask(word, head)


def drawn(*rows: str) -> torch.Tensor:
    """A matrix drawn with 1 and . for what is visible and hidden."""
    return torch.tensor([[c == "1" for c in row] for row in rows])


def visible(log_mask: torch.Tensor) -> torch.Tensor:
    assert log_mask.dtype == torch.float32
    assert ((log_mask == 0) | (log_mask == -torch.inf)).all()
    return log_mask == 0


def distances_of(trees: list[Tree]) -> torch.Tensor:
    """The distance feature of one-subword words and </s>, (1, n)."""
    words = sum(len(tree.leaves()) for tree in trees)
    return torch.tensor([distance_feature(range(words), syntactic_distances(trees))])


def slr_by_the_tree(tree: Tree) -> torch.Tensor:
    """Who sees whom by Hou 2024 §3.2, on the tree itself: leftmost and rightmost siblings."""
    parent: dict[int, int] = {}
    children: list[list[int]] = []  # of each node
    leaves: list[int] = []

    def add(node: Tree | str) -> int:
        while isinstance(node, Tree) and len(node.children) == 1:  # a unary chain is one node
            node = node.children[0]
        number = len(children)
        children.append([])
        if isinstance(node, str):
            leaves.append(number)
        else:
            for child in node.children:
                children[number].append(add(child))
                parent[children[number][-1]] = number
        return number

    add(tree)

    def outermost_leaf(node: int, side: int) -> int:
        while children[node]:
            node = children[node][side]
        return leaves.index(node)

    def range_end(leaf: int, side: int) -> int:
        node = leaf
        while node in parent and children[parent[node]][side] == node:  # the outermost child on this side
            node = parent[node]
        return outermost_leaf(parent[node], side) if node in parent else leaves.index(leaf)

    n = len(leaves)
    seen = torch.zeros(n, n, dtype=torch.bool)
    for i, leaf in enumerate(leaves):
        seen[i, range_end(leaf, 0) : range_end(leaf, -1) + 1] = True
    return seen


def test_hard_slr_equals_the_tree_definition_on_random_trees():
    random = Random(1)
    strict_differs = 0
    for _ in range(1000):
        tree = random_tree(random, random.randint(1, 14))
        expected = slr_by_the_tree(tree)
        n = len(expected)
        distance = distances_of([tree])
        assert torch.equal(visible(slr(distance))[0, :n, :n], expected), tree
        strict_differs += not torch.equal(visible(slr(distance, form="strict"))[0, :n, :n], expected)
    assert strict_differs > 500  # ties are the rule in n-ary trees, so the reading matters


def test_hard_slr_golden_matrix_with_subwords_and_end_of_sentence():
    distance = torch.tensor([distance_feature(WORD_OF, syntactic_distances([TREE]))])
    assert distance.tolist() == [[1, 3, 0, 2, 1, 1, INFINITE, INFINITE]]
    golden = drawn(
        "11......",  # The: its sibling
        "1111111.",  # increase: last of its phrase, so all that follows the phrase
        "1111....",  # re@@: back over the sentence; forward its own word
        "..11111.",  # flects: its own word, and all of its sibling
        "..11111.",  # lower: first of its phrase, so back over the verb phrase
        "....111.",  # credit: its siblings
        "....1111",  # losses: its siblings, and the end
        "11111111",  # </s>
    )
    assert torch.equal(visible(slr(distance))[0], golden)


def test_soft_slr_of_the_distance_transformer_by_hand():
    """τ = 10; trees as they are, and binarised to the right, where ties are none."""
    names = ["The", "increase", "reflects", "lower", "credit", "losses", "</s>"]
    whole = soft_slr(torch.tensor([[1, 3, 2, 1, 1, INFINITE, INFINITE]]), temperature=10)[0].exp()
    golden = {
        "The": [1, 1, 0.4013, 0.1807, 0.0903, 0.0452, 0],
        "increase": [1, 1, 1, 0.5498, 0.3292, 0.1971, 0],
        "reflects": [0.5987, 1, 1, 1, 0.5498, 0.3023, 0],
        "lower": [0.2475, 0.4502, 1, 1, 1, 0.5, 0],
        "credit": [0.0903, 0.1807, 0.4502, 1, 1, 1, 0],
        "losses": [0.0452, 0.0903, 0.2251, 0.5, 1, 1, 1],
        "</s>": [1] * 7,
    }
    for row, name in zip(whole, names, strict=True):
        torch.testing.assert_close(row, torch.tensor(golden[name]).float(), atol=5e-5, rtol=0)
    binary = soft_slr(torch.tensor([[1, 4, 3, 2, 1, INFINITE, INFINITE]]), temperature=10)[0].exp()
    first, last = [1, 1, 0.3543, 0.1422, 0.0640, 0.0320, 0], [0.0320, 0.0640, 0.1807, 0.4502, 1, 1, 1]
    torch.testing.assert_close(binary[[0, 5]], torch.tensor([first, last]), atol=5e-5, rtol=0)
    two = soft_slr(torch.tensor([[1, 1, INFINITE, 1, INFINITE, INFINITE]]), temperature=10)[0].exp()
    torch.testing.assert_close(two[5], torch.tensor([0.5, 0.5, 0.5, 1, 1, 1]))


def test_golden_matrices_with_subwords_and_end_of_sentence():
    distance = torch.tensor([[2, 0, 2, INFINITE, INFINITE]])  # a b@@ c d </s>, boundaries 2, 0, 2
    strict = drawn(
        "111..",  # a: the tie at d hides
        "111..",  # b@@
        ".111.",  # c
        "..111",  # d: the tie at a hides, the end shows
        "11111",
    )
    strict[3, 1] = True  # d: over the 0 inside the word
    assert torch.equal(visible(slr(distance, form="strict"))[0], strict)

    def alpha(difference: float) -> float:
        return float((torch.tanh(torch.tensor(difference / 2.0)) + 1) / 2)

    over, under = alpha(2), alpha(-2)
    soft = torch.tensor(
        [
            [1, 1, over, over * 0.5, 0],
            [1, 1, 1, under, 0],
            [under, 1, 1, 1, 0],
            [over * 0.5, over, 1, 1, 1],
            [1, 1, 1, 1, 1],
        ]
    )
    torch.testing.assert_close(soft_slr(distance, temperature=2)[0].exp(), soft)


@pytest.mark.parametrize("infinite_in_the_middle", [False, True])
def test_soft_slr_equals_the_product_of_its_definition(infinite_in_the_middle):
    random = Random(2)
    for _ in range(50):
        trees = [random_tree(random, random.randint(1, 8)) for _ in range(1 + infinite_in_the_middle)]
        distance = distances_of(trees)
        d = [float("inf") if v == INFINITE else float(v) for v in distance[0].tolist()]
        n = len(d)
        expected = torch.ones(n, n, dtype=torch.float64)
        for i in range(n):
            for j in range(n):
                r, between = (i, range(i + 1, j)) if j > i else (i - 1, range(j, i - 1))
                for t in between:
                    difference = 0.0 if d[r] == d[t] else d[r] - d[t]
                    x = torch.tensor(difference / 3.0, dtype=torch.float64)
                    expected[i, j] *= (torch.tanh(x) + 1) / 2
        actual = soft_slr(distance, temperature=3.0)[0].exp().double()
        torch.testing.assert_close(actual, expected, rtol=1e-4, atol=1e-6)


def test_soft_slr_tends_to_hard_but_on_ties():
    random = Random(3)
    for _ in range(200):
        distance = distances_of([random_tree(random, random.randint(1, 14))])
        soft = soft_slr(distance, temperature=1e-3)[0].exp()
        hard = visible(slr(distance))[0]
        strict = visible(slr(distance, form="strict"))[0]
        assert torch.equal(soft > 0, hard)
        assert torch.equal(soft == 1, strict)
        assert (soft[hard & ~strict] <= 0.5).all()  # a tie gives 1/2, k of them 1/2^k


def test_two_sentences_on_a_line_and_end_of_sentence():
    two = [Tree("S", ["a", "b"]), Tree("S", ["c", "d"])]
    golden = drawn(
        "11...",
        "11111",  # b: ∞ ties with the ∞ before </s>
        "1111.",  # c: looks back over everything
        "..111",
        "11111",
    )
    assert torch.equal(visible(slr(distances_of(two)))[0], golden)
    soft = soft_slr(distances_of(two), temperature=10)[0].exp()
    assert not soft.isnan().any()
    assert soft[1, 4] == 0.5  # ∞ against ∞
    assert soft[0, 2] == 0


@pytest.mark.parametrize("temperature", [1e-3, 10, 1e6])
def test_infinite_distances_hide_and_are_crossed_at_any_temperature(temperature):
    soft = soft_slr(torch.tensor([[65534, INFINITE, 65534, INFINITE]]), temperature=temperature)[0].exp()
    assert soft[0, 2] == soft[0, 3] == 0
    assert soft[2, 0] == 1  # from the first after an infinite one back over the largest finite one
    assert soft[1, 3] == 1  # from the last before an infinite one


def features_of(word_of: list[int], tree: DependencyTree) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.tensor([word_feature(word_of)]), torch.tensor([head_feature(word_of, tree)])


def test_sdoi_golden_matrices_with_subwords_and_end_of_sentence():
    word, head = features_of(WORD_OF, HEADS)
    #    The incr re@@ flects lower credit losses </s>
    share = drawn(
        "1111....",
        ".111....",
        "..11....",
        "..11....",
        "..111.1.",
        "..11.11.",
        "..11..1.",
        ".......1",
    )
    first = drawn(
        "111.....",
        ".11.....",
        "..1.....",
        "..11....",
        "..1.1.1.",
        "..1..11.",
        "..1...1.",
        ".......1",
    )
    assert torch.equal(visible(sdoi(word, head))[0], share)
    assert torch.equal(visible(sdoi(word, head, subwords="first"))[0], first)


@pytest.mark.parametrize("words", [1, 2, 7, 8, 9, 16, 17, 40])
@pytest.mark.parametrize("subwords", ["share", "first"])
@pytest.mark.parametrize("waits", [False, True])  # as on a CPU; as where reading a number waits
def test_sdoi_of_the_deepest_tree_is_made_and_a_cycle_refused(words, subwords, waits, monkeypatch):
    monkeypatch.setattr(numerics, "is_asynchronous", lambda device: waits)
    word, head = features_of(list(range(words)), DependencyTree(["x"] * words, list(range(words))))
    whole = torch.ones(words, words, dtype=torch.bool).tril()
    assert torch.equal(visible(sdoi(word, head, subwords=subwords))[0, :words, :words], whole)
    word, head = word.repeat(3, 1), head.repeat(3, 1)
    head[1, words // 2] = words  # of the second sentence, the middle word depends on the last
    places = "|".join(map(str, range(words // 2, words)))
    found = "a cycle" if waits else rf"a cycle through position ({places}), word \1, of sentence 1 of the batch"
    with within(20), pytest.raises(RuntimeError if waits else ValueError, match=f"found {found}"):
        sdoi(word, head, subwords=subwords)


#: Each kind, in each of its forms.
ALL = [
    *(SyntacticLocalRange(form=form) for form in ("soft", "hard", "strict")),
    *(SyntacticDependencyOfInterest(subwords=subwords) for subwords in ("share", "first")),
    SyntaxAwareLocalAttention(distance=1),
    ParentScaling(),
    RelativePosition(),
    TreePath(),
    TreeHeight(),
]


def matrix(bias: AttentionBias | Buckets) -> tuple[torch.Tensor, float]:
    """Numbers of a bias, (batch or 1, n, n), and the neutral one."""
    if isinstance(bias, Buckets):
        return bias.numbers, UNKNOWN
    return (bias.factor[:, 0], 1.0) if bias.bias is None else (bias.bias[:, 0], 0.0)


@pytest.mark.parametrize("left", [True, False])
@pytest.mark.parametrize("kind", ALL, ids=str)
def test_biases_do_not_depend_on_padding_and_are_neutral_there_and_without_a_parse(kind, left):
    random = Random(4)
    lines = [random_features(random, words, words + 2) for words in (1, 4, 7)]
    unparsed = {name: [0] * 5 if name == "word" else [UNKNOWN] * 5 for name in lines[0]}
    width = 12
    features = padded([*lines, unparsed], ("word", "head", "distance"), width=width, left=left)
    built = BiasBuilder([kind])(features)
    assert built.has_parse.tolist() == [[True]] * 3 + [[not kind.features]]
    found, neutral = matrix(built.biases[0])
    found = found.expand(4, -1, -1).clone()
    for row, line in enumerate(lines):
        n = len(line["word"])
        real = slice(width - n, width) if left else slice(0, n)
        (bias,) = BiasBuilder([kind])({name: torch.tensor([values]) for name, values in line.items()}).biases
        torch.testing.assert_close(found[row][real, real], matrix(bias)[0][0])
        found[row][real, real] = neutral
    assert found.eq(neutral).all() == bool(kind.features)


def test_a_bias_without_features_needs_tokens_alone():
    build = BiasBuilder([RelativePosition()], position=RelativePosition())
    assert build.features == ()
    for features in (None, {}):
        built = build(features, torch.zeros(3, 4, dtype=torch.long))
        assert built.biases[0].numbers.shape == built.position.numbers.shape == (1, 4, 4)
        assert built.has_parse.tolist() == [[True]] * 3
    assert BiasBuilder([SyntacticDependencyOfInterest(), SyntacticLocalRange()]).features == (
        "word",
        "head",
        "distance",
    )


def test_a_kind_with_features_whose_bias_does_not_know_where_they_are_missing_is_refused():
    class Plain(SyntaxBias):
        name = "plain"
        features = ("word",)

        def bias(self, word):
            return word

    with pytest.raises(TypeError, match="plain: expected an AttentionBias or Buckets, found Tensor"):
        BiasBuilder([Plain()])({"word": torch.zeros(1, 3)})


@pytest.mark.parametrize(
    ("name", "features", "wrong"),
    [
        ("slr", ("word",), "expected a new name for a syntax mask"),
        ("my-mask", ("word",), "expected a new name for a syntax mask"),
        ("none", ("word",), "expected a new name for a syntax mask"),
        ("mine", ("tree",), "mine: expected features among word, distance"),
        ("mine", ("word",), "mine: --slr-temperature is the option of another syntax mask"),
    ],
)
def test_a_kind_that_cannot_be_registered_is_refused(name, features, wrong):
    attributes = {
        "features": features,
        "temperature": option(1.0, help="…", name="slr_temperature"),
        "__annotations__": {"temperature": float},
    }
    before = bias_names()
    with pytest.raises(ValueError, match=wrong):
        register_syntax_bias(name)(type("Mine", (SyntaxBias,), attributes))
    assert bias_names() == before


def test_a_mask_is_the_exponential_of_its_logarithm_and_a_normal_one_0_where_that_is_tiny():
    log_mask = torch.tensor([0.0, -1.0, -50.0, -59.0, -61.0, -90.0, -1000.0, -torch.inf])
    expert = AttentionBias(bias=log_mask.view(1, 1, 1, -1))
    assert torch.equal(expert.matrix.flatten(), log_mask.exp())
    torch.testing.assert_close(expert.normal_mask.flatten()[:4], log_mask[:4].exp(), atol=0, rtol=1e-6)
    assert not expert.normal_mask.flatten()[4:].any()

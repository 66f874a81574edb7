"""Buckets of the learned biases, drawn by hand or found on the tree itself; their tables."""

from __future__ import annotations

from random import Random

import pytest
import torch

from fairseq_syntax.modules.biases import (
    UNKNOWN,
    BiasTable,
    Buckets,
    RelativePosition,
    TreeHeight,
    TreePath,
)
from syntax_data.features import INFINITE
from syntax_data.features.dependencies import head_feature
from syntax_data.features.distance import distance_feature
from syntax_data.features.word import word_feature
from syntax_data.trees.tree import DependencyTree

LEARNED = [RelativePosition(), TreeHeight(), TreePath()]

# The increase reflects lower credit losses; `reflects` is two subwords here.
WORD_OF = [0, 1, 2, 2, 3, 4, 5]
HEADS = [2, 3, 0, 6, 6, 3]


def row(first: int, *rest: int) -> torch.Tensor:
    return torch.tensor([first, *rest])


def test_golden_rows_of_relative_position():
    found = RelativePosition().bias(torch.arange(300)[None]).numbers
    assert found.shape == (1, 300, 300)
    near = list(range(22, 39))  # itself, and 1 to 16 to the right
    wide = [39] * 6 + [40] * 9 + [41] * 14 + [42] * 18 + [43] * 27  # 17-22, 23-31, 32-45, 46-63, 64-90
    assert found[0, 0].tolist() == near + wide + [44] * 209  # 91 and more
    assert found[0, 299].tolist() == [0] * 209 + [44 - b for b in wide[::-1]] + [44 - b for b in near[::-1]]
    assert found[0, 20, 18:23].tolist() == [20, 21, 22, 23, 24]
    assert RelativePosition.buckets == 45


def test_golden_matrix_of_tree_paths():
    word, head = torch.tensor([word_feature(WORD_OF)]), torch.tensor([head_feature(WORD_OF, tree(HEADS))])
    x, o = 51, 50  # no path; the position itself
    # To the right 25 more; one step up 5, one down 1.
    golden = [
        # The incr re@@ flects lower credit losses </s>
        [o, 30, 35, 35, 37, 37, 36, x],
        [1, o, 30, 30, 32, 32, 31, x],
        [2, 1, o, 25, 27, 27, 26, x],
        [2, 1, 0, o, 27, 27, 26, x],
        [12, 11, 10, 10, o, 31, 30, x],
        [12, 11, 10, 10, 6, o, 30, x],
        [7, 6, 5, 5, 1, 1, o, x],
        [x, x, x, x, x, x, x, o],
    ]
    assert TreePath().bias(word, head).numbers[0].tolist() == golden


def test_golden_matrix_of_tree_heights():
    # a b@@ b c | d </s>: boundaries 2, 0, 12 (more than told apart), infinite between sentences and before the end
    distance = torch.tensor([[2, 0, 12, INFINITE, INFINITE, INFINITE]])
    golden = [
        [12, 15, 15, 23, 24, 24],
        [9, 12, 13, 23, 24, 24],
        [9, 11, 12, 23, 24, 24],
        [1, 1, 1, 12, 24, 24],
        [0, 0, 0, 0, 12, 24],
        [0, 0, 0, 0, 0, 12],
    ]
    assert TreeHeight().bias(distance).numbers[0].tolist() == golden


def tree(heads: list[int]) -> DependencyTree:
    return DependencyTree([f"w{i}" for i in range(len(heads))], heads)


def chain(heads: list[int], word: int) -> list[int]:
    """A word and its ancestors."""
    found = [word]
    while heads[found[-1]]:
        found.append(heads[found[-1]] - 1)
    return found


def test_tree_paths_are_those_of_the_tree():
    """Walked word by word, in forests of deep and flat trees."""
    random = Random(5)
    seen = set()
    for _ in range(120):
        words = random.randint(1, 14)
        nearest = random.random()  # deep trees, and flat ones
        heads = [
            0 if not i or random.random() < 0.1 else i if random.random() < nearest else random.randint(1, i)
            for i in range(words)
        ]
        if random.random() < 0.5:  # the other way round
            heads = [words + 1 - head if head else 0 for head in reversed(heads)]
        word_of = sorted([*range(words), *(random.randrange(words) for _ in range(3))])
        found = (
            TreePath()
            .bias(torch.tensor([word_feature(word_of)]), torch.tensor([head_feature(word_of, tree(heads))]))
            .numbers[0]
        )
        for i, a in enumerate(word_of):
            for j, b in enumerate(word_of):
                up, down = chain(heads, a), chain(heads, b)
                common = [w for w in up if w in down]
                if i == j:
                    expected = 50
                elif not common:
                    expected = 51
                else:
                    u, v = min(up.index(common[0]), 4), min(down.index(common[0]), 4)
                    expected = 25 * (j > i) + 5 * u + v
                assert found[i, j] == expected, (heads, word_of, i, j)
                seen.add(expected)
    assert len(seen) == 52  # each of them is met


def test_tree_heights_are_the_greatest_distances_between():
    random = Random(6)
    for _ in range(30):
        distances = [random.choice([0, 1, 2, 5, 9, 10, 11, 40, INFINITE]) for _ in range(random.randint(1, 12))]
        found = TreeHeight().bias(torch.tensor([distances])).numbers[0]
        for i in range(len(distances)):
            for j in range(i + 1, len(distances)):
                greatest = max(distances[i:j])
                height = 11 if greatest == INFINITE else min(greatest, 10)
                assert (found[i, j], found[j, i]) == (13 + height, 11 - height)


def test_autocast_counts_ancestors_exactly():
    words = 300  # bfloat16 has no 257
    deep = tree(list(range(words)))
    word, head = torch.tensor([word_feature(range(words))]), torch.tensor([head_feature(range(words), deep)])
    expected = TreePath().bias(word, head).numbers
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(TreePath().bias(word, head).numbers, expected)


def test_a_table_gives_each_head_its_number():
    table = BiasTable(heads=2, buckets=3)
    assert table.weight.eq(0).all()  # attention begins as without
    with torch.no_grad():
        table.weight.copy_(torch.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]))
    bias = table(Buckets(torch.tensor([[[0, 2], [UNKNOWN, 1]]]))).bias
    assert bias.tolist() == [[[[1, 3], [0, 2]], [[4, 6], [0, 5]]]]
    bias.sum().backward()
    assert table.weight.grad.eq(1).all()


def test_a_table_in_half_precision_gives_float32():
    table = BiasTable(heads=2, buckets=3).half()
    assert table(Buckets(torch.zeros(1, 2, 2, dtype=torch.long))).bias.dtype == torch.float32


@pytest.mark.parametrize("mask", LEARNED, ids=lambda mask: mask.name)
def test_every_bucket_has_a_number(mask):
    """The greatest sentences, so that no bucket lies beyond the table."""
    words = 150
    word = torch.tensor([word_feature(range(words))])
    features = {
        "word": word,
        "head": torch.tensor([head_feature(range(words), tree(list(range(words))))]),
        "distance": torch.tensor([distance_feature(range(words), list(range(1, words)))]),
    }
    numbers = mask.bias(*([features[name] for name in mask.features] or [torch.arange(words + 1)[None]])).numbers
    table = mask.build_layer_module(heads=1, head_dim=4, embed_dim=4)
    assert numbers.min() >= 0
    assert numbers.max() < table.weight.shape[1]
    table(Buckets(numbers)).bias.sum().backward()
    assert table.weight.grad.sum() == (words + 1) ** 2

"""Matrices of dependency trees: the masks sla and parent drawn by hand, distances against a search for paths."""

from __future__ import annotations

import math
from random import Random

import pytest
import torch

from fairseq_syntax.modules.biases import (
    ParentScaling,
    SyntaxAwareLocalAttention,
)
from fairseq_syntax.modules.biases.parent import ParentIgnoring
from fairseq_syntax.modules.dependency import tree_distances
from fairseq_syntax.modules.tree_mixing import descendant_depths, descendant_weights
from syntax_data.features.dependencies import head_feature
from syntax_data.features.word import word_feature
from syntax_data.trees.tree import DependencyTree

#: The increase reflects lower credit losses.
HEADS = [2, 3, 0, 6, 6, 3]
WHOLE = [0, 1, 2, 3, 4, 5]
#: `reflects` is two subwords.
SPLIT = [0, 1, 2, 2, 3, 4, 5]


def features(word_of: list[int], heads: list[int]) -> tuple[torch.Tensor, torch.Tensor]:
    """The features word and head of one sentence, (1, n) each."""
    tree = DependencyTree(["w"] * len(heads), heads)
    return torch.tensor([word_feature(word_of)]), torch.tensor([head_feature(word_of, tree)])


def forest(random: Random, words: int) -> list[int]:
    """Heads of one or more random trees over some words, from 1; 0 for roots."""
    order = random.sample(range(1, words + 1), words)
    heads = dict.fromkeys(order, 0)
    for place, word in enumerate(order[1:], start=1):
        heads[word] = random.choice([0, *order[:place]])
    return [heads[word] for word in range(1, words + 1)]


def steps_down(heads: list[int]) -> dict[tuple[int, int], int]:
    """How many steps lead down from the first to the second of two words, for each word and its ancestors."""
    found = {}
    for word in range(len(heads)):
        ancestor, steps = word, 0
        while True:
            found[ancestor, word] = steps
            if heads[ancestor] == 0:
                break
            ancestor, steps = heads[ancestor] - 1, steps + 1
    return found


def shortest_paths(heads: list[int]) -> list[list[float]]:
    """Floyd and Warshall's distances between words, over edges to heads."""
    n = len(heads)
    distance = [[0.0 if i == j else math.inf for j in range(n)] for i in range(n)]
    for word, head in enumerate(heads):
        if head:
            distance[word][head - 1] = distance[head - 1][word] = 1.0
    for k in range(n):
        for i in range(n):
            for j in range(n):
                distance[i][j] = min(distance[i][j], distance[i][k] + distance[k][j])
    return distance


def random_forests():
    random = Random(4)
    for _ in range(100):
        words = random.randint(1, 10)
        word_of = sorted([*range(words), *(random.randrange(words) for _ in range(random.randint(0, 4)))])
        yield word_of, forest(random, words)


def test_tree_distances_are_the_shortest_paths_on_random_forests():
    for word_of, heads in random_forests():
        found = tree_distances(*features(word_of, heads))[0]
        expected = shortest_paths(heads)
        n = len(word_of)
        for i in range(n):
            for j in range(n):
                steps = expected[word_of[i]][word_of[j]]
                assert int(found[i, j]) == steps if steps < math.inf else int(found[i, j]) > n
        assert (found[n, :n] > n).all()  # no way leads to </s>
        assert (found[:n, n] > n).all()


def test_descents_lead_from_first_subwords_to_all_subwords_of_descendants_on_random_forests():
    for word_of, heads in random_forests():
        found = descendant_depths(*features(word_of, heads))[0]
        down = steps_down(heads)
        for i, word in enumerate(word_of):
            first = not i or word_of[i - 1] != word
            for j, other in enumerate(word_of):
                expected = down.get((word, other), 0) if first else 0
                assert int(found[i, j]) == expected, (word_of, heads, i, j)
        assert not found[-1].any()
        assert not found[:, -1].any()


@pytest.mark.parametrize(
    ("word_of", "expected"),
    [
        (WHOLE, {1: {0: 1}, 5: {3: 1, 4: 1}, 2: {0: 2, 1: 1, 3: 2, 4: 2, 5: 1}}),
        (SPLIT, {1: {0: 1}, 6: {4: 1, 5: 1}, 2: {0: 2, 1: 1, 4: 2, 5: 2, 6: 1}}),
    ],
)
def test_descents_by_hand(word_of, expected):
    found = descendant_depths(*features(word_of, HEADS))[0]
    assert {i: {j: int(d) for j, d in enumerate(row) if d} for i, row in enumerate(found) if row.any()} == expected


def test_descendant_weights_by_hand():
    descent = descendant_depths(*features(SPLIT, HEADS))
    weights = descendant_weights(descent)[0]
    torch.testing.assert_close(weights[2], torch.tensor([1, 2, 0, 0, 1, 1, 2, 0]) / 7)
    torch.testing.assert_close(weights[6], torch.tensor([0, 0, 0, 0, 0.5, 0.5, 0, 0]))
    assert not weights[[0, 3, 4, 5, 7]].any()  # leaves, the later subword, </s>
    hidden = descent.clone()
    hidden[0, 2, 6] = 0
    torch.testing.assert_close(descendant_weights(hidden)[0, 2], torch.tensor([1, 2, 0, 0, 1, 1, 0, 0]) / 5)


def sla(word_of: list[int], heads: list[int], **options) -> torch.Tensor:
    return SyntaxAwareLocalAttention(**options).log_mask(*features(word_of, heads))


def drawn(log_mask: torch.Tensor) -> list[str]:
    assert ((log_mask == 0) | (log_mask == -torch.inf)).all()
    return ["".join("1" if value == 0 else "." for value in row) for row in log_mask[0]]


@pytest.mark.parametrize(
    ("neighbours", "expected"),
    [
        (
            False,
            [
                "11.....1",  # The: increase
                "1111...1",  # increase: The, reflects
                ".111..11",  # re@@: increase, losses
                ".111..11",  # flects
                "....1.11",  # lower: losses
                ".....111",  # credit: losses
                "..111111",  # losses: reflects, lower, credit
                "11111111",  # </s>
            ],
        ),
        (
            True,
            [
                "1111...1",
                "1111..11",
                "11111.11",
                "11111.11",
                ".1111111",
                "..111111",
                "..111111",
                "11111111",
            ],
        ),
    ],
)
def test_sla_by_hand(neighbours, expected):
    assert drawn(sla(SPLIT, HEADS, distance=1, neighbours=neighbours)) == expected


def test_sla_sees_into_another_sentence_of_the_line_by_the_neighbours_at_the_border():
    heads = [0, 1, 2, 0, 4, 5]  # a b c | d e f, chains
    assert drawn(sla(WHOLE, heads, distance=1, neighbours=False))[:6] == [
        "11....1", "111...1", ".11...1", "...11.1", "...1111", "....111",
    ]  # fmt: skip
    assert drawn(sla(WHOLE, heads, distance=1))[:6] == [
        "111...1", "111...1", "11111.1", ".111111", "...1111", "...1111",
    ]  # fmt: skip


def test_sla_shows_everything_from_the_longest_distance_on():
    assert not sla(SPLIT, HEADS, distance=4, neighbours=False).any()


def test_parents_of_the_factor_by_hand():
    found = ParentScaling().bias(*features(SPLIT, HEADS)).factor[0, 0]

    def density(*away: float) -> torch.Tensor:
        return torch.tensor([math.exp(-(x**2) / 2) / math.sqrt(2 * math.pi) for x in away])

    torch.testing.assert_close(found[0, :4], density(1, 0, 1, 2))  # The: around increase
    torch.testing.assert_close(
        found[1], density(2.5, 1.5, 0.5, 0.5, 1.5, 2.5, 3.5, 4.5)
    )  # increase: around re@@ flects
    assert found.argmax(dim=1)[[0, 4, 5, 7]].tolist() == [1, 6, 6, 7]
    for row in (1, 2, 3, 6):  # increase, both subwords of the root, losses: the middle of `reflects`
        assert float(found[row, 2]) == float(found[row, 3]) == pytest.approx(0.3521, abs=5e-5)


def test_a_factor_of_the_parent_makes_it_the_least_where_scores_are_negative():
    factor = ParentScaling().bias(*features(WHOLE, HEADS)).factor[0, 0, 4]  # credit: losses, number 5
    scores = torch.arange(1.0, 8)
    expected = [0.0417, 0.0417, 0.0422, 0.0517, 0.1397, 0.4564, 0.2267]
    torch.testing.assert_close((factor * scores).softmax(0), torch.tensor(expected), atol=5e-5, rtol=0)
    negative, positive = ((factor * torch.full((7,), x)).softmax(0) for x in (-2.0, 2.0))
    assert positive[5].item() == pytest.approx(0.2316, abs=5e-5)
    assert int(negative.argmin()) == 5
    assert float(negative[5]) == pytest.approx(0.0808, abs=5e-5)


def test_parents_stay_in_their_sentence_of_the_line():
    found = ParentScaling().bias(*features(WHOLE, [2, 0, 2, 6, 6, 0])).factor[0, 0]
    assert found[:6].argmax(dim=1).tolist() == [1, 1, 1, 5, 5, 5]


def test_parent_ignoring_leaves_rows_of_each_sentence_and_head_as_they_are_in_training():
    word, head = features(SPLIT, HEADS)
    expert = ParentScaling().bias(word.expand(50, -1), head.expand(50, -1))
    ignoring = ParentIgnoring(0.3, heads=4)
    torch.manual_seed(1)
    rows = (ignoring(expert, None).factor == 1).all(dim=3)
    assert rows.shape == (50, 4, 8)
    assert float(rows.float().mean()) == pytest.approx(0.3, abs=0.05)
    assert not (rows == rows[:, :1]).all()
    assert not (rows == rows[:1]).all()
    torch.testing.assert_close(ignoring.eval()(expert, None).factor, expert.factor)
    assert (ParentIgnoring(1.0, heads=4)(expert, None).factor == 1).all()

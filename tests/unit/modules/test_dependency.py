"""Dependency trees as matrices, masks and buckets: their definitions, walked from word to word on random forests."""

from __future__ import annotations

import math
from collections.abc import Iterator
from random import Random

import pytest
import torch

from fairseq_syntax.modules import numerics
from fairseq_syntax.modules.biases import (
    BiasBuilder,
    ParentScaling,
    SyntacticDependencyOfInterest,
    SyntaxAwareLocalAttention,
    TreePath,
)
from fairseq_syntax.modules.biases.parent import ParentIgnoring
from fairseq_syntax.modules.dependency import tree_distances
from fairseq_syntax.modules.tree_mixing import descendant_depths
from syntax_data.features.dependencies import head_feature
from syntax_data.features.word import word_feature
from syntax_data.trees.tree import DependencyTree
from time_limit import within

#: The increase reflects lower credit losses.
HEADS = [2, 3, 0, 6, 6, 3]
WHOLE = [0, 1, 2, 3, 4, 5]
#: `reflects` is two subwords.
SPLIT = [0, 1, 2, 2, 3, 4, 5]


def features(word_of: list[int], heads: list[int]) -> tuple[torch.Tensor, torch.Tensor]:
    """The features word and head of one sentence, (1, n) each."""
    tree = DependencyTree(["w"] * len(heads), heads)
    return torch.tensor([word_feature(word_of)]), torch.tensor([head_feature(word_of, tree)])


class Line:
    """One or more random trees over words, deep or flat, split into subwords; ``</s>`` is the last word."""

    def __init__(self, random: Random):
        words = random.randint(1, 16)
        order = random.sample(range(1, words + 1), words)
        deep, heads = random.random(), [0] * words
        for place, word in enumerate(order[1:], start=1):
            nearest = random.random() < deep
            above = order[max(0, place - 2) if nearest else 0 : place]
            heads[word - 1] = random.choice(above) if random.random() < 0.9 else 0
        word_of = sorted([*range(words), *(random.randrange(words) for _ in range(random.randint(0, 4)))])
        self.features = features(word_of, heads)
        self.word_of, self.heads = [*word_of, words], [*heads, 0]

    def steps(self, word: int, other: int) -> tuple[int, int] | None:
        """The steps up from a word to the lowest common ancestor, and down to the other; ``None``: there is none."""
        up, down = self.chain(word), self.chain(other)
        return next(((steps, down.index(ancestor)) for steps, ancestor in enumerate(up) if ancestor in down), None)

    def chain(self, word: int) -> list[int]:
        found = [word]
        while self.heads[found[-1]]:
            found.append(self.heads[found[-1]] - 1)
        return found

    def distance(self, word: int, other: int) -> int:
        steps = self.steps(word, other)
        return 2 * len(self.word_of) + 1 if steps is None else sum(steps)

    def first(self, i: int) -> bool:
        return not i or self.word_of[i - 1] != self.word_of[i]


def depth(line: Line, i: int, j: int) -> int:
    up, down = line.steps(line.word_of[i], line.word_of[j]) or (1, 0)
    return down if up == 0 and line.first(i) else 0


def is_ancestor(line: Line, i: int, j: int) -> bool:
    return line.word_of[j] in line.chain(line.word_of[i])


def is_near(line: Line, i: int, j: int, words: tuple[int, ...] = (0,)) -> bool:
    beside = [line.word_of[i] + offset for offset in words]
    near = any(0 <= word < len(line.heads) and line.distance(word, line.word_of[j]) <= 2 for word in beside)
    return near or len(line.word_of) - 1 in (i, j)


def path(line: Line, i: int, j: int) -> int:
    steps = line.steps(line.word_of[i], line.word_of[j])
    if i == j or steps is None:
        return 50 if i == j else 51
    return 25 * (j > i) + 5 * min(steps[0], 4) + min(steps[1], 4)


def visible(log_mask: torch.Tensor) -> torch.Tensor:
    assert log_mask.dtype == torch.float32
    assert ((log_mask == 0) | (log_mask == -torch.inf)).all()
    return log_mask == 0


def sdoi(*of: torch.Tensor, subwords: str = "share") -> torch.Tensor:
    return visible(SyntacticDependencyOfInterest(subwords=subwords).log_mask(*of))


def sla(*of: torch.Tensor, neighbours: bool = True) -> torch.Tensor:
    build = BiasBuilder([SyntaxAwareLocalAttention(distance=2, neighbours=neighbours)])
    return visible(build(dict(zip(("word", "head"), of, strict=True))).biases[0].bias[:, 0])


MATRICES = {
    "distances": (tree_distances, lambda line, i, j: line.distance(line.word_of[i], line.word_of[j])),
    "depths": (descendant_depths, depth),
    "sdoi": (sdoi, is_ancestor),
    "sdoi, first": (
        lambda *of: sdoi(*of, subwords="first"),
        lambda line, i, j: i == j or (is_ancestor(line, i, j) and line.first(j)),
    ),
    "sla": (sla, lambda line, i, j: is_near(line, i, j, (-1, 0, 1))),
    "sla, no neighbours": (lambda *of: sla(*of, neighbours=False), is_near),
    "paths": (lambda *of: TreePath().bias(*of).numbers, path),
}


def lines() -> Iterator[Line]:
    random = Random(4)
    return (Line(random) for _ in range(100))


@pytest.mark.parametrize("name", MATRICES)
def test_matrices_are_their_definitions_on_random_forests(name):
    compute, expected = MATRICES[name]
    seen = set()
    for line in lines():
        n = len(line.word_of)
        matrix = [[int(expected(line, i, j)) for j in range(n)] for i in range(n)]
        assert compute(*line.features)[0].int().tolist() == matrix, (line.word_of, line.heads)
        seen |= {number for row in matrix for number in row}
    assert name != "paths" or seen == set(range(52))  # each bucket is met


@pytest.mark.parametrize("words", [1, 2, 8, 9, 17, 40])
@pytest.mark.parametrize("waits", [False, True])  # as on a CPU; as where reading a number waits
def test_the_deepest_tree_is_walked_and_a_cycle_refused(words, waits, monkeypatch):
    monkeypatch.setattr(numerics, "is_asynchronous", lambda device: waits)
    word, head = features(list(range(words)), list(range(words)))
    whole = torch.ones(words, words, dtype=torch.bool).tril()
    assert torch.equal(sdoi(word, head)[0, :words, :words], whole)
    word, head = word.repeat(3, 1), head.repeat(3, 1)
    head[1, words // 2] = words  # of the second sentence, the middle word depends on the last
    places = "|".join(map(str, range(words // 2, words)))
    found = "a cycle" if waits else rf"a cycle through position ({places}), word \1, of sentence 1 of the batch"
    with within(20), pytest.raises(RuntimeError if waits else ValueError, match=f"found {found}"):
        sdoi(word, head)


def test_autocast_counts_ancestors_exactly():
    of_chain = features(list(range(300)), list(range(300)))  # bfloat16 has no 257
    expected = TreePath().bias(*of_chain).numbers
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(TreePath().bias(*of_chain).numbers, expected)


def test_parents_of_the_factor_by_hand():
    found = ParentScaling().bias(*features(SPLIT, HEADS)).factor[0, 0]

    def density(*away: float) -> torch.Tensor:
        return torch.tensor([math.exp(-(x**2) / 2) / math.sqrt(2 * math.pi) for x in away])

    torch.testing.assert_close(found[0, :4], density(1, 0, 1, 2))  # The: around increase
    for row in (1, 2, 3, 6):  # increase, both subwords of the root, losses: the middle of `reflects`
        torch.testing.assert_close(found[row], density(2.5, 1.5, 0.5, 0.5, 1.5, 2.5, 3.5, 4.5))
    assert found.argmax(dim=1)[[0, 4, 5, 7]].tolist() == [1, 6, 6, 7]
    two = ParentScaling().bias(*features(WHOLE, [2, 0, 2, 6, 6, 0])).factor[0, 0]  # two sentences on the line
    assert two[:6].argmax(dim=1).tolist() == [1, 1, 1, 5, 5, 5]


def test_a_factor_of_the_parent_makes_it_the_least_where_scores_are_negative():
    factor = ParentScaling().bias(*features(WHOLE, HEADS)).factor[0, 0, 4]  # credit: losses, number 5
    expected = [0.0417, 0.0417, 0.0422, 0.0517, 0.1397, 0.4564, 0.2267]
    weights = (factor * torch.arange(1.0, 8)).softmax(0)
    torch.testing.assert_close(weights, torch.tensor(expected), atol=5e-5, rtol=0)
    assert int((factor * -2.0).softmax(0).argmin()) == 5


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

"""Features of an example are those of its segments, as its tokens are."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest
import torch

import systems
from fairseq_syntax.data.composition import Segment, compose
from fairseq_syntax.modules.biases import (
    UNKNOWN,
    BiasBuilder,
    SyntacticDependencyOfInterest,
    SyntacticLocalRange,
    SyntaxAwareLocalAttention,
    TreeHeight,
)
from fairseq_syntax.modules.heads import parent_targets
from fairseq_syntax.modules.syntax_batch import SyntaxBatch
from fairseq_syntax.modules.tree_mixing import Descendants
from syntax_data.features import INFINITE as INF

#: "The in crease fell ." and "Losses grew .", as a data-bin has them.
INCREASE = {
    "word": [0, 1, 1, 2, 3, 4],
    "head": [2, 3, 3, 0, 3, 0],
    "distance": [1, 0, 2, 2, INF, INF],
    "upos": [1, 2, 2, 3, 4, 0],
}
LOSSES = {"word": [0, 1, 2, 3], "head": [2, 0, 2, 0], "distance": [1, 1, INF, INF], "upos": [2, 3, 4, 0]}


def segment(features, before=1, *, without=()):
    values = {name: torch.tensor([] if name in without else row).long() for name, row in features.items()}
    return Segment(values, len(features["word"]), before)


def lists(composed):
    return {name: values.tolist() for name, values in composed.items()}


def test_golden_features_of_a_pair_of_segments():
    assert lists(compose([segment(INCREASE), segment(LOSSES)])) == {
        "word": [0, 1, 2, 2, 3, 4, 5, 6, 7, 8, 9, 10],
        "head": [0, 3, 4, 4, 0, 4, 0, 0, 9, 0, 9, 0],
        "special": [1, 0, 0, 0, 0, 0, 1, 1, 0, 0, 0, 1],
        "distance": [INF, 1, 0, 2, 2, INF, INF, INF, 1, 1, INF, INF],
        "upos": [0, 1, 2, 2, 3, 4, 0, 0, 2, 3, 4, 0],
    }


@pytest.mark.parametrize(
    ("length", "word", "head", "distance"),
    [
        (4, [0, 1, 2, 2], [0, 3, 0, 0], [INF, 1, 0, INF]),
        (5, [0, 1, 2, 2, 3], [0, 3, 4, 4, 0], [INF, 1, 0, 2, INF]),
        (6, [0, 1, 2, 2, 3, 4], [0, 3, 4, 4, 0, 4], [INF, 1, 0, 2, 2, INF]),
        (8, [0, 1, 2, 2, 3, 4, 5, 6], [0, 3, 4, 4, 0, 4, 0, 0], [INF, 1, 0, 2, 2, INF, INF, INF]),
    ],
)
def test_golden_features_of_an_example_that_is_cut(length, word, head, distance):
    cut = lists(compose([segment(INCREASE), segment(LOSSES)], length))
    assert (cut["word"], cut["head"], cut["distance"]) == (word, head, distance)
    assert cut["special"] == [1, 0, 0, 0, 0, 0, 1, 1][:length]


@pytest.mark.parametrize("most", range(8))
def test_a_segment_that_is_cut_is_followed_by_the_next_as_if_it_had_been_that_short(most):
    first, second = segment(INCREASE), segment(LOSSES)
    composed = lists(compose([replace(first, most=most), second]))
    cut, alone = lists(compose([first], most)), lists(compose([second]))
    words = max(cut["word"], default=-1) + 1
    for name, values in composed.items():
        moved = [v + words if name == "word" or (name == "head" and v) else v for v in alone[name]]
        assert values == cut[name] + moved, name


def pair():
    """The pair of segments as a batch of one."""
    return {name: row[None] for name, row in compose([segment(INCREASE), segment(LOSSES)]).items()}


SDOI = {
    False: "100000000000 011110000000 001110000000 001110000000 000010000000 000011000000 000000100000 000000010000 "
    "000000001100 000000000100 000000000110 000000000001",
    True: "111111111111 111110110001 101110110001 101110110001 100010110001 100011110001 111111111111 111111111111 "
    "100000111101 100000110101 100000110111 111111111111",
}


@pytest.mark.parametrize("opens", SDOI)
def test_golden_sdoi_of_a_pair_of_segments(opens):
    built = BiasBuilder([SyntacticDependencyOfInterest()], opens_special=opens)(pair())
    assert built.masks[0, 0].tolist() == [[float(bit) for bit in row] for row in SDOI[opens].split()]


def test_golden_soft_slr_of_a_pair_of_segments():
    words, opened = (BiasBuilder([SyntacticLocalRange()], opens_special=o)(pair()).masks[0, 0] for o in (False, True))
    expected = {
        0: [1, 1, 1, 1, 1, 1, 0.5, 0.25, 0.125, 0.125, 0.125, 0.0625],
        1: [1, 1, 1, 0.5498, 0.2475, 0.1114, 0, 0, 0, 0, 0, 0],
        3: [0, 0.4502, 1, 1, 1, 0.5, 0, 0, 0, 0, 0, 0],
    }
    for row, values in expected.items():
        torch.testing.assert_close(words[row], torch.tensor(values).float(), atol=5e-5, rtol=0)
    expected = {
        0: [1] * 12,
        1: [1, 1, 1, 0.5498, 0.2475, 0.1114, 1, 1, 0, 0, 0, 1],
        3: [1, 0.4502, 1, 1, 1, 0.5, 1, 1, 0, 0, 0, 1],
        8: [1, 0.25, 0.25, 0.25, 0.25, 0.25, 1, 1, 1, 1, 0.5, 1],
    }
    for row, values in expected.items():
        torch.testing.assert_close(opened[row], torch.tensor(values).float(), atol=5e-5, rtol=0)


def test_golden_descendants_of_a_pair_of_segments():
    expected = torch.zeros(12, 12)
    expected[2, 1] = 1
    expected[4, [1, 2, 3, 5]] = torch.tensor([1.0, 2, 2, 2]) / 7
    expected[9, [8, 10]] = 0.5
    torch.testing.assert_close(Descendants.of(SyntaxBatch(pair())).weights[0], expected)


def test_special_tokens_are_not_predicted_and_distances_only_within_a_tree():
    batch = SyntaxBatch(pair())
    targets = parent_targets(batch["word"], batch["head"], batch.special)[0].tolist()
    assert targets == [UNKNOWN, 2, 4, 4, 4, 4, UNKNOWN, UNKNOWN, 9, 9, 9, UNKNOWN]
    corrupted = Descendants.of(batch, corruption_rate=1.0).corrupted
    found = {(int(i), int(j)) for _, i, j in zip(*corrupted.pairs, strict=True)}
    assert found == {(i, j) for tree in ([1, 2, 4, 5], [8, 9, 10]) for i in tree for j in tree if i != j}


def test_the_last_word_of_a_cut_example_is_a_word_as_any():
    """Not ``</s>``, which it would be by its number."""
    batch = SyntaxBatch({name: row[None] for name, row in compose([segment(INCREASE)], 5).items()})
    assert parent_targets(batch["word"], batch["head"], batch.special)[0].tolist() == [UNKNOWN, 2, 4, 4, 4]
    near = BiasBuilder([SyntaxAwareLocalAttention(distance=0, neighbours=False)])(batch).masks[0, 0]
    assert near[4].tolist() == [1, 0, 0, 0, 1]


def test_a_segment_without_a_parse_keeps_what_needs_none():
    composed = lists(compose([segment(INCREASE), segment(LOSSES, without=("head", "upos", "distance"))]))
    assert composed["word"] == [0, 1, 2, 2, 3, 4, 5, 6, 7, 8, 9, 10]
    assert composed["head"] == [0, 3, 4, 4, 0, 4, 0, 0, *[UNKNOWN] * 3, 0]
    assert composed["upos"] == [0, 1, 2, 2, 3, 4, 0, 0, *[UNKNOWN] * 3, 0]
    assert composed["distance"] == [INF, 1, 0, 2, 2, INF, INF, INF, *[UNKNOWN] * 3, INF]
    none = lists(compose([segment(INCREASE, without=("head",)), segment(LOSSES, without=("head",))]))
    assert none["head"] == []
    assert none["special"] == composed["special"]


def test_lines_of_a_block_follow_each_other_after_one_special_token():
    lines = [segment(INCREASE), segment(LOSSES, before=0), segment(INCREASE, before=0)]
    assert lists(compose(lines)) == {
        "word": [0, 1, 2, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 11, 12, 13, 14],
        "head": [0, 3, 4, 4, 0, 4, 0, 8, 0, 8, 0, 12, 13, 13, 0, 13, 0],
        "special": [1, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 1],
        "distance": [INF, 1, 0, 2, 2, INF, INF, 1, 1, INF, INF, 1, 0, 2, 2, INF, INF],
        "upos": [0, 1, 2, 2, 3, 4, 0, 2, 3, 4, 0, 1, 2, 2, 3, 4, 0],
    }


def test_features_of_other_lengths_than_the_tokens_are_refused():
    features = {**segment(LOSSES).features, "head": torch.tensor([2, 0, 0])}
    with pytest.raises(ValueError, match="expected 4 values of head, as there are tokens, found 3"):
        compose([Segment(features, 4, 1)])


@pytest.mark.parametrize(
    "mask", [SyntacticDependencyOfInterest(), SyntacticLocalRange(form="hard"), SyntacticLocalRange(), TreeHeight()]
)
def test_biases_of_an_example_that_is_cut_are_a_sub_matrix(mask):
    random = Random(3)
    segments = [segment(systems.features(random, words, words + 2)) for words in (5, 1, 7)]

    def matrix(length=None):
        bias = BiasBuilder([mask])({name: row[None] for name, row in compose(segments, length).items()}).biases[0]
        return bias.numbers[0].float() if isinstance(mask, TreeHeight) else bias.bias[0, 0]

    whole = matrix()
    for length in range(1, len(whole) + 1):
        torch.testing.assert_close(matrix(length), whole[:length, :length])

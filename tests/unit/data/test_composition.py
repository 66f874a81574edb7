"""Features of an example are those of its segments, as its tokens are."""

from __future__ import annotations

from random import Random

import pytest
import torch

import systems
from fairseq_syntax.data.composition import Segment, compose, compose_lines
from fairseq_syntax.modules.biases import (
    UNKNOWN,
    BiasBuilder,
    SyntacticDependencyOfInterest,
    SyntacticLocalRange,
    TreeHeight,
)
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
    lines = [segment(line).features for line in (INCREASE, LOSSES, INCREASE)]
    assert lists(compose_lines(lines, [6, 4, 6])) == {
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

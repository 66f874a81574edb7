"""Scores of drawn sentences are those of the sentences drawn, and intervals hold what they should."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import accuracy_score, balanced_accuracy_score

from syntax_experiments.probing.resampling import Drawings, Measured, accuracy, balanced_accuracy, mean


@pytest.fixture
def random():
    return np.random.default_rng(3)


def answered(random, *, sentences=50, words=6, classes=3):
    """True classes, answers that are right about half of the time, and whose sentence each is."""
    true = random.integers(classes, size=sentences * words) * random.integers(2, size=sentences * words)
    answers = np.where(random.random(len(true)) < 0.5, true, random.integers(classes + 1, size=len(true)))
    return true, answers, np.repeat(np.arange(sentences), words)


@pytest.mark.filterwarnings("ignore:y_pred contains classes not in y_true")
def test_scores_are_those_of_scikit_learn_in_every_drawing(random):
    true, answers, sentence_of = answered(random)
    tested = np.arange(60) < 50
    drawings = Drawings(tested, random, samples=20)
    ours = (
        accuracy(answers == true, sentence_of, 60),
        balanced_accuracy(answers == true, true, sentence_of, 60),
    )
    for score, theirs in zip(ours, (accuracy_score, balanced_accuracy_score), strict=True):
        assert score.value == pytest.approx(theirs(true, answers))
        for found, counts in zip(score.drawn(drawings), drawings.counts, strict=True):
            again = np.concatenate(
                [np.flatnonzero(sentence_of == s) for s in np.repeat(np.arange(50), counts.astype(int))]
            )
            assert found == pytest.approx(theirs(true[again], answers[again]), abs=1e-6)


def test_a_mean_is_of_the_sentences_that_have_a_value():
    score = mean(np.array([0.2, -1.0]), np.array([3, 1]), 5)
    assert score.value == pytest.approx(-0.4)
    drawings = Drawings(np.ones(5, dtype=bool), np.random.default_rng(1), samples=1)
    drawings.counts[:] = [4, 1, 0, 3, 0]
    assert score.drawn(drawings) == pytest.approx([-0.1])


def test_a_class_that_a_drawing_has_none_of_keeps_its_recall():
    right, true, sentence_of = np.array([1, 0, 1]), np.array([0, 0, 1]), np.arange(3)
    score = balanced_accuracy(right, true, sentence_of, 3)
    drawings = Drawings(np.ones(3, dtype=bool), np.random.default_rng(1), samples=2)
    drawings.counts[:] = [[3, 0, 0], [0, 0, 3]]
    assert score.drawn(drawings).tolist() == [1, (0.5 + 1) / 2]


def test_intervals_are_as_wide_as_the_error_of_sampling(random):
    """Of 1,000 sentences half of which are right: 1.96 · √(¼ / 1000); of ten like words each, no less."""
    right = random.permutation(1000) < 500
    drawings = Drawings(np.ones(1000, dtype=bool), random)
    for words in (1, 10):
        score = accuracy(np.repeat(right, words), np.repeat(np.arange(1000), words), 1000)
        low, high = Measured.of([score] * 3, drawings).summary()["interval"]
        assert high - low == pytest.approx(2 * 1.96 * np.sqrt(0.25 / 1000), rel=0.1)


def test_differences_are_paired(random):
    """One sentence of twenty more, and none fewer, is better beyond doubt, though each score alone is uncertain."""
    first = random.permutation(400) < 200
    second = first | (np.arange(400) < 40)
    drawings = Drawings(np.ones(400, dtype=bool), random)
    a, b = (Measured.of([accuracy(of, np.arange(400), 400)], drawings) for of in (first, second))
    assert a.summary()["interval"][1] > b.summary()["interval"][0]
    difference = (b - a).summary()
    assert difference["interval"][0] > 0
    assert difference["mean"] == pytest.approx((second.sum() - first.sum()) / 400)


def test_only_sentences_that_are_tested_are_drawn(random):
    tested = np.arange(30) % 3 == 0
    drawings = Drawings(tested, random, samples=7)
    assert drawings.sentences.tolist() == list(range(0, 30, 3))
    assert drawings.counts.sum(axis=1).tolist() == [10] * 7
    assert len(np.unique(drawings.counts, axis=0)) > 1


def test_repeats_are_told_beside_the_interval_of_their_mean(random):
    drawings = Drawings(np.ones(4, dtype=bool), random)
    scores = [accuracy(np.array(right), np.arange(4), 4) for right in ([1, 1, 1, 1], [1, 1, 1, 0])]
    found = Measured.of(scores, drawings).summary()
    assert found["values"] == [1, 0.75]
    assert found["mean"] == 0.875
    assert found["sd"] == pytest.approx(np.std([1, 0.75], ddof=1))
    assert found["interval"][1] == 1
    assert 0.5 <= found["interval"][0] < 0.875

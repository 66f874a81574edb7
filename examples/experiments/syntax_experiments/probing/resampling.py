"""How much scores depend on which sentences were tested: the bootstrap over test sentences (Efron and Tibshirani 1993).

Sentences are drawn with replacement, not words: the words of a sentence are not independent of each other. A score is
made of sums over sentences, so a drawing needs no new probe, only how often each sentence was drawn.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

#: How often the test sentences are drawn, and how much of what comes of it an interval holds.
SAMPLES, CONFIDENCE = 1000, 0.95


@dataclass(frozen=True, eq=False)
class Score:
    """The mean of K ratios of sums over S sentences; K = 1 for all but balanced accuracy.

    Attributes:
        parts: of each sentence, what is divided, such as the right answers, ``(S, K)``.
        wholes: by what, such as the answers, ``(S, K)``; of each of the K some sentence has more than 0.
    """

    parts: np.ndarray
    wholes: np.ndarray

    @property
    def value(self) -> float:
        """The score of all sentences."""
        return float((self.parts.sum(axis=0) / self.wholes.sum(axis=0)).mean())

    def drawn(self, drawings: Drawings) -> np.ndarray:
        """The score of each drawing, ``(samples,)``. One of K that has no answer in a drawing keeps its ratio."""
        parts, wholes = drawings.sums(self.parts), drawings.sums(self.wholes)
        kept = np.broadcast_to(self.parts.sum(axis=0) / self.wholes.sum(axis=0), parts.shape).copy()
        found: np.ndarray = np.divide(parts, wholes, out=kept, where=wholes > 0).mean(axis=1)
        return found


def accuracy(right: np.ndarray, sentence_of: np.ndarray, sentences: int) -> Score:
    """The share of answers that are right.

    Args:
        right: which are, ``(answers,)``.
        sentence_of: to which sentence each belongs, ``(answers,)``.
        sentences: how many there are.
    """
    return balanced_accuracy(right, np.zeros(len(right), dtype=np.int64), sentence_of, sentences)


def balanced_accuracy(right: np.ndarray, true: np.ndarray, sentence_of: np.ndarray, sentences: int) -> Score:
    """The mean of the classes' recalls, as scikit-learn's ``balanced_accuracy_score``: classes weigh the same.

    Args:
        right: which answers are right, ``(answers,)``.
        true: the class that each should have, ``(answers,)``.
        sentence_of: to which sentence each belongs, ``(answers,)``.
        sentences: how many there are.
    """
    classes, number = np.unique(true, return_inverse=True)
    wholes = np.zeros((sentences, len(classes)))
    np.add.at(wholes, (sentence_of, number), 1)
    parts = np.zeros_like(wholes)
    np.add.at(parts, (sentence_of, number), right)
    return Score(parts, wholes)


def mean(values: np.ndarray, sentence_of: np.ndarray, sentences: int) -> Score:
    """The mean of values that sentences have, at most one each, such as ρ: ``(values,)``."""
    parts, wholes = np.zeros((sentences, 1)), np.zeros((sentences, 1))
    parts[sentence_of, 0], wholes[sentence_of, 0] = values, 1
    return Score(parts, wholes)


class Drawings:
    """Drawings of the sentences that are tested, as many as these, with replacement; the same for all scores.

    Args:
        tested: which sentences are, in any repeat, ``(S,)``.

    Attributes:
        sentences: their numbers, ``(T,)``.
        counts: how often each is drawn, ``(samples, T)``.
    """

    def __init__(self, tested: np.ndarray, random: np.random.Generator, *, samples: int = SAMPLES):
        self.sentences = np.flatnonzero(tested)
        count = len(self.sentences)
        self.counts = random.multinomial(count, np.full(count, 1 / count), size=samples).astype(np.float32)

    def sums(self, of_sentences: np.ndarray) -> np.ndarray:
        """Over the sentences of each drawing: from ``(S, K)`` to ``(samples, K)``."""
        found = self.counts @ of_sentences[self.sentences].astype(np.float32)  # exact for counts up to 2²⁴
        return found.astype(np.float64)


@dataclass(frozen=True, eq=False)
class Measured:
    """A score in each repeat, or the difference of two.

    Attributes:
        values: of all test sentences, ``(repeats,)``.
        drawn: the mean over repeats in each drawing of the test sentences, ``(samples,)``.
    """

    values: np.ndarray
    drawn: np.ndarray

    @classmethod
    def of(cls, scores: Sequence[Score], drawings: Drawings) -> Measured:
        """A score of several repeats."""
        drawn = np.mean([score.drawn(drawings) for score in scores], axis=0)
        return cls(np.array([score.value for score in scores]), drawn)

    def __sub__(self, other: Measured) -> Measured:
        """The difference within each repeat and each drawing (paired)."""
        return Measured(self.values - other.values, self.drawn - other.drawn)

    def summary(self) -> dict[str, Any]:
        """Mean and standard deviation over repeats (n − 1; 0 of one), the values, and the interval of the mean."""
        tail = (1 - CONFIDENCE) / 2
        return {
            "mean": float(self.values.mean()),
            "sd": float(self.values.std(ddof=1)) if len(self.values) > 1 else 0.0,
            "values": self.values.tolist(),
            "interval": np.quantile(self.drawn, [tail, 1 - tail]).tolist(),
        }

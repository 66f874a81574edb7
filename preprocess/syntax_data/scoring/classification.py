"""Scores of predicted labels, label sets and numbers, and McNemar's exact test."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from collections.abc import Set as AbstractSet

import numpy as np

_RELATION = re.compile(r"(.+)\((?:e1,e2|e2,e1)\)")


def accuracy(predicted: Sequence[object], right: Sequence[object]) -> float:
    """Share of examples that are right."""
    return sum(p == r for p, r in zip(predicted, right, strict=True)) / len(right)


def matthews(predicted: Sequence[str], right: Sequence[str]) -> float:
    """Matthews' correlation coefficient, of any number of labels (Gorodkin 2004).

    It is 0 where one side has one label.
    """
    examples, of_predicted, of_right = len(right), Counter(predicted), Counter(right)
    hits = sum(p == r for p, r in zip(predicted, right, strict=True))
    covariance = hits * examples - sum(n * of_right[label] for label, n in of_predicted.items())
    variances = [examples**2 - sum(n * n for n in of.values()) for of in (of_predicted, of_right)]
    return covariance / math.sqrt(math.prod(variances)) if all(variances) else 0.0


def micro_scores(
    predicted: Sequence[str], right: Sequence[str], ignored: Collection[str]
) -> tuple[float, float, float]:
    """Precision, recall and F1 over all labels but the `ignored`.

    TACRED is scored so, without ``no_relation``. Of two labels with one ignored they are those of the other label.
    """
    hits = sum(p == r and r not in ignored for p, r in zip(predicted, right, strict=True))
    precision, recall = (hits / max(sum(label not in ignored for label in of), 1) for of in (predicted, right))
    return precision, recall, f1(precision, recall)


def relation_macro_f1(predicted: Sequence[str], right: Sequence[str]) -> float | None:
    """Macro F1 of the relations NAME(e1,e2) and NAME(e2,e1); ``None`` without one.

    It is the mean F1 of the names that are right somewhere. Both directions have one name, and the wrong one is wrong.
    Labels without a direction are no relations: the official score of SemEval-2010 task 8, with ``Other``.
    """
    of_predicted, of_right = _relations(predicted), _relations(right)
    hits = _relations(r for p, r in zip(predicted, right, strict=True) if p == r)
    of_each = [2 * hits[name] / (of_predicted[name] + number) for name, number in of_right.items()]
    return sum(of_each) / len(of_each) if of_each else None


def _relations(labels: Iterable[str]) -> Counter[str]:
    """Count the names of relations."""
    return Counter(match[1] for label in labels if (match := _RELATION.fullmatch(label)))


def label_set_scores(predicted: Sequence[AbstractSet[str]], right: Sequence[AbstractSet[str]]) -> dict[str, float]:
    """Strict accuracy, loose macro and loose micro F1 of sets of labels, P and G.

    Strict: the share of examples with P = G. Macro: of p = Σ |P∩G| / |P| (0 where P = ∅) and r = Σ |P∩G| / |G|, each
    divided by the number of examples. Micro: of p = Σ |P∩G| / Σ |P| and r = Σ |P∩G| / Σ |G| (OpenEntity, FIGER).
    """
    common = [len(p & r) for p, r in zip(predicted, right, strict=True)]
    sizes = [[len(labels) for labels in of] for of in (predicted, right)]
    macro = [sum(n / max(size, 1) for n, size in zip(common, of, strict=True)) / len(right) for of in sizes]
    micro = [sum(common) / max(sum(of), 1) for of in sizes]
    return {"accuracy": accuracy(predicted, right), "macro F1": f1(*macro), "micro F1": f1(*micro)}


def f1(precision: float, recall: float) -> float:
    """Harmonic mean of precision and recall; 0 of two zeros."""
    return 2 * precision * recall / (precision + recall) if precision + recall else 0.0


def pearson(predicted: Sequence[float], right: Sequence[float]) -> float:
    """Pearson's correlation; NaN where one side is constant."""
    x, y = (np.asarray(of, float) - np.mean(of) for of in (predicted, right))
    scale = math.sqrt((x @ x) * (y @ y))
    return float(x @ y) / scale if scale else math.nan


def spearman(predicted: Sequence[float], right: Sequence[float]) -> float:
    """Spearman's correlation: Pearson's of ranks, ties with their mean rank."""
    return pearson(*(_ranks(of) for of in (predicted, right)))


def _ranks(values: Sequence[float]) -> list[float]:
    _, place, counts = np.unique(values, return_inverse=True, return_counts=True)
    return list((np.cumsum(counts) - (counts - 1) / 2)[place])


def mcnemar(first: int, second: int) -> float:
    """Two-sided p of McNemar's exact test: both systems are alone right equally often.

    Args:
        first, second: numbers of examples in which only this system is right.
    """
    discordant = first + second
    ways, one = 0, 1  # one: the binomial coefficient
    for i in range(min(first, second) + 1):
        ways += one
        one = one * (discordant - i) // (i + 1)
    return min(1.0, 2 * ways / 2**discordant)

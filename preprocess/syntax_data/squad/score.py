"""Exact match and F1 of SQuAD 2.0, as its official script computes them.

Answers are compared in lower case, without punctuation and articles; F1 is that of their tokens. Of several answers the
best one counts. The answer to a question that the passage does not answer is "".
"""

from __future__ import annotations

import math
import re
import string
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from syntax_data.scoring.classification import mcnemar
from syntax_data.squad.read import Question

_ARTICLE = re.compile(r"\b(a|an|the)\b")
_PUNCTUATION = str.maketrans("", "", string.punctuation)


def normalized_tokens(answer: str) -> list[str]:
    """Return the tokens of an answer that are compared."""
    return _ARTICLE.sub(" ", answer.lower().translate(_PUNCTUATION)).split()


def exact_match(found: str, expected: str) -> float:
    """Return 1 if two answers have the same tokens, else 0."""
    return float(normalized_tokens(found) == normalized_tokens(expected))


def f1(found: str, expected: str) -> float:
    """Return the harmonic mean of precision and recall of an answer's tokens."""
    tokens, of_expected = normalized_tokens(found), normalized_tokens(expected)
    if not tokens or not of_expected:
        return float(tokens == of_expected)
    same = (Counter(tokens) & Counter(of_expected)).total()
    return 2 * same / (len(tokens) + len(of_expected))


METRICS = {"exact": exact_match, "f1": f1}


def best_of(metric: str, found: str, question: Question) -> float:
    """Return the score of an answer, from 0 to 1, by the most similar expected answer."""
    expected = [text for text, _ in question.answers if normalized_tokens(text)] or [""]
    return max(METRICS[metric](found, text) for text in expected)


def scores(questions: Sequence[Question], predictions: Mapping[str, str]) -> dict[str, float]:
    """Return exact match and F1, in percent, and the number of questions.

    ``HasAns_…`` and ``NoAns_…`` are of questions with and without an answer. Keys and values are the official script's.
    A part without questions has no keys.

    Args:
        predictions: by the questions' ids.
    """
    parts = {"": questions}
    parts["HasAns_"] = [question for question in questions if question.answers]
    parts["NoAns_"] = [question for question in questions if not question.answers]
    found: dict[str, float] = {}
    for name, part in parts.items():
        if part:
            for metric in METRICS:
                total = sum(best_of(metric, predictions[question.id], question) for question in part)
                found[f"{name}{metric}"] = 100 * total / len(part)
            found[f"{name}total"] = len(part)
    return found


def compare(
    questions: Sequence[Question], predictions: Mapping[str, str], others: Mapping[str, str]
) -> dict[str, float]:
    """Compare the exact matches of two systems: questions that one alone has right, and p of McNemar's exact test.

    Args:
        predictions, others: by the questions' ids.
    """
    right = [[best_of("exact", of[question.id], question) for of in (predictions, others)] for question in questions]
    alone, other_alone = sum(a > b for a, b in right), sum(a < b for a, b in right)
    return {
        "exact_alone": alone,
        "exact_other_alone": other_alone,
        "exact_mcnemar_p": mcnemar(alone, other_alone),
    }


@dataclass(frozen=True)
class Candidate:
    """The best span of a question.

    Attributes:
        diff: null − has; the answer is "" iff this is greater than δ.
        score: of the span as the answer, from 0 to 1.
        empty: of "" as the answer.
    """

    diff: float
    score: float
    empty: float


def best_threshold(candidates: Sequence[Candidate]) -> tuple[float, float]:
    """Return the δ with the best mean score, and this score in percent.

    δ is one of the questions' diff, the lowest of equally good ones; where nothing is better than "" as all answers, it
    is −∞ (the official script prints 0).
    """
    ordered = sorted(candidates, key=lambda candidate: candidate.diff)
    total = best = sum(candidate.empty for candidate in candidates)
    threshold = -math.inf
    for diff, same in groupby(ordered, key=lambda candidate: candidate.diff):
        total += sum(candidate.score - candidate.empty for candidate in same)
        if total > best + 1e-9:  # more than the sum's rounding
            best, threshold = total, diff
    return threshold, 100 * best / len(candidates)

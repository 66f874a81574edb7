"""Answers from the logits of a passage's windows.

With s and e a window's logits of a span's first and last subword, and position 0 that of ``<s>``,

    has  = max s_k + e_l   over windows and k ≤ l < k + max_length, where k has most context in the window,
    null = min s_0 + e_0   over windows,
    diff = null − has,

and the passage does not answer the question iff diff > δ (Devlin et al. 2019; Zhang et al. 2020, §3.2).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from syntax_data.squad.windows import most_context


@dataclass(frozen=True)
class WindowLogits:
    """Logits of a window of a passage.

    Attributes:
        window: the subwords of the passage, n of them.
        start: of a span's first subword, ``(n,)``.
        end: of its last, ``(n,)``.
        null: the sum of both at ``<s>``.
    """

    window: range
    start: np.ndarray
    end: np.ndarray
    null: float


@dataclass(frozen=True)
class Span:
    """Subwords `first` to `last` of a passage, with s_first + e_last."""

    score: float
    first: int
    last: int


def best_spans(of_windows: Sequence[WindowLogits], *, count: int, max_length: int) -> list[Span]:
    """Return the best spans of a passage, at most `count`, the best one first.

    They have at most `max_length` subwords. A span is scored once, in the window where its start has most context. Of
    equal spans the first one is first.

    Args:
        of_windows: windows that cover the passage, in order.
    """
    window_of = most_context([logits.window for logits in of_windows])
    spans = []
    for number, logits in enumerate(of_windows):
        start = np.where(window_of[logits.window.start : logits.window.stop] == number, logits.start, -np.inf)
        following = np.pad(logits.end, (0, max_length - 1), constant_values=-np.inf)
        scores = start[:, None] + sliding_window_view(following, max_length)  # first subword × length - 1
        enough = np.partition(scores, -count, axis=None)[-count] if count < scores.size else -np.inf
        for first, more in np.argwhere((scores >= enough) & (scores > -np.inf)).tolist():
            begin = logits.window.start + first
            spans.append(Span(float(scores[first, more]), begin, begin + more))
    return sorted(spans, key=lambda span: (-span.score, span.first, span.last))[:count]


def null_score(of_windows: Sequence[WindowLogits]) -> float:
    """Return null, by which a passage does not answer the question."""
    return min(logits.null for logits in of_windows)


def verified(diff: float, impossible: float, answerable: float, *, weights: tuple[float, float] = (1.0, 1.0)) -> float:
    """Return β₁·diff + β₂·(logit_na − logit_ans), with a verifier's logits.

    See Zhang et al. 2021, eq. 13-14. It is compared with δ like diff.
    """
    return weights[0] * diff + weights[1] * (impossible - answerable)

"""Windows of a passage that is longer than a model reads at once.

Attention biases in a window are the sub-matrices of the whole passage's: its features are cut, not computed again.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def windows(length: int, width: int, stride: int) -> list[range]:
    """Return the windows of a passage of `length` subwords, in order.

    Each has `width` subwords, the last one those that are left. One begins `stride` subwords after the one before, or
    at its end, if `width` is less.
    """
    step = min(width, stride)
    starts = range(0, max(length - width, 0) + step, step)
    return [range(start, min(start + width, length)) for start in starts]


def most_context(of_passage: Sequence[range]) -> np.ndarray:
    """Return the window, from 0, in which each subword of a passage has most context.

    That is min(left, right) + .01·n for the subwords left and right of it in a window of n (Devlin et al. 2019, their
    code); of equal windows the first.

    Args:
        of_passage: windows that cover the passage, in order.
    """
    context = np.full((len(of_passage), of_passage[-1].stop), -1.0)
    for row, window in zip(context, of_passage, strict=True):
        left = np.arange(len(window))
        row[window.start : window.stop] = np.minimum(left, left[::-1]) + 0.01 * len(window)
    return context.argmax(axis=0)

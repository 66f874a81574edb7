"""Features of an example, composed from those of its segments as tokens are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from fairseq_syntax.modules.numerics import UNKNOWN
from fairseq_syntax.modules.syntax_batch import SPECIAL
from syntax_data.features import INFINITE, truncate

#: Values of a special token, by feature; ``word`` numbers it, and other features have 0.
_OF_SPECIAL = {"distance": INFINITE}


@dataclass(frozen=True)
class Segment:
    """Features of one segment of an example.

    Attributes:
        features: as a data-bin has them, ``(length,)`` each, or ``(0,)`` without the parse; ``head`` needs ``word``.
        length: number of the segment's subwords and its ``</s>``.
        before: number of tokens that the task puts before it, such as ``<s>`` and a separator.
        most: number of tokens to keep of all these, from the first one on; ``None``: all.
    """

    features: Mapping[str, Tensor]
    length: int
    before: int = 0
    most: int | None = None


def compose(segments: Sequence[Segment], length: int | None = None) -> dict[str, Tensor]:
    """Return the features of an example, ``special`` among them.

    ``special`` is 1 at ``<s>``, separators and ``</s>``, and 0 at subwords. A token that the task puts before a segment
    is a word of its own and a root. Words are numbered through the example, so that its trees are those of its
    segments. Subwords of a segment without a parse have :data:`UNKNOWN` in the features of the parse. An example none
    of whose segments has the parse has none, as in a data-bin.

    Args:
        segments: in the order of the tokens, with the same features each.
        length: number of tokens to keep, from the first one on; also the last ``</s>`` may be cut. ``None``: all.

    Returns:
        ``(length,)`` each, or ``(0,)`` without the parse.

    Raises:
        ValueError: a feature has another length than its segment, or the heads that are cut off lead into a cycle.
    """
    left = sum(segment.before + segment.length for segment in segments) if length is None else length
    parts: dict[str, list[np.ndarray]] = {name: [] for name in (*segments[0].features, SPECIAL)}
    words = 0
    for segment in segments:
        most = left if segment.most is None else min(segment.most, left)
        before = min(segment.before, most)
        kept = min(segment.length, most - before)
        left -= before + kept
        ends = int(kept == segment.length)
        features = _cut(segment, kept)
        for name, values in features.items():
            if not len(segment.features[name]):
                values = np.append(np.full(kept - ends, UNKNOWN), _special(name, ends, 0))
            parts[name] += [_special(name, before, words), _moved(name, values, words + before)]
        parts[SPECIAL] += [np.ones(before, int), np.zeros(kept - ends, int), np.ones(ends, int)]
        words += before + (int(features["word"][-1]) + 1 if len(features.get("word", ())) else 0)
    parsed = {name for segment in segments for name, values in segment.features.items() if len(values)} | {SPECIAL}
    return {
        name: torch.from_numpy(np.concatenate(of)) if name in parsed else torch.empty(0, dtype=torch.long)
        for name, of in parts.items()
    }


def _cut(segment: Segment, kept: int) -> dict[str, np.ndarray]:
    """The features of a segment's first `kept` tokens; nothing of a feature that it lacks."""
    whole = {name: values.numpy() for name, values in segment.features.items()}
    for name, values in whole.items():
        if len(values) not in (0, segment.length):
            raise ValueError(f"expected {segment.length} values of {name}, as there are tokens, found {len(values)}")
    if kept == segment.length:
        return whole
    return {name: values[:kept] for name, values in truncate(whole, kept + 1).items()}


def _special(name: str, count: int, words: int) -> np.ndarray:
    """The values of tokens that the task puts before a segment, after `words` words."""
    return np.arange(words, words + count) if name == "word" else np.full(count, _OF_SPECIAL.get(name, 0))


def _moved(name: str, values: np.ndarray, words: int) -> np.ndarray:
    """The values of a segment in an example with `words` words before it."""
    if name == "word":
        return values + words
    return np.where(values > 0, values + words, values) if name == "head" else values

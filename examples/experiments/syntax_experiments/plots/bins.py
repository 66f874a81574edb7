"""Sentences sorted into bins by an integer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

#: Widths of bins, of which the smallest is taken that leaves at most :data:`MOST` of them.
_WIDTHS = (1, 2, 5, 10, 20, 50, 100)
MOST = 10


@dataclass(frozen=True)
class Bin:
    """The sentences whose number is from `first` to `last`."""

    first: int
    last: int
    sentences: tuple[int, ...]

    @property
    def label(self) -> str:
        return str(self.first) if self.first == self.last else f"{self.first}–{self.last}"


def make_bins(values: Sequence[int | None], *, least: int) -> list[Bin]:
    """Return bins of equal width, each joined to the next until it has enough sentences, the last to those before.

    Bins of width w have the numbers 1 to w, w + 1 to 2w and so on. The first bin begins with the lowest number that
    there is, and the last one ends with the highest.

    Args:
        values: of each sentence a number; ``None``: it is in no bin.
        least: how many sentences a bin must have, unless all together are fewer.
    """
    numbers = [value for value in values if value is not None]
    if not numbers:
        return []
    low, high = min(numbers), max(numbers)
    width = next((w for w in _WIDTHS if (high - 1) // w - (low - 1) // w < MOST), _WIDTHS[-1])
    found: list[Bin] = []
    for i in range((low - 1) // width, (high - 1) // width + 1):
        first, last = max(low, i * width + 1), min(high, (i + 1) * width)
        inside = tuple(s for s, value in enumerate(values) if value is not None and first <= value <= last)
        if found and len(found[-1].sentences) < least:
            before = found.pop()
            first, inside = before.first, (*before.sentences, *inside)
        found.append(Bin(first, last, tuple(sorted(inside))))
    if len(found) > 1 and len(found[-1].sentences) < least:
        left, right = found[-2:]
        found[-2:] = [Bin(left.first, right.last, tuple(sorted(left.sentences + right.sentences)))]
    return found

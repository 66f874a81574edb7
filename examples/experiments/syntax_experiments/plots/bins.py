"""Sentences sorted into bins by an integer."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import NamedTuple

#: Widths of bins, of which the smallest is taken that leaves at most :data:`MOST` of them.
_WIDTHS = (1, 2, 5, 10, 20, 50, 100)
MOST = 10


class Bin(NamedTuple):
    """The sentences whose number is from `first` to `last`."""

    first: int
    last: int
    sentences: tuple[int, ...]

    @property
    def label(self) -> str:
        return str(self.first) if self.first == self.last else f"{self.first}–{self.last}"


def make_bins(values: Sequence[int | None], *, least: int) -> list[Bin]:
    """Return bins of equal width, joined to the next one until they have enough sentences.

    Bins of width w have the numbers 1 to w, w + 1 to 2w and so on. The first bin begins with the lowest number that
    there is, and the last one ends with the highest; if it has too few sentences, it is joined to the one before.

    Args:
        values: of each sentence a number; ``None``: it is in no bin.
        least: how many sentences a bin must have, unless all together are fewer.
    """
    numbers = [value for value in values if value is not None]
    if not numbers:
        return []
    low, high = min(numbers), max(numbers)
    width = next((w for w in _WIDTHS if (high - 1) // w - (low - 1) // w < MOST), _WIDTHS[-1])
    ends = [low - 1]  # of the bins, each with enough sentences
    for end in range(-(-low // width) * width, high + width, width):
        if sum(ends[-1] < number <= end for number in numbers) >= max(least, 1):
            ends.append(end)
    ends = [low - 1, *ends[1:-1], high]  # the last one has the rest
    return [
        Bin(first + 1, last, tuple(s for s, value in enumerate(values) if value is not None and first < value <= last))
        for first, last in itertools.pairwise(ends)
    ]

"""Sentences sorted into bins by a whole number."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

#: A bin is so many numbers wide, as few as leave at most :data:`MOST` bins.
_WIDTHS = (1, 2, 5, 10, 20, 50, 100)
MOST = 10


@dataclass(frozen=True)
class Bin:
    """The sentences whose number lies between two, which belong to it."""

    first: int
    last: int
    sentences: tuple[int, ...]

    @property
    def label(self) -> str:
        return str(self.first) if self.first == self.last else f"{self.first}–{self.last}"


def make_bins(values: Sequence[int | None], *, least: int) -> list[Bin]:
    """Bins of equal width, joined to the next until each has enough sentences; too few at the end join the last.

    Bins of width w hold the numbers 1 to w, w + 1 to 2w and so on. The first bin begins with the lowest number that
    there is, and the last one ends with the highest.

    Args:
        values: of each sentence a number; ``None``: it is in no bin.
        least: how many sentences a bin must have, unless all together are fewer.
    """
    of_value: dict[int, list[int]] = {}
    for sentence, value in enumerate(values):
        if value is not None:
            of_value.setdefault(value, []).append(sentence)
    if not of_value:
        return []
    low, high = min(of_value), max(of_value)
    width = next((w for w in _WIDTHS if (high - 1) // w - (low - 1) // w < MOST), _WIDTHS[-1])
    groups: list[tuple[int, int, list[int]]] = []
    for number in range((low - 1) // width, (high - 1) // width + 1):
        first, last = number * width + 1, number * width + width
        inside = [s for value in range(first, last + 1) for s in of_value.get(value, ())]
        if groups and len(groups[-1][2]) < least:
            groups[-1] = (groups[-1][0], last, groups[-1][2] + inside)
        else:
            groups.append((first, last, inside))
    if len(groups) > 1 and len(groups[-1][2]) < least:
        _, last, inside = groups.pop()
        groups[-1] = (groups[-1][0], last, groups[-1][2] + inside)
    return [Bin(max(first, low), min(last, high), tuple(sorted(inside))) for first, last, inside in groups]

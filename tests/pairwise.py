"""Fewer combinations of parameters: each pair of values is in one of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import combinations, product
from typing import Any


def pairwise(*axes: Sequence[Any], valid: Callable[..., bool] = lambda *row: True) -> list[tuple[Any, ...]]:
    """Rows with one value of each axis that together have all pairs of values of any two axes.

    Args:
        valid: false for a row that cannot be.
    """
    rows = [row for row in product(*(range(len(axis)) for axis in axes)) if valid(*_values(axes, row))]
    pairs = {row: {((i, row[i]), (j, row[j])) for i, j in combinations(range(len(axes)), 2)} for row in rows}
    missing, found = set().union(*pairs.values()), []
    while missing:
        best = max(rows, key=lambda row: len(pairs[row] & missing))
        missing -= pairs[best]
        found.append(tuple(_values(axes, best)))
    return found


def _values(axes: Sequence[Sequence[Any]], row: Sequence[int]) -> list[Any]:
    return [axis[i] for axis, i in zip(axes, row, strict=True)]

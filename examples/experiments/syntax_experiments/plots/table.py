"""The numbers of a picture: what is drawn is what its CSV file holds."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Table:
    """Rows under names.

    Attributes:
        columns: the names.
        rows: of as many values each: text, whole numbers, floats, or ``None`` where there is nothing.
        notes: sentences about what was left out, or is to be known.
    """

    columns: tuple[str, ...]
    rows: list[tuple[Any, ...]]
    notes: tuple[str, ...] = ()

    def records(self, **wanted: Any) -> Iterator[dict[str, Any]]:
        """The rows that have these values, as dictionaries."""
        for row in self.rows:
            record = dict(zip(self.columns, row, strict=True))
            if all(record[name] == value for name, value in wanted.items()):
                yield record

    def values(self, column: str) -> list[Any]:
        """The different values of a column, in the order in which they come."""
        at = self.columns.index(column)
        return distinct(row[at] for row in self.rows)

    def cells(self) -> Iterator[list[str]]:
        """The rows as text; floats have six significant digits."""
        for row in self.rows:
            yield ["" if v is None else f"{v:.6g}" if isinstance(v, float) else str(v) for v in row]

    def write_csv(self, path: str) -> None:
        """Writes names and rows as CSV, with ``\\n`` at the ends of lines."""
        with open(path, "w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(self.columns)
            writer.writerows(self.cells())


def distinct(values: Iterable[Any]) -> list[Any]:
    """Each value once, in the order in which they come."""
    return list(dict.fromkeys(values))


#: The columns that :func:`spread` fills.
SPREAD = ("mean", "low", "high", "sd", "seeds")


def spread(values: Sequence[float]) -> tuple[float, float, float, float | None, int]:
    """Over seeds mean, lowest, highest, standard deviation of a sample (``None`` of one), and their number."""
    mean = sum(values) / len(values)
    sd = (sum((v - mean) ** 2 for v in values) / (len(values) - 1)) ** 0.5 if len(values) > 1 else None
    return mean, min(values), max(values), sd, len(values)

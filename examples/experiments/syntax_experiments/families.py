"""Tests that are read together are adjusted together: all differences of a comparison in one metric."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from syntax_experiments.significance import adjust
from syntax_experiments.table import Table


def adjust_together(tables: Sequence[Table]) -> list[Table]:
    """Tables with p adjusted over all of their differences in one metric and part of a test set.

    A difference that several tables have is one. A reader who looks for the smallest p looks at all of them, whichever
    table and baseline they stand under.
    """
    family: dict[tuple[str, str | None, str], dict[tuple[str, str], float]] = {}
    for table in tables:
        for (baseline, system, metric), found in table.results.differences.items():
            if found.over and found.over.p is not None:
                family.setdefault((table.test, table.subset, metric), {})[baseline, system] = found.over.p
    adjusted = {place: adjust(p) for place, p in family.items()}

    def of(table: Table) -> Table:
        differences = {
            (baseline, system, metric): replace(
                found, adjusted=adjusted.get((table.test, table.subset, metric), {}).get((baseline, system))
            )
            for (baseline, system, metric), found in table.results.differences.items()
        }
        sizes = {metric: len(p) for (*part, metric), p in family.items() if part == [table.test, table.subset]}
        return replace(table, results=replace(table.results, differences=differences), family=sizes)

    return [of(table) for table in tables]

"""Scores against a setting, as Hou 2024 draws temperature in its Fig. 2."""

from __future__ import annotations

from collections.abc import Mapping

from matplotlib.figure import Figure

from syntax_experiments.plots.figures.style import Look, legend, panels
from syntax_experiments.plots.scores import number
from syntax_experiments.plots.table import Table


def draw(table: Table, looks: Mapping[str, Look], *, axis: str) -> Figure:
    """Lines of :func:`~syntax_experiments.plots.scores.sweep`, with bars from the lowest seed to the highest.

    Values that are all numbers stand where they lie, on a logarithmic axis if they are positive and span two powers
    of ten; others stand side by side. A system without values is a level line.
    """
    metrics, systems = table.values("metric"), table.values("system")
    values = [value for value in table.values("value") if value is not None]
    if all(number(value) is not None for value in values):
        at = {value: float(value) for value in values}
        values.sort(key=float)
    else:
        at = {value: float(i) for i, value in enumerate(values)}
    logarithmic = bool(at) and min(at.values()) > 0 and max(at.values()) >= 100 * min(at.values())
    figure, grid = panels(len(metrics), 1, height=2.5 * len(metrics) + 0.6, share_x=True)
    for [axes], metric in zip(grid, metrics, strict=True):
        for system in systems:
            records = list(table.records(system=system, metric=metric))
            look = looks[system]
            points = [r for r in records if r["value"] is not None]
            for record in records:
                if record["value"] is None:
                    axes.axhline(
                        record["mean"], color=look["color"], linestyle=look["linestyle"], lw=1.2,
                        label=None if points else system,
                    )  # fmt: skip
            points.sort(key=lambda r: at[r["value"]])
            if points:
                x, y = [at[r["value"]] for r in points], [r["mean"] for r in points]
                axes.plot(x, y, label=system, **look)
                below, above = ([abs(r["mean"] - r[end]) for r in points] for end in ("low", "high"))
                axes.errorbar(x, y, yerr=[below, above], fmt="none", ecolor=look["color"], capsize=2, lw=1)
        axes.set_ylabel(f"{metric} (0–100)")
        axes.grid(True, axis="y")
    last = grid[-1][0]
    if logarithmic:
        last.set_xscale("log")
    last.set_xticks([at[value] for value in values], values)
    last.minorticks_off()
    last.set_xlabel(axis)
    legend(figure, [last])
    return figure

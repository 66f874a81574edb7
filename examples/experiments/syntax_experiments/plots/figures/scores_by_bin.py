"""Scores by what sentences are like, as SG-Net draws BLEU by length in its Fig. 5."""

from __future__ import annotations

from collections.abc import Mapping

from matplotlib.figure import Figure

from syntax_experiments.plots.figures.style import Look, legend, panels
from syntax_experiments.plots.table import Table


def draw(table: Table, looks: Mapping[str, Look], *, axis: str) -> Figure:
    """Points of :func:`~syntax_experiments.plots.scores.scores_by_bin`, with bars from lowest to highest seed.

    Args:
        axis: what the bins are of, with its unit.
    """
    metrics, systems, bins = table.values("metric"), table.values("system"), table.values("bin")
    sizes = {r["bin"]: r["sentences"] for r in table.records()}
    figure, grid = panels(len(metrics), 1, height=2.5 * len(metrics) + 0.6, share_x=True)
    for [axes], metric in zip(grid, metrics, strict=True):
        for number, system in enumerate(systems):
            records = list(table.records(system=system, metric=metric))
            shift = (number - (len(systems) - 1) / 2) * min(0.08, 0.5 / len(systems))
            x = [bins.index(r["bin"]) + shift for r in records]
            y = [r["mean"] for r in records]
            axes.plot(x, y, label=system, **looks[system])
            below, above = ([abs(r["mean"] - r[end]) for r in records] for end in ("low", "high"))
            axes.errorbar(x, y, yerr=[below, above], fmt="none", ecolor=looks[system]["color"], capsize=2, lw=1)
        axes.set_ylabel(f"{metric} (0–100)")
        axes.grid(True, axis="y")
    last = grid[-1][0]
    last.set_xticks(range(len(bins)), [f"{bin}\nn={sizes[bin]}" for bin in bins])
    last.set_xlim(-0.5, len(bins) - 0.5)
    last.set_xlabel(f"{axis}; n: sentences")
    legend(figure, [last])
    return figure

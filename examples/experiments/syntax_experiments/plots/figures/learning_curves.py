"""Learning curves, systems side by side."""

from __future__ import annotations

import math
from collections.abc import Mapping

from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from syntax_experiments.plots.figures.style import Look, legend, panels
from syntax_experiments.plots.table import Table


def draw(table: Table, looks: Mapping[str, Look], *, by: str) -> Figure:
    """Lines of :func:`~syntax_experiments.plots.curves.learning_curves`; a band from the lowest seed to the highest.

    Args:
        by: ``updates`` or ``epochs``, the horizontal axis.
    """
    figure, [[axes]] = panels(1, 1, height=3.8)
    column = {"updates": "updates", "epochs": "epoch"}[by]
    for system in table.values("system"):
        records = list(table.records(system=system))
        x = [r[column] for r in records]
        axes.plot(x, [r["mean"] for r in records], label=system, markevery=max(1, len(x) // 12), **looks[system])
        axes.fill_between(
            x, [r["low"] for r in records], [r["high"] for r in records], color=looks[system]["color"], alpha=0.2, lw=0
        )
    axes.set_xlabel(by)
    axes.set_ylabel("validation loss (bits a target token)")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=8))
    axes.set_ylim(*_limits(table))
    axes.grid(True)
    legend(figure, [axes])
    return figure


def _limits(table: Table) -> tuple[float, float]:
    """Of the losses after the first quarter of each system's validations, beside which the rest would look flat."""
    shown = []
    for system in table.values("system"):
        records = list(table.records(system=system))
        shown += [r[end] for r in records[len(records) // 4 :] for end in ("low", "high") if math.isfinite(r[end])]
    if not shown:
        return 0.0, 1.0
    room = 0.06 * (max(shown) - min(shown)) or 0.1
    return min(shown) - room, max(shown) + room

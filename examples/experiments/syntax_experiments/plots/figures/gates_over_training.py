"""Gates over training, by layer and mask."""

from __future__ import annotations

from matplotlib.figure import Figure

from syntax_experiments.plots.figures.gate_axes import set_up
from syntax_experiments.plots.figures.style import legend, looks, tiles
from syntax_experiments.plots.table import Table, distinct


def draw(table: Table, *, by: str) -> Figure:
    """A panel a system and mask of :func:`~syntax_experiments.plots.gates.gates_over_training`, a line a layer.

    Args:
        by: ``updates`` or ``epochs``, the horizontal axis.
    """
    layers = table.values("layer")
    of_layer = looks(layers)
    column = {"updates": "updates", "epochs": "epoch"}[by]
    shown = distinct((r["system"], r["mask"]) for r in table.records())
    columns = min(3, len(shown))
    figure, tiled = tiles([f"{system}: {mask}" for system, mask in shown], columns=columns, side=1.9)
    for axes, (system, mask) in zip(tiled, shown, strict=True):
        for layer in layers:
            if records := list(table.records(system=system, mask=mask, layer=layer)):
                look = of_layer[layer]
                x, y = [r[column] for r in records], [r["mean"] for r in records]
                axes.plot(x, y, label=f"layer {layer}", markevery=max(1, len(x) // 12), **look)
                low, high = [r["low"] for r in records], [r["high"] for r in records]
                axes.fill_between(x, low, high, color=look["color"], alpha=0.2, lw=0)
    set_up(tiled, columns=columns, by=by, label="gate (mean)")
    legend(figure, tiled, columns=6)
    return figure

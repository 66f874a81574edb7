"""Gates over training, by layer and mask."""

from __future__ import annotations

from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from syntax_preprocess.analysis.figures.style import WIDTH, looks, panels
from syntax_preprocess.analysis.table import Table


def draw(table: Table, *, by: str) -> Figure:
    """A panel a system and mask of :func:`~syntax_preprocess.analysis.gates.gates_over_training`, a line a layer.

    Args:
        by: ``updates`` or ``epochs``, the horizontal axis.
    """
    systems, masks, layers = (table.values(column) for column in ("system", "mask", "layer"))
    of_layer = looks(layers)
    column = {"updates": "updates", "epochs": "epoch"}[by]
    width = max(WIDTH, 2.4 * len(masks))
    figure, grid = panels(
        len(systems), len(masks), width=width, height=1.9 * len(systems) + 0.9, share_x=True, share_y=True
    )
    for row, system in zip(grid, systems, strict=True):
        for axes, mask in zip(row, masks, strict=True):
            for layer in layers:
                if records := list(table.records(system=system, mask=mask, layer=layer)):
                    x = [r[column] for r in records]
                    every = max(1, len(x) // 12)
                    axes.plot(
                        x, [r["mean"] for r in records], label=f"layer {layer}", markevery=every, **of_layer[layer]
                    )
                    low, high = [r["low"] for r in records], [r["high"] for r in records]
                    axes.fill_between(x, low, high, color=of_layer[layer]["color"], alpha=0.2, lw=0)
            axes.set_title(f"{system}: {mask}")
            axes.set_ylim(0, 1)
            axes.grid(True)
            axes.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=6))
            if not axes.has_data():
                axes.set_visible(False)
        row[0].set_ylabel("gate, mean over heads\nand sentences")
    for axes in grid[-1]:
        axes.set_xlabel(by)
    shown = {
        label: line
        for row in grid
        for axes in row
        for line, label in zip(*axes.get_legend_handles_labels(), strict=True)
    }
    figure.legend(shown.values(), shown.keys(), loc="outside lower center", ncols=min(6, len(shown)))
    return figure

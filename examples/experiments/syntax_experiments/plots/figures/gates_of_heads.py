"""Gates of single heads over training, by layer and mask."""

from __future__ import annotations

from matplotlib.figure import Figure

from syntax_experiments.plots.figures.gate_axes import set_up
from syntax_experiments.plots.figures.style import INK, legend, thin_looks, tiles
from syntax_experiments.plots.table import Table


def draw(table: Table, *, by: str) -> Figure:
    """A panel a layer and mask of :func:`~syntax_experiments.plots.gates.gates_of_heads`: a thin line a head, and the
    mean over heads, thick.

    Args:
        by: ``updates`` or ``epochs``, the horizontal axis.
    """
    masks, layers, heads = table.values("mask"), sorted(table.values("layer")), sorted(table.values("head"))
    look = {**thin_looks(head for head in heads if head), 0: {"color": INK, "linewidth": 2}}
    column = {"updates": "updates", "epochs": "epoch"}[by]
    shown = [(mask, layer) for layer in layers for mask in masks]
    columns = min(3, len(layers)) if len(masks) == 1 else min(3, len(masks))
    titles = [f"layer {layer}: {mask}" for mask, layer in shown]
    figure, tiled = tiles(titles, columns=columns, side=1.5)
    for axes, (mask, layer) in zip(tiled, shown, strict=True):
        for head in [*filter(None, heads), *([0] if 0 in heads else [])]:
            if records := list(table.records(mask=mask, layer=layer, head=head)):
                label = f"head {head}" if head else "mean"
                axes.plot([r[column] for r in records], [r["gate"] for r in records], label=label, **look[head])
                if len(records) == 1:
                    axes.lines[-1].set_marker("o")
    set_up(tiled, columns=columns, by=by, label="gate")
    for axes in tiled[:-columns]:
        axes.tick_params(labelbottom=False)  # all have the same validations
    legend(figure, tiled, columns=6)
    return figure

"""Attention of all layers and heads of one system."""

from __future__ import annotations

from typing import Any

from matplotlib.figure import Figure

from syntax_experiments.plots.figures.matrices import show
from syntax_experiments.plots.figures.style import WIDTH, colour_key, panels
from syntax_experiments.plots.table import Table


def draw(table: Table) -> Figure:
    """A row a layer, a column a head of :func:`~syntax_experiments.plots.sentence.attention_of_heads`."""
    layers, heads = table.values("layer"), table.values("head")
    matrices: dict[tuple[int, int], list[dict[str, Any]]] = {}
    for record in table.records():
        matrices.setdefault((record["layer"], record["head"]), []).append(record)
    side = max(0.7, (WIDTH - 0.5) / len(heads))
    figure, grid = panels(len(layers), len(heads), width=side * len(heads) + 0.5, height=side * len(layers) + 0.9)
    top = max(r["value"] for r in table.records())
    for (layer, head), records in matrices.items():
        axes = grid[layers.index(layer)][heads.index(head)]
        image = show(axes, records, top=top)
        axes.set_xticks([])
        axes.set_yticks([])
        axes.set_title(f"head {head}" if layer == layers[0] else "")
        axes.set_xlabel("key" if layer == layers[-1] else "")
        axes.set_ylabel(f"layer {layer}\nquery" if head == heads[0] else "")
    colour_key(figure, image, [axes for row in grid for axes in row], "attention weight")
    return figure

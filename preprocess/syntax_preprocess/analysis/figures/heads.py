"""Attention of all layers and heads of one system."""

from __future__ import annotations

from matplotlib.figure import Figure

from syntax_preprocess.analysis.figures.matrices import show
from syntax_preprocess.analysis.figures.style import WIDTH, panels
from syntax_preprocess.analysis.table import Table


def draw(table: Table) -> Figure:
    """A row a layer, a column a head of :func:`~syntax_preprocess.analysis.sentence.attention_of_heads`."""
    layers, heads = table.values("layer"), table.values("head")
    side = max(0.9, (WIDTH - 1) / len(heads))
    figure, grid = panels(
        len(layers), len(heads), width=side * len(heads) + 1, height=(side - 0.08) * len(layers) + 0.5
    )
    top = max(r["value"] for r in table.records())
    image = None
    for row, layer in zip(grid, layers, strict=True):
        for axes, head in zip(row, heads, strict=True):
            image = show(axes, list(table.records(layer=layer, head=head)), top=top)
            axes.set_xticks([])
            axes.set_yticks([])
            if layer == layers[0]:
                axes.set_title(f"head {head}")
            if layer == layers[-1]:
                axes.set_xlabel("key")
        row[0].set_ylabel(f"layer {layer}\nquery")
    if image is not None:
        figure.colorbar(image, ax=[axes for row in grid for axes in row], label="attention weight", pad=0.02, aspect=30)
    return figure

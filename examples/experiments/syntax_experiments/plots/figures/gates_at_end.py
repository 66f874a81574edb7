"""Gates by layer, head and mask, as Hou 2024 draws them in Fig. 3."""

from __future__ import annotations

from matplotlib.figure import Figure

from syntax_experiments.plots.figures.style import MATRIX, colour_key, readable_on, tiles
from syntax_experiments.plots.table import Table

_MOST_NUMBERS = 12  # columns of a matrix whose cells show their numbers


def draw(table: Table) -> Figure:
    """A matrix for each system and mask of :func:`~syntax_experiments.plots.gates.gates_at_end`."""
    matrices: dict[tuple[str, str], dict[tuple[int, int], float]] = {}
    for r in table.records():
        matrices.setdefault((r["system"], r["mask"]), {})[r["layer"], r["head"]] = r["mean"]
    layers, heads = len(table.values("layer")), len(table.values("head"))
    figure, tiled = tiles(
        [f"{system}: {mask}" for system, mask in matrices], columns=3 if heads <= 4 else 2, side=0.24 * layers + 0.75
    )
    image = None
    for axes, cells in zip(tiled, matrices.values(), strict=True):
        rows, columns = sorted({layer for layer, _ in cells}), sorted({head for _, head in cells})
        matrix = [[cells.get((layer, head), float("nan")) for head in columns] for layer in rows]
        image = axes.imshow(matrix, cmap=MATRIX, vmin=0, vmax=1, aspect="auto", interpolation="none")
        axes.set_xticks(range(len(columns)), [str(head) if head else "all" for head in columns])
        axes.set_yticks(range(len(rows)), [str(layer) for layer in rows])
        axes.tick_params(left=False, bottom=False)
        axes.set_xlabel("head")
        axes.set_ylabel("layer")
        axes.spines[:].set_visible(False)
        if len(columns) <= _MOST_NUMBERS:
            for (layer, head), value in cells.items():
                at = columns.index(head), rows.index(layer)
                axes.text(*at, f"{value:.2f}", ha="center", va="center", fontsize=7, color=readable_on(value))
    if image is not None:
        colour_key(figure, image, tiled, "gate (weight of the mask)")
    return figure

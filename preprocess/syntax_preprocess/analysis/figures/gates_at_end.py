"""Gates by layer, head and mask, as Hou 2024 draws them in Fig. 3."""

from __future__ import annotations

from matplotlib.figure import Figure

from syntax_preprocess.analysis.figures.style import MATRIX, WIDTH, panels, readable_on
from syntax_preprocess.analysis.table import Table

_MOST_NUMBERS = 12  # columns of a matrix whose cells show their numbers


def draw(table: Table) -> Figure:
    """A matrix for each system and mask of :func:`~syntax_preprocess.analysis.gates.gates_at_end`."""
    systems, masks = table.values("system"), table.values("mask")
    layers = max(len({r["layer"] for r in table.records(system=s)}) for s in systems)
    width = max(WIDTH, 3.0 * len(masks))
    height = (0.26 * layers + 0.75) * len(systems) + 0.4
    figure, grid = panels(len(systems), len(masks), width=width, height=height)
    image = None
    for row, system in zip(grid, systems, strict=True):
        for axes, mask in zip(row, masks, strict=True):
            cells = {(r["layer"], r["head"]): r["mean"] for r in table.records(system=system, mask=mask)}
            if not cells:
                axes.set_visible(False)
                continue
            rows, columns = sorted({layer for layer, _ in cells}), sorted({head for _, head in cells})
            matrix = [[cells.get((layer, head), float("nan")) for head in columns] for layer in rows]
            image = axes.imshow(matrix, cmap=MATRIX, vmin=0, vmax=1, aspect="auto", interpolation="none")
            axes.set_xticks(range(len(columns)), [str(head) if head else "all" for head in columns])
            axes.set_yticks(range(len(rows)), [str(layer) for layer in rows])
            axes.tick_params(length=0)
            axes.set_title(f"{system}: {mask}")
            axes.set_xlabel("head")
            axes.set_ylabel("layer")
            axes.spines[:].set_visible(False)
            if len(columns) * len(masks) <= 2 * _MOST_NUMBERS:
                for (layer, head), value in cells.items():
                    at = columns.index(head), rows.index(layer)
                    axes.text(*at, f"{value:.2f}", ha="center", va="center", fontsize=7, color=readable_on(value))
    if image is not None:
        figure.colorbar(image, ax=[axes for row in grid for axes in row], label="gate (weight of the mask)", pad=0.02)
    return figure

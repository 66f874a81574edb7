"""Axes of gates over training."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator


def set_up(tiled: Sequence[Axes], *, columns: int, by: str, label: str) -> None:
    """Gates from 0 to 1, over ``updates`` or ``epochs``, in tiles with so many columns; labels stand at the edges."""
    for number, axes in enumerate(tiled):
        axes.set_ylim(0, 1)
        axes.set_yticks([0, 0.5, 1])
        axes.grid(True)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=4 if columns < 3 else 3))
        if number % columns == 0:
            axes.set_ylabel(label)
        else:
            axes.tick_params(labelleft=False)
        if number + columns >= len(tiled):
            axes.set_xlabel(by)

"""Drawings of tables and matrices."""

from __future__ import annotations

import numpy as np

from syntax_experiments.plots import drawings
from syntax_experiments.plots.picture_data import Matrix


def test_matrices_with_too_many_cells_have_no_numbers():
    few, many = (
        Matrix("m", [*map(str, range(rows))], [*map(str, range(columns))], np.ones((rows, columns)))
        for rows, columns in ((6, 4), (2, drawings._MOST_NUMBERS + 1))
    )
    for found, numbers in (([few], 24), ([few, many], 0)):
        figure = drawings.matrices(found, "gate", columns=2, top=1, axes_of=("layer", "head"), style="numbers")
        assert sum(len(axes.texts) for axes in figure.axes) == numbers

"""Drawings of the tables of :mod:`~syntax_experiments.plots.picture_data`."""

from __future__ import annotations

import itertools
import math
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from pandas import DataFrame

from syntax_data.trees.tree import Tree
from syntax_experiments.plots.picture_data import LEVEL, Matrix, number
from syntax_experiments.plots.style import COLOURS, INK, MATRIX, SIGNED, legend, panels

_MOST_NUMBERS = 12  # columns of a matrix whose cells show their numbers


def scores(data: DataFrame, looks: Mapping[str, Mapping[str, Any]], *, axis: str) -> Figure:
    """Lines of ``scores_by_bin`` or of a ``sweep``, a panel a metric (SG-Net, Fig. 5; Hou 2024, Fig. 2).

    Numbers are at their place, on a logarithmic axis if they are positive and span two powers of ten; other values, and
    bins, are side by side. Bars go from the lowest seed to the highest. `axis`: the property or setting, with its unit.
    """
    values = [value for value in data["value"].unique() if value != LEVEL]
    numbers = [] if "sentences" in data else [number(value) for value in values]
    in_place = bool(numbers) and None not in numbers
    position = {value: float(value) if in_place else float(i) for i, value in enumerate(values)}
    metrics, systems = data["metric"].unique(), data["system"].unique()
    figure, grid = panels(len(metrics), 1, height=2.5 * len(metrics) + 0.6, sharex=True)
    for [axes], metric in zip(grid, metrics, strict=True):
        for i, system in enumerate(systems):
            look = looks[system]
            points = data[(data["metric"] == metric) & (data["system"] == system)]
            level, points = points[points["value"] == LEVEL], points[points["value"] != LEVEL]
            for mean in level["mean"]:
                label = None if len(points) else system
                axes.axhline(mean, color=look["color"], linestyle=look["linestyle"], lw=1.2, label=label)
            if len(points):
                # Side by side, bars would cover each other.
                shift = 0 if in_place else (i - (len(systems) - 1) / 2) * min(0.08, 0.5 / len(systems))
                x = [position[value] + shift for value in points["value"]]
                bars = [(points["mean"] - points["low"]).clip(0), (points["high"] - points["mean"]).clip(0)]
                axes.errorbar(x, points["mean"], yerr=bars, label=system, capsize=2, elinewidth=1, **look)
        axes.set_ylabel(f"{metric} (0–100)")
        axes.grid(True, axis="y")
    if in_place and min(position.values()) > 0 and max(position.values()) >= 100 * min(position.values()):
        axes.set_xscale("log")
    counts = dict(zip(data["value"], data["sentences"], strict=True)) if "sentences" in data else {}
    axes.set_xticks([*position.values()], [f"{v}\nn={counts[v]}" if counts else v for v in values])
    axes.minorticks_off()
    axes.set_xlabel(f"{axis}; n: sentences" if counts else axis)
    legend(figure, [axes])
    return figure


def matrices(
    found: Sequence[Matrix], key: str, *, columns: int, top: float, axes_of: tuple[str, str], style: str = "named"
) -> Figure:
    """Matrices, `columns` side by side, in the same colours, whose meaning is `key`.

    Args:
        top: the greatest value; values are from 0, or if some are negative, from its negative.
        axes_of: the meaning of rows and columns.
        style: ``named`` rows and columns; ``bare`` ones; or ``numbers`` in the cells, rows and columns named.
    """
    columns = min(columns, len(found))
    lines, names, numbers = math.ceil(len(found) / columns), style != "bare", style == "numbers"
    rows, cells = (max(sizes) for sizes in zip(*(m.values.shape for m in found), strict=True))
    margin = 0.085 * min(max(len(label) for m in found for label in m.rows), 14) + 0.3
    width = max(4.5 / columns, (0.15 * cells + margin) * names)
    height = 0.24 * rows + 0.75 if numbers else width
    figure, grid = panels(lines, columns, width=width * columns + 0.5, height=(height + 0.2) * lines + 0.7)
    for axes in grid.flat[len(found) :]:
        axes.set_visible(False)
    signed = any((m.values < 0).any() for m in found)
    low, colours = (-top, SIGNED) if signed else (0, MATRIX)
    for axes, m in zip(grid.flat, found, strict=False):
        aspect = "auto" if numbers else "equal"
        image = axes.imshow(m.values, cmap=colours, vmin=low, vmax=top or 1, interpolation="none", aspect=aspect)
        axes.set_title(textwrap.fill(m.title, max(12, int(width / 0.08))), fontsize=9 if names else 7)
        axes.set_yticks(range(len(m.rows) * names), m.rows if names else [])
        axes.set_xticks(range(len(m.columns) * names), m.columns if names else [], rotation=0 if numbers else 90)
        axes.tick_params(left=False, bottom=False, labelsize=7)
        axes.spines[:].set_visible(False)
        for (row, column), value in np.ndenumerate(m.values if numbers and cells <= _MOST_NUMBERS else m.values[:0]):
            ink = "#000000" if value > 0.5 * top else "#ffffff"
            axes.text(column, row, f"{value:.2f}", ha="center", va="center", fontsize=7, color=ink)
    figure.supylabel(axes_of[0], fontsize=9)
    figure.supxlabel(axes_of[1], fontsize=9)
    figure.colorbar(image, ax=[*grid.flat], label=key, location="top", shrink=0.5, aspect=30, pad=0.02)
    return figure


def constituents(trees: Sequence[Tree]) -> str:
    """A line's trees by nltk, as SVG; several are below a node without a label."""
    from nltk.tree import Tree as NltkTree  # which takes a second to load
    from nltk.tree.prettyprinter import TreePrettyPrinter

    def convert(node: Tree | str) -> Any:
        return node if isinstance(node, str) else NltkTree(node.label, [convert(child) for child in node.children])

    printer = TreePrettyPrinter(convert(trees[0] if len(trees) == 1 else Tree("", [*trees])))
    # nltk's columns are 40 units wide, too narrow for two long words side by side.
    letters = {n: len(node.label() if isinstance(node, NltkTree) else str(node)) for n, node in printer.nodes.items()}
    stretch = 1.0
    for left, right in itertools.pairwise(sorted(printer.coords, key=printer.coords.__getitem__)):
        (row, column), (row_right, column_right) = printer.coords[left], printer.coords[right]
        if row == row_right:
            needed = 3.8 * (letters[left] + letters[right]) + 12
            stretch = max(stretch, needed / (40 * (column_right - column)))
    printer.coords = {n: (row, column * stretch) for n, (row, column) in printer.coords.items()}
    svg = printer.svg()
    ends = svg.index(">") + 1
    return f'{svg[:ends]}\n<rect x="-20" y="-20" width="100%" height="100%" fill="white"/>{svg[ends:]}\n'


def dependencies(data: DataFrame) -> Figure:
    """Words from top to bottom, and beside them an arrow from each head to its word."""
    count = len(data)
    arcs = [(head - 1, word) for word, head in enumerate(data["head"]) if 0 < head <= count]
    longest = max((abs(head - word) for head, word in arcs), default=1)
    width = 0.3 * longest + 0.6  # an arc of curvature 0.6 is 0.3 times as wide as high
    figure, [[axes]] = panels(1, 1, width=0.22 * width + 3, height=0.22 * count + 0.3)
    for head, word in arcs:
        sign = 1 if head > word else -1  # an arrow ends beside its word's middle, towards its head
        bend = f"arc3,rad={0.6 * sign}"
        arrow = {"arrowstyle": "-|>", "color": COLOURS[0], "connectionstyle": bend, "shrinkA": 0, "shrinkB": 0}
        axes.annotate("", (0, word + 0.12 * sign), (0, head), arrowprops=arrow)
    axes.set_yticks(range(count), data["form"] + "  " + data["upos"] + "  " + data["deprel"], color=INK)
    axes.set_xlim(0, width)
    axes.set_ylim(count - 0.5, -0.5)
    axes.set_aspect("equal", anchor="W")
    axes.set_xticks([])
    axes.tick_params(left=False)
    axes.spines[:].set_visible(False)
    return figure

"""Masks and attention of a sentence, systems side by side."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from syntax_preprocess.analysis.figures.style import MATRIX, panels
from syntax_preprocess.analysis.table import Table, distinct

_INCHES = 0.145  # a token


def draw(table: Table) -> Figure:
    """A column a system, a row a matrix of :func:`~syntax_preprocess.analysis.sentence.attention_and_masks`."""
    systems, names = table.values("system"), table.values("matrix")
    names.sort(key=lambda name: not name.startswith("mask"))  # all masks first, in a stable order
    length = 1 + max(table.values("query"))
    letters = max(len(token) for token in table.values("query_token"))
    margin = 0.085 * min(letters, 12) + 0.3
    side = max(1.6, _INCHES * length)
    figure, grid = panels(
        len(names),
        len(systems),
        width=max(4.0, (side + margin) * len(systems) + 0.9),
        height=(side + 0.35) * len(names) + margin,
    )
    greatest = (
        max(r["value"] for r in table.records() if not r["matrix"].startswith("mask"))
        if any(not name.startswith("mask") for name in names)
        else 1.0
    )
    for kind, label, top in (
        ("mask", "mask (0: hidden, 1: visible)", 1.0),
        ("attention", "attention weight", greatest),
    ):
        image, used = None, []
        for row, name in zip(grid, names, strict=True):
            if not name.startswith(kind):
                continue
            for axes, system in zip(row, systems, strict=True):
                records = list(table.records(system=system, matrix=name))
                if not records:
                    axes.set_visible(False)
                    continue
                image = show(axes, records, top=top)
                axes.set_title(f"{system}: {name}" if len(systems) > 1 else name)
                tokens = _tokens(records)
                axes.set_yticks(range(len(tokens)), tokens)
                axes.set_xticks(range(len(tokens)), tokens if name == names[-1] else [], rotation=90)
                axes.tick_params(length=0, labelsize=7)
                if system == systems[0]:
                    axes.set_ylabel("query")
                if name == names[-1]:
                    axes.set_xlabel("key")
                used.append(axes)
        if image is not None:
            figure.colorbar(image, ax=used, label=label, pad=0.02, fraction=0.05, aspect=30)
    return figure


def show(axes: Axes, records: Sequence[dict[str, Any]], *, top: float) -> Any:
    """Draws the matrix of a table's cells, values from 0 to `top`."""
    length = 1 + max(r["query"] for r in records)
    matrix = [[0.0] * length for _ in range(length)]
    for r in records:
        matrix[r["query"]][r["key"]] = r["value"]
    axes.spines[:].set_visible(False)
    return axes.imshow(matrix, cmap=MATRIX, vmin=0, vmax=top, interpolation="none")


def _tokens(records: Sequence[dict[str, Any]]) -> list[str]:
    return [token for _, token in distinct((r["query"], r["query_token"]) for r in records)]

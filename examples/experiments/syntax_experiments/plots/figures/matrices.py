"""Masks and attention of a sentence, systems side by side."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from syntax_experiments.plots.figures.style import MATRIX, SIGNED, panels
from syntax_experiments.plots.table import Table, distinct

_INCHES = 0.145  # a token
_KINDS = {
    "mask": "mask (0: hidden, 1: visible)",
    "bias": "learned bias (added to scores)",
    "attention": "attention weight",
}


def draw(table: Table) -> Figure:
    """A column a system, a row a matrix of :func:`~syntax_experiments.plots.sentence.attention_and_masks`.

    Queries are named once a row, if all systems have the same; keys under the lowest matrix of each column.
    """
    systems = table.values("system")
    names = sorted(table.values("matrix"), key=lambda name: list(_KINDS).index(_kind(name)))
    matrices: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for record in table.records():
        matrices.setdefault((record["matrix"], record["system"]), []).append(record)
    tokens = {key: _tokens(records) for key, records in matrices.items()}
    once = len(set(map(tuple, tokens.values()))) == 1
    margin = 0.085 * min(max(len(token) for of_one in tokens.values() for token in of_one), 14) + 0.3
    side = max(1.6, _INCHES * max(map(len, tokens.values())))
    figure, grid = panels(
        len(names),
        len(systems),
        width=(side + 0.15) * len(systems) + margin * (1 if once else len(systems)) + 0.8,
        height=(side + 0.3) * len(names) + margin,
    )
    greatest = {"mask": 1.0}
    for r in table.records():
        kind = _kind(r["matrix"])
        greatest[kind] = max(greatest.get(kind, 0.0), abs(r["value"]))
    images: dict[str, tuple[Any, list[Axes]]] = {}
    for row, name in zip(grid, names, strict=True):
        kind = _kind(name)
        for axes, system in zip(row, systems, strict=True):
            if (name, system) not in matrices:
                axes.set_visible(False)
                continue
            image = show(axes, matrices[name, system], top=greatest[kind], signed=kind == "bias")
            axes.set_title(textwrap.fill(f"{system}: {name}" if len(systems) > 1 else name, int(side / 0.08)))
            labels = tokens[name, system]
            leftmost = next(other for other in systems if (name, other) in matrices) == system
            lowest = next(other for other in reversed(names) if (other, system) in matrices) == name
            _label(axes, labels if leftmost or not once else [], labels if lowest else [])
            axes.set_ylabel("query" if leftmost else "")
            axes.set_xlabel("key" if lowest else "")
        images.setdefault(kind, (image, []))[1].extend(row)
    for kind, (image, used) in images.items():
        figure.colorbar(image, ax=used, label=_KINDS[kind], pad=0.02, shrink=0.6, aspect=25)
    return figure


def _kind(name: str) -> str:
    return name.partition(",")[0].partition(" ")[0]


def _label(axes: Axes, queries: list[str], keys: list[str]) -> None:
    axes.set_yticks(range(len(queries)), queries)
    axes.set_xticks(range(len(keys)), keys, rotation=90)
    axes.tick_params(left=False, bottom=False, labelsize=7)


def show(axes: Axes, records: Sequence[dict[str, Any]], *, top: float, signed: bool = False) -> Any:
    """Draws the matrix of a table's cells, values from 0 to `top`; `signed`: from its negative."""
    length = 1 + max(r["query"] for r in records)
    matrix = [[0.0] * length for _ in range(length)]
    for r in records:
        matrix[r["query"]][r["key"]] = r["value"]
    axes.spines[:].set_visible(False)
    return axes.imshow(
        matrix, cmap=SIGNED if signed else MATRIX, vmin=-top if signed else 0, vmax=top, interpolation="none"
    )


def _tokens(records: Sequence[dict[str, Any]]) -> list[str]:
    return [token for _, token in distinct((r["query"], r["query_token"]) for r in records)]

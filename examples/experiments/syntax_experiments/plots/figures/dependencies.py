"""Dependency trees as arcs over the words."""

from __future__ import annotations

import itertools

from matplotlib.figure import Figure
from matplotlib.patches import Arc, Polygon

from syntax_experiments.plots.figures.style import INK, panels
from syntax_experiments.plots.table import Table

_ARC = "#0072B2"


def draw(table: Table) -> Figure:
    """The trees of :func:`~syntax_experiments.plots.sentence.dependencies`: an arrow from each head to its word.

    The relation of a root stands under it.
    """
    words = list(table.records())
    edges = [(min(r["word"], r["head"]), max(r["word"], r["head"]), r) for r in words if r["head"]]
    level = _levels([(left, right) for left, right, _ in edges])
    top = max(level.values(), default=0) + 1
    centres = [0.0]
    for before, after in itertools.pairwise(words):
        letters = max(len(before["form"]), len(before["upos"])) + max(len(after["form"]), len(after["upos"]))
        pair = before["word"], after["word"]
        label = max((len(record["deprel"]) for left, right, record in edges if (left, right) == pair), default=0)
        centres.append(centres[-1] + max(0.55, 0.042 * letters + 0.12, 0.058 * label + 0.12))
    width = centres[-1] + 1.2
    figure, [[axes]] = panels(1, 1, width=max(3.5, width), height=0.3 * top + 1.0)
    for left, right, record in edges:
        # An arc ends beside its word's middle, on the side that it comes from.
        head, word = centres[record["head"] - 1], centres[record["word"] - 1]
        shift = 0.07 if word > head else -0.07
        start, end = sorted((head + shift, word - shift * 0.2))
        height = 0.3 * level[left, right]
        axes.add_patch(Arc(((start + end) / 2, 0), end - start, 2 * height, theta1=0, theta2=180, color=_ARC, lw=1.1))
        tip = word - shift * 0.2
        axes.add_patch(Polygon([(tip, -0.02), (tip - 0.04, 0.07), (tip + 0.04, 0.07)], closed=True, color=_ARC))
        axes.text((start + end) / 2, height + 0.02, record["deprel"], ha="center", va="bottom", fontsize=7, color=INK)
    for centre, record in zip(centres, words, strict=True):
        axes.text(centre, -0.16, record["form"], ha="center", va="center", fontsize=8.5, fontweight="bold", color=INK)
        below = record["upos"] if record["head"] else f"{record['upos']}\n{record['deprel']}"
        axes.text(centre, -0.28, below, ha="center", va="top", fontsize=7, color=INK)
    axes.set_xlim(-0.6, centres[-1] + 0.6)
    axes.set_ylim(-0.6, 0.3 * top + 0.1)
    axes.set_aspect("equal")
    axes.set_axis_off()
    return figure


def _levels(spans: list[tuple[int, int]]) -> dict[tuple[int, int], int]:
    """How high each arc goes: above all those that lie under it."""
    level: dict[tuple[int, int], int] = {}
    for left, right in sorted(spans, key=lambda span: span[1] - span[0]):
        under = [height for (a, b), height in level.items() if left <= a and b <= right]
        level[left, right] = 1 + max(under, default=0)
    return level

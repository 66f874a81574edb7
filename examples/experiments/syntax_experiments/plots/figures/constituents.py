"""A constituency tree, where nltk puts its nodes."""

from __future__ import annotations

import itertools
from typing import Any

from matplotlib.figure import Figure

from syntax_experiments.plots.figures.style import INK, panels
from syntax_experiments.plots.table import Table


def draw(table: Table) -> Figure:
    """The trees of :func:`~syntax_experiments.plots.sentence.constituents`; several under a node without label."""
    from nltk.tree import Tree  # which takes a second to load
    from nltk.tree.prettyprinter import TreePrettyPrinter

    children: dict[int | None, list[dict[str, Any]]] = {}
    for record in table.records():
        children.setdefault(record["parent"], []).append(record)
    made: dict[int, Any] = {}
    for record in reversed(list(table.records())):  # children come after their parents
        below = [made[child["node"]] for child in children.get(record["node"], ())]
        made[record["node"]] = Tree(record["label"], below) if record["label"] is not None else f"{record['form']}"
    roots = [made[record["node"]] for record in children[None]]
    sentence = [
        r["form"] for r in sorted((r for r in table.records() if r["word"] is not None), key=lambda r: r["word"])
    ]
    number = iter(range(len(sentence)))
    tree = roots[0] if len(roots) == 1 else Tree("", roots)
    for position in tree.treepositions("leaves"):
        tree[position] = next(number)
    placed = TreePrettyPrinter(tree, sentence)
    texts = {n: node.label() if isinstance(node, Tree) else str(node) for n, node in placed.nodes.items()}
    rows = 1 + max(row for row, _ in placed.coords.values())
    inches = [0.1] * (1 + max(column for _, column in placed.coords.values()))  # the width of each column
    for node, (_, column) in placed.coords.items():
        inches[column] = max(inches[column], 0.082 * len(texts[node]) + 0.14)
    edges = [0.0, *itertools.accumulate(inches)]
    figure, [[axes]] = panels(1, 1, width=edges[-1] + 0.2, height=0.36 * rows + 0.3)
    at = {n: (edges[column] + inches[column] / 2, row) for n, (row, column) in placed.coords.items()}
    for child, parent in placed.edges.items():
        (x, y), (x_above, y_above) = at[child], at[parent]
        # Where nltk leaves room for lines: down from the parent, across, and down to the child.
        across = y_above + 0.42
        axes.plot([x_above, x_above, x, x], [y_above, across, across, y - 0.25], color="#888888", lw=0.9, zorder=1)
    for node, text in texts.items():
        word = not isinstance(placed.nodes[node], Tree)
        axes.text(
            *at[node], text, ha="center", va="center", fontsize=8.5, zorder=2, color=INK if word else "#ffffff",
            fontweight="bold" if word else "normal",
            bbox=None if word or not text else {"boxstyle": "round,pad=0.15", "fc": "#0072B2", "ec": "none"},
        )  # fmt: skip
    axes.set_xlim(0, edges[-1])
    axes.set_ylim(rows - 0.4, -0.6)
    axes.set_axis_off()
    return figure

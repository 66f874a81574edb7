"""Draw docs/pictures/two-readings.svg, a sentence with two parses, their masks, gates and translations; and flow.svg.

    bash run.sh experiment quickstart
    .venv/bin/python docs/figures/make.py [examples/experiments/output]

The sentence is one of the quickstart's test set, and the model its gated one, with the masks slr (τ = 1) and sdoi.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import flow
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from syntax_data.trees.formats import FORMATS
from syntax_data.trees.tree import Tree
from syntax_experiments.plots.dumps import Dump
from syntax_experiments.plots.style import INK, MATRIX, styled, svg

ROOT = Path(__file__).resolve().parents[2]
SENTENCE = "the painter saw the river with the telescope"
PHRASE, REST = "#D55E00", "#666666"  # colours of the prepositional phrase and of the rest of the tree
WORDS = 2.6  # height of the words, in levels of the tree
EXPERTS = {"global": "#999999", "slr": "#0072B2", "sdoi": "#009E73"}
DIFFERENT = 0.2  # cells of a mask that differ by more between the readings get a frame


class Reading(NamedTuple):
    """One of the sentence's parses, and what the model computes with it from n subwords.

    Attributes:
        masks: of `slr` and `sdoi`, ``(2, n, n)``.
        gates: ``(layers, 2, heads)``.
    """

    tree: Tree
    heads: Sequence[int]
    translation: str
    tokens: list[str]
    masks: Any
    gates: Any


def readings(work: Path) -> list[Reading]:
    """Return the sentence's readings in the test set; `work` is the folder in which the quickstart was run."""
    recipe = work / "recipes/quickstart"

    def lines(pattern: str) -> list[str]:
        (path,) = recipe.glob(pattern)
        return path.read_text(encoding="utf-8").splitlines()

    (model,) = recipe.glob("training_of_gated_seed_1.*")
    data = work / _inputs(model)["data"]
    (trees,) = (work / _inputs(data)["parses of test"]).glob("*.trees")
    parses = [[*kind.read(str(trees.with_suffix(f".{name}")))] for name, kind in FORMATS.items()]
    translations = lines("translations_by_gated_seed_1.*/test.txt")
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "test.npz")
        options = ["--path", str(model / "checkpoint.pt"), "--gen-subset", "test", "--output", path]
        subprocess.run(["fairseq-syntax-dump", str(data), *options], check=True)
        dump = Dump(path)
        assert dump.masks == ["slr", "sdoi"]
        found = []
        for i, source in enumerate(lines("raw_text.*/test.src")):
            if source == SENTENCE:
                [tree], dependencies = (of_kind[i][1] for of_kind in parses)
                masks, gates = dump.array(i, "masks"), dump.array(i, "gates")
                found.append(Reading(tree, dependencies.heads, translations[i], dump.tokens(i), masks, gates))
    return found


def _inputs(made: Path) -> dict[str, str]:
    inputs: dict[str, str] = json.loads((made / "metadata.json").read_text(encoding="utf-8"))["inputs"]
    return inputs


def draw(found: Sequence[Reading]) -> Figure:
    """Draw a row a reading: its trees and two masks; beside them the gates, which hardly depend on the parse."""
    first, second = found
    different = np.abs(first.masks - second.masks) > DIFFERENT
    figure = Figure(figsize=(7.6, 6.4), layout="constrained")
    left, right = figure.subfigures(1, 2, width_ratios=[5.2, 1.0])
    for row, reading in zip(left.subfigures(2, 1), found, strict=True):
        tree, slr, sdoi = row.subplots(1, 3, width_ratios=[2.4, 1.7, 1.7])
        row.suptitle(f"translation: {reading.translation}", fontsize=9, fontweight="bold", color=INK)
        colours = _constituents(tree, reading.tree)
        _dependencies(tree, reading.heads, colours)
        _matrix(slr, reading.masks[0], "slr (constituents)", reading.tokens, different[0], queries=True)
        _matrix(sdoi, reading.masks[1], "sdoi (dependencies)", reading.tokens, different[1], queries=False)
    _gates(right.subplots(), first.gates)
    right.legend(loc="outside lower center", fontsize=8)
    return figure


def _constituents(axes: Axes, tree: Tree) -> list[str]:
    """Draw a tree without parts of speech, its words in one line; return their colours (of the PP, and of the rest)."""
    colours: list[str] = []

    def place(node: Tree | str, colour: str) -> tuple[float, float]:
        word = node if isinstance(node, str) or len(node.children) > 1 else node.children[0]
        if isinstance(word, str):
            x = len(colours)
            axes.text(x, -WORDS / 2, word, fontsize=8, color=INK, rotation=90, ha="center", va="center")
            colours.append(colour)
            return x, 0.0
        assert isinstance(node, Tree)
        colour = PHRASE if node.label == "PP" else colour
        below = [place(child, colour) for child in node.children]
        x, y = sum(x for x, _ in below) / len(below), 1.0 + max(y for _, y in below)
        for child, (x_below, y_below) in zip(node.children, below, strict=True):
            phrase = not isinstance(child, str) and child.label == "PP"
            axes.plot([x, x_below], [y, y_below], color=PHRASE if phrase else colour, lw=1.3, zorder=1)
        axes.text(x, y, node.label, ha="center", va="center", fontsize=7.5, color="#ffffff", zorder=2,
                  bbox={"boxstyle": "round,pad=0.2", "fc": colour, "ec": "none"})  # fmt: skip
        return x, y

    place(tree, REST)
    axes.set_ylim(-WORDS - 1.7, 5.4)
    axes.set_xlim(-0.7, 7.7)
    axes.set_axis_off()
    return colours


def _dependencies(axes: Axes, heads: Sequence[int], colours: Sequence[str]) -> None:
    """Draw arrows below the words, from head to dependent, in the dependent's colour; one to the root, from below."""
    for word, (head, colour) in enumerate(zip(heads, colours, strict=True)):
        arrow = {"arrowstyle": "-|>", "color": colour, "lw": 1.3, "shrinkA": 0, "shrinkB": 0, "mutation_scale": 7}
        start = (word, -WORDS - 1.4)
        if head:
            side = 1 if head <= word else -1  # of the head, on which the dependent is
            start = (head - 1 + 0.12 * side, -WORDS)
            arrow["connectionstyle"] = f"arc3,rad={0.45 * side}"
        axes.annotate("", (word, -WORDS), start, arrowprops=arrow)


def _matrix(axes: Axes, mask: Any, title: str, tokens: Sequence[str], different: Any, *, queries: bool) -> None:
    """Draw a mask, from dark (hidden) to yellow (visible); cells that are different have a frame."""
    axes.imshow(mask, cmap=MATRIX, vmin=0, vmax=1, interpolation="none")
    for query, key in np.argwhere(different):
        axes.add_patch(Rectangle((key - 0.5, query - 0.5), 1, 1, fill=False, ec=PHRASE, lw=1.2))
    axes.set_title(title, fontsize=8.5)
    axes.set_xticks(range(len(tokens)), tokens, rotation=90)
    axes.set_yticks(range(len(tokens)), tokens if queries else [""] * len(tokens))
    axes.tick_params(left=False, bottom=False, labelsize=6)
    axes.spines[:].set_visible(False)


def _gates(axes: Axes, gates: Any) -> None:
    """Draw a bar a head, layer by layer: the share of global attention and of each mask."""
    layers, _, heads = gates.shape
    places = [layer * (heads + 0.7) + head for layer in range(layers) for head in range(heads)]
    of_masks = gates.transpose(1, 0, 2).reshape(2, -1)
    left = np.zeros(len(places))
    for name, share in zip(EXPERTS, (1 - of_masks.sum(axis=0), *of_masks), strict=True):
        axes.barh(places, share, left=left, height=0.85, color=EXPERTS[name], label=name)
        left = left + share
    axes.set_title("gates", fontsize=8.5)
    axes.set_yticks([layer * (heads + 0.7) + (heads - 1) / 2 for layer in range(layers)], range(1, layers + 1))
    axes.set_ylabel("layer, its heads")
    axes.set_xticks([0, 1])
    axes.set_xlim(0, 1)
    axes.invert_yaxis()
    axes.tick_params(left=False)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("work", nargs="?", type=Path, default=ROOT / "examples/experiments/output")
    parser.add_argument("--output", type=Path, default=ROOT / "docs/pictures/two-readings", metavar="PREFIX")
    args = parser.parse_args()
    found = readings(args.work)
    with styled():
        for prefix, figure in ((args.output, draw(found)), (args.output.with_name("flow"), flow.draw())):
            Path(f"{prefix}.svg").write_text(svg(figure), encoding="utf-8")

"""Draw docs/pictures/multi30k-gain-over-training.svg: the gain of the parser's trees on top of relative position.

.venv/bin/python docs/figures/gain.py
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from syntax_experiments.plots.style import legend, looks, panels, styled, svg

ROOT = Path(__file__).resolve().parents[2]
TREES = "position+tree_bias"
#: The systems that the one with the parser's trees is compared with, and how they are called.
OTHERS = {
    "position": "relative position alone",
    f"{TREES}_flat": "flat trees",
    f"{TREES}_random": "random trees",
    f"{TREES}_shuffled": "shuffled trees",
}


def losses(path: Path) -> dict[str, np.ndarray]:
    """Return the validation losses of each system without label smoothing, in bits, ``(seeds, epochs)``."""
    epochs = pd.read_csv(path).pivot(index=["system", "seed"], columns="epoch", values="valid_nll_loss")
    return {system: epochs.loc[system].to_numpy() for system in (TREES, *OTHERS)}


def draw(of: dict[str, np.ndarray], first: int = 2) -> Figure:
    """Draw the mean gain over seeds from epoch `first` on, and a band from the lowest seed to the highest."""
    figure, [[axes]] = panels(1, 1, height=3.4)
    epochs = np.arange(first, of[TREES].shape[1] + 1)
    for (system, label), look in zip(OTHERS.items(), looks(OTHERS).values(), strict=True):
        gain = (of[system] - of[TREES])[:, first - 1 :]
        axes.plot(epochs, gain.mean(0), label=label, **look)
        axes.fill_between(epochs, gain.min(0), gain.max(0), color=look["color"], alpha=0.15, lw=0)
        print(label, *(f"{value:.3f}" for value in gain.mean(0)))
    axes.axhline(0, color="#999999", lw=0.8)
    axes.set_xlabel("epoch")
    axes.set_ylabel("bits a target token gained over …")
    axes.grid(True)
    legend(figure, [axes])
    return figure


if __name__ == "__main__":
    measured = losses(ROOT / "examples/experiments/measured/multi30k_en_de/epochs.csv")
    with styled():
        picture = ROOT / "docs/pictures/multi30k-gain-over-training.svg"
        picture.write_text(svg(draw(measured)), encoding="utf-8")

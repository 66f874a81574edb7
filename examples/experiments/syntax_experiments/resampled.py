"""Tables of differences over seeds and sentences, of measurements that have numbers of each sentence."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from syntax_experiments.cells import interval, p_value
from syntax_experiments.grid import Grid
from syntax_experiments.results import System
from syntax_experiments.significance import over_seeds_and_sentences

#: By name of a column, system and seed: of each sentence a numerator and a denominator of the column's value.
Sentences = dict[str, dict[str, dict[int, Sequence[Sequence[float]]]]]

_ABOUT = (
    "Mean difference over the seeds that both have, with the interval and p of a bootstrap that resamples seeds and "
    "sentences together; p is not adjusted.\n"
)


def read_sentences(output: Path) -> Mapping[str, Sequence[Sequence[float]]]:
    """Return what a measurement printed of each sentence, by column.

    It is a line ``{"sentences": {COLUMN: [[NUMERATOR, DENOMINATOR], …]}}`` before the last one, or nothing.
    """
    lines = output.read_text(encoding="utf-8").splitlines()
    found: dict[str, Any] = next((json.loads(line) for line in lines if line.startswith('{"sentences": ')), {})
    return found.get("sentences", {})


def section(sentences: Sentences, systems: Sequence[System], baselines: Sequence[str]) -> list[str]:
    """Return Markdown of the systems' differences to each baseline; empty where no sentences are known of both."""
    grids = []
    for column, of in sentences.items():
        for baseline in [name for name in baselines if name in of]:
            rows = []
            for system in [one for one in systems if one.name in of and one.name != baseline]:
                found = over_seeds_and_sentences(of[system.name], of[baseline])
                rows.append([system.label, interval(found, column), p_value(found.p if found else None)])
            label = next(one.label for one in systems if one.name == baseline)
            if rows:
                title = f"Seeds and sentences resampled, against {label}"
                grids.append(Grid(headings=["system", f"Δ {column} [95%]", "p"], rows=rows, title=title))
    return [*(f"### {grid.title}\n\n{grid.markdown()}" for grid in grids), *([_ABOUT] if grids else [])]

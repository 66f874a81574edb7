"""The tables of a comparison: of each test set, and of each subset of it."""

from __future__ import annotations

import dataclasses
import json
import re
from pathlib import Path
from typing import Any

from harness.make import Step
from harness.run_record import Run, load_run
from harness.table import LOSS, System, make_table


def write(step: Step) -> None:
    """Writes ``table.md``, ``table.tex``, ``table.csv`` (every number) and ``summary.csv`` (every mean and difference)."""
    settings = step.settings
    runs: list[Run] = []
    scores: list[dict[str, Any]] = []
    comparisons: list[dict[str, Any]] = []
    for name, path in step.inputs.items():
        kind, *of = name.split(" ")
        if kind == "run":
            runs.append(dataclasses.replace(load_run(path), system=of[0], seed=int(of[1])))
        elif kind == "scores":
            scores += _named(path / "scores.json", system=of[0], seed=int(of[1]))
        elif kind == "comparison":
            comparisons += _named(path / "comparison.json", system=of[0], baseline=of[1], seed=int(of[2]))
    systems = [
        System(name=name, label=of["label"], group=of["group"] or None, paper=of["published"])
        for name, of in settings["systems"].items()
    ]
    seeds = sorted({seed for of_system in settings["seeds"].values() for seed in of_system})
    tables = [
        make_table(
            runs,
            comparisons,
            scores=scores,
            systems=systems,
            baselines=settings["baselines"],
            seeds=seeds,
            test=test,
            subset=subset,
            compared=("BLEU", LOSS),
        )
        for test in settings["tests"]
        for subset in (None, *settings["subsets"])
    ]
    written = {
        "table.md": "\n".join([_heading(settings), *(table.markdown() for table in tables)]),
        "table.tex": "\n".join(table.latex() for table in tables),
        "table.csv": "".join(table.csv(heading=i == 0) for i, table in enumerate(tables)),
        "summary.csv": "".join(table.summary_csv(heading=i == 0) for i, table in enumerate(tables)),
    }
    for name, text in written.items():
        Path(step.folder, name).write_text(text, encoding="utf-8")


def _named(path: Path, **names: Any) -> list[dict[str, Any]]:
    return [{**found, **names} for found in json.loads(path.read_text())]


def _heading(settings: dict[str, Any]) -> str:
    about = re.sub(r"\s*\n\s*", " ", settings["about"].strip())
    return f"## {settings['title']}\n" + (f"\n{about}\n" if about else "")

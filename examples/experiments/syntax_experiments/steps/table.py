"""The numbers of a comparison, and its tables."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from syntax_experiments.make import Step
from syntax_experiments.metric_names import COSTS, LOSS, NEVER_TRAINED
from syntax_experiments.run_record import Run, load_run
from syntax_experiments.significance import WITHIN

Row = dict[str, Any]


def write(step: Step) -> None:
    """Write the CSV files of :mod:`syntax_experiments.results`, ``summary.csv``, ``table.md`` and ``table.tex``."""
    from syntax_experiments.results import read_results, write_results
    from syntax_experiments.tables import Tables  # pandas takes its time

    inputs = {tuple(name.split(" ", 3)): path for name, path in step.inputs.items()}
    runs = {(names[0], int(names[1])): load_run(path) for (kind, *names), path in inputs.items() if kind == "run"}
    of_runs: list[Row] = []
    rows: dict[str, list[Row]] = {"table": of_runs, "comparisons": [], "epochs": [], "sentences": []}
    for (system, seed), run in runs.items():
        about = {"recipe": step.settings["recipe"], "system": system, "seed": seed}
        rows["epochs"] += [
            {**about, **epoch, "gates": json.dumps(epoch["gates"]) if epoch.get("gates") else ""}
            for epoch in run.epochs
        ]
        of_run = [*_costs(run), *_scores(inputs["scores", system, str(seed)])]
        for (kind, *names), path in inputs.items():
            if (kind, *names[:2]) == ("measurement", system, str(seed)):
                command, found = (
                    step.settings["measurements"][names[2]],
                    json.loads((path / "measured.json").read_text()),
                )
                values = found if isinstance(found, dict) else {names[2]: found}
                of_run += [{"metric": metric, "value": v, "signature": command} for metric, v in values.items()]
                rows["sentences"] += [{**about, **row} for row in _sentences(path / "output")]
        software = dict(run.versions)
        code = software.pop("code", "")
        versions = ", ".join(f"{package} {number}" for package, number in software.items())
        of_runs += [{**about, **row, "code": code, "versions": versions, "device": run.device} for row in of_run]
    for (kind, *names), path in inputs.items():
        if kind == "comparison":
            about = dict(zip(("recipe", "system", "baseline", "seed"), (step.settings["recipe"], *names), strict=True))
            rows["comparisons"] += [{**about, **row} for row in _comparisons(path)]
    write_results(step.folder, **{name: of for name, of in rows.items() if of or name != "sentences"})
    _write_translations(step.folder / "translations.csv.xz", runs)
    tables = Tables(read_results(step.folder), step.settings)
    tables.summary().to_csv(step.folder / "summary.csv", index=False)
    (step.folder / "table.md").write_text(tables.markdown(), encoding="utf-8")
    (step.folder / "table.tex").write_text(tables.latex(), encoding="utf-8")


def _costs(run: Run) -> Iterator[Row]:
    for metric in (LOSS, *COSTS):
        yield {"metric": metric, "value": getattr(run, metric)}
    yield {"metric": NEVER_TRAINED, "value": int(run.gates_never_trained)}


def _scores(folder: Path) -> Iterator[Row]:
    for part in json.loads((folder / "scores.json").read_text()):
        for metric, of in part["metrics"].items():
            score = {"metric": metric, "value": of["score"], "signature": of["signature"]}
            yield {"test": part["test"], "subset": part["subset"], **score}


def _comparisons(folder: Path) -> Iterator[Row]:
    for part in json.loads((folder / "comparison.json").read_text()):
        for metric, of in part["metrics"].items():
            row = {"test": part["test"], "metric": metric, "difference": of["difference"]}
            yield row | {test: of[test]["p"] for test in WITHIN} | {
                f"{test}_signature": of[test]["signature"] for test in WITHIN
            }  # fmt: skip


def _sentences(output: Path) -> Iterator[Row]:
    """Yield what a measurement printed of each sentence, a line ``{"sentences": {METRIC: [[BITS, TOKENS], …]}}``."""
    lines = output.read_text(encoding="utf-8").splitlines()
    found: dict[str, Any] = next(
        (json.loads(line) for line in lines if line.startswith('{"sentences": ')), {"sentences": {}}
    )
    for metric, of in found["sentences"].items():
        for sentence, (numerator, denominator) in enumerate(of):
            yield {"metric": metric, "sentence": sentence, "numerator": numerator, "denominator": denominator}


def _write_translations(path: Path, runs: dict[tuple[str, int], Run]) -> None:
    """Write a column of translations for each run, and a row for each sentence of each test set."""
    import pandas as pd

    columns = {f"{system} {seed}": run for (system, seed), run in runs.items()}
    tests = dict.fromkeys(test for run in runs.values() for test in run.tests)
    frames = [
        pd.DataFrame({name: run.hypotheses(test) for name, run in columns.items()}).assign(test=test) for test in tests
    ]
    if frames:
        pd.concat(frames).to_csv(path, index=False)

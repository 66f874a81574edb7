"""The numbers of a comparison, and its tables."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd

from syntax_data.scoring.predictions import Predictions
from syntax_experiments.make import Step, read_lines
from syntax_experiments.metric_names import COSTS, LOSS, NEVER_TRAINED
from syntax_experiments.results import read_results, write_results
from syntax_experiments.significance import WITHIN
from syntax_experiments.tables import Tables

Row = dict[str, Any]


def write(step: Step) -> None:
    """Write :mod:`syntax_experiments.results`, table.md and table.tex."""
    rows: dict[str, list[Row]] = {"table": [], "comparisons": [], "epochs": [], "sentences": []}
    software: dict[tuple[str, ...], Row] = {}
    outputs: dict[str, Row] = {}
    for name, path in step.inputs.items():
        kind, *names = name.split(" ", 3)
        about = {"recipe": step.settings["recipe"], **dict(zip(("system", "seed"), names, strict=False))}
        if kind == "run":
            run = json.loads((path / "run.json").read_text())
            code = run["versions"].pop("code")
            versions = ", ".join(f"{package} {number}" for package, number in run["versions"].items())
            software[tuple(names)] = {"code": code, "device": run["device"], "versions": versions}
            found = [{"metric": of, "value": float(run[of])} for of in (LOSS, *COSTS, NEVER_TRAINED)]
            for epoch in run["epochs"]:
                gates = json.dumps(epoch["gates"]) if "gates" in epoch else ""
                rows["epochs"].append({**about, **epoch, "gates": gates})
            for test in run["tests"]:
                lines, gold = _outputs(path / test)
                outputs.setdefault(test, {"test": [test] * len(lines), **gold})[" ".join(names)] = lines
        elif kind == "scores":
            found = list(_metrics(path / "scores.json"))
        elif kind == "measurement":
            measured = json.loads((path / "measured.json").read_text())
            values = measured if isinstance(measured, dict) else {names[2]: measured}
            command = step.settings["measurements"][names[2]]
            found = [{"metric": metric, "value": value, "signature": command} for metric, value in values.items()]
            rows["sentences"] += [{**about, **row} for row in _sentences(path / "output")]
        else:
            if kind == "comparison":
                about |= {"baseline": names[1], "seed": names[2]}
                rows["comparisons"] += [{**about, **row} for row in _metrics(path / "comparison.json")]
            continue
        rows["table"] += [{**about, **row, **software[names[0], names[1]]} for row in found]
    write_results(step.folder, **{name: of for name, of in rows.items() if of or name != "sentences"})
    if outputs:
        frame = pd.concat([pd.DataFrame(columns) for columns in outputs.values()])
        name = "predictions" if {"gold", "question", "line"} & {*frame} else "translations"
        frame.to_csv(step.folder / f"{name}.csv.xz", index=False)
    tables = Tables(read_results(step.folder), step.settings)
    (step.folder / "table.md").write_text(tables.markdown(), encoding="utf-8")
    (step.folder / "table.tex").write_text(tables.latex(), encoding="utf-8")


def _outputs(path: Path) -> tuple[list[str], dict[str, list[str]]]:
    """Return the translations; or the predictions and what is right, or their lines; or answers and questions' ids."""
    if (answers := path.with_name(f"{path.name}.answers.json")).exists():
        found = json.loads(answers.read_text(encoding="utf-8"))
        return list(found.values()), {"question": list(found)}
    if not (tsv := path.with_name(f"{path.name}.tsv")).exists():
        return read_lines(path.with_name(f"{path.name}.txt")), {}
    predictions = Predictions.read(str(tsv), "label")
    if predictions.gold is None:
        return list(predictions.predicted.values()), {"line": list(map(str, predictions.predicted))}
    return list(predictions.predicted.values()), {"gold": list(predictions.gold.values())}


def _metrics(path: Path) -> Iterator[Row]:
    """Yield a row for each metric of scores or of a comparison, and each part."""
    for part in json.loads(path.read_text()):
        for metric, of in part["metrics"].items():
            row = {"test": part["test"], "subset": part["subset"], "metric": metric}
            if "score" in of:
                yield row | {"value": of["score"], "signature": of["signature"]}
            else:
                tests = {test: of[test]["p"] for test in WITHIN if test in of}
                signatures = {f"{test}_signature": of[test]["signature"] for test in tests}
                yield row | {"difference": of["difference"]} | tests | signatures


def _sentences(output: Path) -> Iterator[Row]:
    """Yield sentences of a line ``{"sentences": {METRIC: [[BITS, TOKENS], …]}}``."""
    for line in output.read_text(encoding="utf-8").splitlines():
        if line.startswith('{"sentences": '):
            for metric, of in json.loads(line)["sentences"].items():
                for i, (numerator, denominator) in enumerate(of):
                    yield {"metric": metric, "sentence": i, "numerator": numerator, "denominator": denominator}

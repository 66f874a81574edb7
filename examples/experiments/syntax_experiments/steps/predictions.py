"""Scores of predictions, and McNemar's test of two systems' predictions."""

from __future__ import annotations

import json

from syntax_data.scoring.predictions import Predictions, compare, scores
from syntax_experiments.make import Step

_SIGNATURES = {"accuracy": "examples that are right, in %", "MCC": "100 × Matthews' correlation (Gorodkin 2004)"}
_OF_RELATIONS = "macro, of relations NAME(e1,e2) and NAME(e2,e1) as one, a wrong direction wrong (SemEval-2010 task 8)"


def score(step: Step) -> None:
    """Write ``scores.json``: ``test, subset, metrics`` of each part."""
    asked, found = step.settings["score"], []
    ignored = [] if asked["ignored_label"] is None else [asked["ignored_label"]]
    signatures = _SIGNATURES | {name: f"micro, without {', '.join(ignored)}" for name in ("precision", "recall", "F1")}
    if asked["kind"] == "label":
        signatures["macro F1"] = _OF_RELATIONS
    for test in step.settings["tests"]:
        whole = _read(step, "run", test)
        subsets = json.loads((step.inputs["subsets"] / f"{test}.json").read_text())
        for subset, lines in {None: range(len(whole.predicted)), **subsets}.items():
            predicted, gold = ({line: of[line] for line in lines} for of in (whole.predicted, whole.gold or {}))
            part = Predictions(predicted, gold)
            metrics = {
                name: {"score": 100 * value, "signature": signatures.get(name, f"100 × {name}")}
                for name, value in scores(part, asked["kind"], ignored=ignored).items()
            }
            found.append({"test": test, "subset": subset, "metrics": metrics})
    (step.folder / "scores.json").write_text(json.dumps(found, indent=1))


def compare_runs(step: Step) -> None:
    """Write ``comparison.json``: ``test, subset, metrics``, the accuracies' difference with McNemar's exact p."""
    kind, found = step.settings["score"]["kind"], []
    for test in step.settings["tests"]:
        system, baseline = (_read(step, side, test) for side in ("system", "baseline"))
        of_test = compare(str(step.inputs["baseline"] / f"{test}.tsv"), baseline, system, kind)
        metrics = {}
        if of_test is not None:  # numbers are not right or wrong
            difference = 100 * (of_test.first - of_test.second) / len(system.predicted)
            mcnemar = {"p": of_test.p, "signature": "McNemar, exact, two-sided"}
            metrics["accuracy"] = {"difference": difference, "mcnemar": mcnemar}
        found.append({"test": test, "subset": None, "metrics": metrics})
    (step.folder / "comparison.json").write_text(json.dumps(found, indent=1))


def _read(step: Step, name: str, test: str) -> Predictions:
    return Predictions.read(str(step.inputs[name] / f"{test}.tsv"), step.settings["score"]["kind"])

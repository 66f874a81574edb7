"""Scores of predictions or answers, and McNemar's test of those of two systems."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, cast

from syntax_data.scoring.predictions import Kind, Predictions, compare, scores
from syntax_data.squad import score as squad
from syntax_data.squad.read import Question, read_questions
from syntax_experiments.make import Step
from syntax_experiments.metric_names import EXACT_MATCH

_SIGNATURES = {"accuracy": "examples that are right, in %", "MCC": "100 × Matthews' correlation (Gorodkin 2004)"}
_MCNEMAR = "McNemar, exact, two-sided"
_OF_PAIRS = "minimal pairs whose right line has the greater pseudo-log-likelihood, in %"
_OF_RELATIONS = "macro, of relations NAME(e1,e2) and NAME(e2,e1) as one, a wrong direction wrong (SemEval-2010 task 8)"


def score(step: Step) -> None:
    """Write ``scores.json``: ``test, subset, metrics`` of each part."""
    asked, found = step.settings["score"], []
    ignored = [] if asked["ignored_label"] is None else [asked["ignored_label"]]
    signatures = _SIGNATURES | {name: f"micro, without {', '.join(ignored)}" for name in ("precision", "recall", "F1")}
    if asked["kind"] == "label":
        signatures["macro F1"] = _OF_RELATIONS
    if asked["kind"] == "pair":
        signatures["accuracy"] = _OF_PAIRS
    for test in step.settings["tests"]:
        if asked["kind"] == "answer":
            found.append({"test": test, "subset": None, "metrics": _of_answers(step, test)})
            continue
        whole = _read(step, "run", test)
        subsets = json.loads((step.inputs["subsets"] / f"{test}.json").read_text())
        for subset, lines in {None: range(len(whole.predicted)), **subsets}.items():
            predicted, gold = ({line: of[line] for line in lines} for of in (whole.predicted, whole.gold or {}))
            part = Predictions(predicted, gold)
            metrics = {
                name: {"score": 100 * value, "signature": signatures.get(name, f"100 × {name}")}
                for name, value in scores(part, _kind(step), ignored=ignored).items()
            }
            found.append({"test": test, "subset": subset, "metrics": metrics})
    (step.folder / "scores.json").write_text(json.dumps(found, indent=1))


def compare_runs(step: Step) -> None:
    """Write ``comparison.json``: ``test, subset, metrics``, a difference of right ones with McNemar's exact p."""
    kind, found = step.settings["score"]["kind"], []
    for test in step.settings["tests"]:
        if kind == "answer":
            found.append({"test": test, "subset": None, "metrics": _compare_answers(step, test)})
            continue
        system, baseline = (_read(step, side, test) for side in ("system", "baseline"))
        of_test = compare(str(step.inputs["baseline"] / f"{test}.tsv"), baseline, system, _kind(step))
        metrics = {}
        if of_test is not None:  # numbers are not right or wrong
            difference = 100 * (of_test.first - of_test.second) / len(system.predicted)
            metrics["accuracy"] = {"difference": difference, "mcnemar": {"p": of_test.p, "signature": _MCNEMAR}}
        found.append({"test": test, "subset": None, "metrics": metrics})
    (step.folder / "comparison.json").write_text(json.dumps(found, indent=1))


def _of_answers(step: Step, test: str) -> Mapping[str, Any]:
    found = squad.scores(*_answers(step, "run", test))
    of = {EXACT_MATCH: found["exact"], "F1": found["f1"]}
    return {name: {"score": score, "signature": "SQuAD 2.0's, in %"} for name, score in of.items()}


def _compare_answers(step: Step, test: str) -> Mapping[str, Any]:
    (questions, system), (_, baseline) = (_answers(step, side, test) for side in ("system", "baseline"))
    found = squad.compare(questions, system, baseline)
    difference = 100 * (found["exact_alone"] - found["exact_other_alone"]) / len(questions)
    return {EXACT_MATCH: {"difference": difference, "mcnemar": {"p": found["exact_mcnemar_p"], "signature": _MCNEMAR}}}


def _answers(step: Step, name: str, test: str) -> tuple[list[Question], dict[str, str]]:
    """Return the questions, and a system's answers by their ids."""
    questions = read_questions(str(step.inputs["text"] / f"{test}.questions.json"))
    answers = json.loads((step.inputs[name] / f"{test}.answers.json").read_text(encoding="utf-8"))
    return questions, answers


def _kind(step: Step) -> Kind:
    """The kind of predictions; of pairs the number of the preferred line."""
    kind = step.settings["score"]["kind"]
    return "option" if kind == "pair" else cast(Kind, kind)


def _read(step: Step, name: str, test: str) -> Predictions:
    path = str(step.inputs[name] / f"{test}.tsv")
    pairs = step.settings["score"]["kind"] == "pair"
    return Predictions.of_pairs(path) if pairs else Predictions.read(path, _kind(step))

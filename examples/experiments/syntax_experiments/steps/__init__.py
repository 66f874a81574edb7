"""The steps of a workflow: each makes one kind of target in a folder."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module

from syntax_experiments.make import Step

#: Module and function by the kind of target.
STEPS = {
    "downloads": "downloads.download",
    "generated": "corpus.generate",
    "corpus": "corpus.collect",
    "text": "text.tokenize",
    "parses": "parses.parse",
    "selections": "selection.choose",
    "selected": "selection.select",
    "subsets": "selection.subsets",
    "subwords": "subwords.split",
    "tokens": "data.preprocess",
    "data": "data.binarize",
    "models": "training.train",
    "runs": "runs.translate",
    "predictions": "runs.predict",
    "scores": "scores.score_run",
    "predictions_scored": "predictions.score",
    "measurements": "measurements.measure",
    "comparisons": "scores.compare_runs",
    "predictions_compared": "predictions.compare_runs",
    "tables": "table.write",
    "pictures": "pictures.draw",
}
#: Kinds whose steps go on with the files of one that was stopped.
RESUMABLE = {"downloads", "parses", "models"}


def step_of(kind: str) -> Callable[[Step], None]:
    """Return the step that makes a kind of target; only its module is imported."""
    module, _, name = STEPS[kind].partition(".")
    step: Callable[[Step], None] = getattr(import_module(f"{__name__}.{module}"), name)
    return step

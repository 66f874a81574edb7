"""The steps of a workflow: each makes one kind of target in the folder that it is given."""

from __future__ import annotations

from collections.abc import Callable

from syntax_experiments.make import Step
from syntax_experiments.steps import (
    corpus,
    data,
    downloads,
    measurements,
    parses,
    pictures,
    runs,
    scores,
    selection,
    subwords,
    table,
    text,
    training,
)

#: By the kind of target.
STEPS: dict[str, Callable[[Step], None]] = {
    "downloads": downloads.download,
    "generated": corpus.generate,
    "corpus": corpus.collect,
    "text": text.tokenize,
    "parses": parses.parse,
    "selections": selection.choose,
    "selected": selection.select,
    "subsets": selection.subsets,
    "subwords": subwords.split,
    "tokens": data.preprocess,
    "data": data.binarize,
    "models": training.train,
    "runs": runs.translate,
    "scores": scores.score_run,
    "measurements": measurements.measure,
    "comparisons": scores.compare_runs,
    "tables": table.write,
    "pictures": pictures.draw,
}

#: Kinds whose steps go on with the files of one that was stopped.
RESUMABLE = {"downloads", "parses", "models"}

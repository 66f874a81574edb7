"""A task refuses an architecture that it cannot train, before a model is built."""

from __future__ import annotations

from argparse import Namespace
from types import SimpleNamespace

import pytest
from fairseq.tasks import TASK_REGISTRY

import fairseq_syntax  # noqa: F401  (registers the tasks)
from fairseq_syntax.tasks.syntax_task import SyntaxTask

TRANSLATION = ("transformer", "lstm", "tree_bias_transformer", "bart_base")
ENCODERS = ("roberta", "tree_bias_roberta", "masked_lm")
#: The architectures that each task trains, ours and fairseq's.
TRAINED = {
    "syntax_translation": TRANSLATION,
    "syntax_masked_lm": ENCODERS,
    **dict.fromkeys(
        ["syntax_sentence_prediction", "syntax_sentence_ranking", "syntax_span_prediction"],
        ("roberta", "tree_bias_roberta", "bart_base"),
    ),
}


class BuiltError(Exception):
    pass


def build(*_):
    raise BuiltError


@pytest.mark.parametrize("name", [name for name, task in TASK_REGISTRY.items() if issubclass(task, SyntaxTask)])
@pytest.mark.parametrize("arch", sorted({*TRANSLATION, *ENCODERS, "transformer_lm"}))
def test_models_of_another_kind_are_refused(name, arch, monkeypatch):
    monkeypatch.setattr("fairseq.models.build_model", build)
    task = object.__new__(TASK_REGISTRY[name])
    task.cfg = SimpleNamespace(_name=name, max_positions=9)
    refused = ValueError, f"--arch {arch}: expected an? .*, for --task {name}, found a [A-Z]"
    error, message = (BuiltError, None) if arch in TRAINED[name] else refused
    with pytest.raises(error, match=message):
        SyntaxTask.build_model(task, Namespace(arch=arch))

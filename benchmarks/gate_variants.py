"""fairseq-train with a treatment of the gates' running statistics that was tried and not chosen.

    python benchmarks/gate_variants.py slow|accumulated|frozen FAIRSEQ-TRAIN-OPTIONS

`slow`: a momentum of 0.01 instead of 0.1. `accumulated`: before each validation the running statistics become the mean
of the training set's batches, under the weights as they are then. `frozen`: from the 500th update on they stand still,
and training normalises by them. To be used with ``--gate-batch-norm-statistics batch`` (docs/gate-evaluation.md).
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partialmethod
from typing import Any

from fairseq_cli import train
from torch import nn

from fairseq_syntax.nn.gate_norm import GateBatchNorm
from fairseq_syntax.tasks.syntax_translation import SyntaxTranslationTask

FROZEN_FROM = 500


def slow() -> None:
    GateBatchNorm.__init__ = partialmethod(GateBatchNorm.__init__, momentum=0.01)  # type: ignore[assignment]


def accumulated() -> None:
    def begin_valid_epoch(self: SyntaxTranslationTask, epoch: int, model: Any) -> None:
        begin(self, epoch, model)
        accumulate(model, self)

    begin = SyntaxTranslationTask.begin_valid_epoch
    SyntaxTranslationTask.begin_valid_epoch = begin_valid_epoch  # type: ignore[method-assign]


def accumulate(model: Any, task: SyntaxTranslationTask) -> None:
    """Makes the running statistics the mean of those of the training set's batches, each normalised by its own."""
    model.eval()
    norms = [gate.batch_norm.train() for gate in model.gates.values()]
    batches = task.get_batch_iterator(task.dataset("train"), max_sentences=150, disable_iterator_cache=True)
    for k, batch in enumerate(batches.next_epoch_itr(shuffle=False), start=1):
        for norm in norms:
            norm.momentum = 1 / k
        inputs = {name: value for name, value in batch["net_input"].items() if name != "prev_output_tokens"}
        model.encoder(**inputs)  # with gradients, without which statistics do not move


def frozen() -> None:
    still = False

    def train_mode(self: GateBatchNorm, mode: bool = True) -> nn.Module:
        return nn.Module.train(self, mode and not still)

    def train_step(self: SyntaxTranslationTask, **arguments: Any) -> Any:
        nonlocal still
        still = arguments["update_num"] >= FROZEN_FROM
        return step(self, **arguments)

    step = SyntaxTranslationTask.train_step
    SyntaxTranslationTask.train_step = train_step  # type: ignore[method-assign]
    GateBatchNorm.train = train_mode  # type: ignore[assignment]


VARIANTS: dict[str, Callable[[], None]] = {"slow": slow, "accumulated": accumulated, "frozen": frozen}

if __name__ == "__main__":
    VARIANTS[sys.argv.pop(1)]()
    train.cli_main()

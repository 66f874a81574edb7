"""Plain batch normalisation of gates, with statistics of the training set.

Before each validation the running statistics become the mean of those of the training set's batches, each normalised by
its own, under the weights as they are then. Tried and not chosen (docs/results.md); a ``--user-dir`` for
``--gate-batch-norm-statistics batch``.
"""

from __future__ import annotations

from typing import Any

from fairseq import utils

import fairseq_syntax  # noqa: F401  (the task and the models)
from fairseq_syntax.tasks.syntax_translation import SyntaxTranslationTask

_begin = SyntaxTranslationTask.begin_valid_epoch


def begin_valid_epoch(self: SyntaxTranslationTask, epoch: int, model: Any) -> None:
    _begin(self, epoch, model)
    model.eval()
    norms = [gate.batch_norm.train() for gate in model.gates.values()]
    batches = self.get_batch_iterator(self.dataset("train"), max_sentences=150, disable_iterator_cache=True)
    for k, batch in enumerate(batches.next_epoch_itr(shuffle=False), start=1):
        for norm in norms:
            norm.momentum = 1 / k
        if next(model.parameters()).is_cuda:
            batch = utils.move_to_cuda(batch)
        inputs = {name: value for name, value in batch["net_input"].items() if name != "prev_output_tokens"}
        model.encoder(**inputs)  # with gradients, without which statistics do not move


SyntaxTranslationTask.begin_valid_epoch = begin_valid_epoch  # type: ignore[method-assign]

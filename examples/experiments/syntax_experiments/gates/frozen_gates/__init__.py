"""Plain batch normalisation of gates with constant statistics from update 500 on.

Training, too, normalises by them then. Tried and not chosen (docs/results.md); a ``--user-dir`` for
``--gate-batch-norm-statistics batch``.
"""

from __future__ import annotations

from typing import Any

from torch import nn

import fairseq_syntax  # noqa: F401  (the task and the models)
from fairseq_syntax.modules.gate_norm import GateBatchNorm
from fairseq_syntax.tasks.syntax_translation import SyntaxTranslationTask

FROZEN_FROM = 500
_still = False
_step = SyntaxTranslationTask.train_step


def train_mode(self: GateBatchNorm, mode: bool = True) -> nn.Module:
    return nn.Module.train(self, mode and not _still)


def train_step(self: SyntaxTranslationTask, **arguments: Any) -> Any:
    global _still
    _still = arguments["update_num"] >= FROZEN_FROM
    return _step(self, **arguments)


SyntaxTranslationTask.train_step = train_step  # type: ignore[method-assign,assignment]
GateBatchNorm.train = train_mode  # type: ignore[assignment]

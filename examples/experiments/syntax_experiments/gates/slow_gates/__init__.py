"""Plain batch normalisation of gates with a momentum of 0.01 instead of 0.1.

Tried and not chosen (docs/results.md); a ``--user-dir`` for ``--gate-batch-norm-statistics batch``.
"""

from __future__ import annotations

from functools import partialmethod

import fairseq_syntax  # noqa: F401  (the task and the models)
from fairseq_syntax.modules.gate_norm import GateBatchNorm

GateBatchNorm.__init__ = partialmethod(GateBatchNorm.__init__, momentum=0.01)  # type: ignore[assignment]

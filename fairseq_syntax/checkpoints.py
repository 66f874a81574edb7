"""What torch's safe loading (``weights_only=True``) must know to read a fairseq checkpoint."""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np
import torch


def allow_safe_loading() -> None:
    """Allow-lists the plain types that fairseq checkpoints hold beside tensors.

    Legacy-style models keep their options in an :class:`argparse.Namespace`; ``--eval-bleu`` keeps its
    n-gram counts as numpy arrays. Safe loading itself stays on.
    """
    dtypes = {type(np.dtype(name)) for name in ("int64", "int32", "float64", "float32")}
    reconstruct: Any = np.empty(0).__reduce__()[0]
    torch.serialization.add_safe_globals(
        [
            argparse.Namespace,
            np.ndarray,
            np.dtype,
            *dtypes,
            (reconstruct, "numpy._core.multiarray._reconstruct"),  # as numpy 2 writes it
            (reconstruct, "numpy.core.multiarray._reconstruct"),  # as numpy 1 did
        ]
    )

"""Reading a fairseq checkpoint, by torch's safe loading (``weights_only=True``)."""

from __future__ import annotations

import argparse
import os
import textwrap
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from fairseq.file_io import PathManager
from torch import Tensor

from fairseq_syntax import literals
from fairseq_syntax.errors import InputError


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


def read(path: str, *, mmap: bool = False) -> dict[str, Any]:
    """A checkpoint's content as it was saved, without what fairseq makes of it.

    Args:
        mmap: leave the weights in the file until they are used.

    Raises:
        InputError: it is no fairseq checkpoint, or its configuration holds code.
    """
    local = PathManager.get_local_path(path)
    if not os.path.isfile(local):
        raise InputError(path, None, "expected a checkpoint, found none")
    try:
        mmap = mmap and zipfile.is_zipfile(local)  # other ones are of torch before 1.6
        state = torch.load(local, map_location="cpu", weights_only=True, mmap=mmap)
    except Exception as error:  # torch's and pickle's, of many kinds
        raise InputError(
            path, None, f"expected a fairseq checkpoint, found a file that torch cannot read ({_short(error)})"
        ) from error
    weights = state.get("model") if isinstance(state, dict) else None
    if not isinstance(weights, dict) or not all(isinstance(weight, Tensor) for weight in weights.values()):
        raise InputError(path, None, "expected a fairseq checkpoint, found one without a model's weights")
    for name, value in literals.code([state.get("args"), state.get("cfg")]):
        raise InputError(path, None, f"{name}: expected a literal, such as [1, 2], found {value!r}, which is not run")
    return state


def _short(error: Exception) -> str:
    """The reason alone: torch puts it after its advice on unsafe loading, and before advice on safe one."""
    reason = str(error).rpartition("WeightsUnpickler error: ")[2].partition(". Please use")[0].strip()
    return ": ".join([type(error).__name__, *reason.splitlines()[:1]])


@contextmanager
def weights_of(path: str, fit: str) -> Iterator[None]:
    """Inside the block, what torch says of weights that do not fit is an :class:`InputError`; `fit` says what to."""
    try:
        yield
    except RuntimeError as error:
        said = textwrap.shorten(str(error), 500, placeholder=" …")
        raise InputError(path, None, f"expected weights that fit {fit}, found: {said}") from error

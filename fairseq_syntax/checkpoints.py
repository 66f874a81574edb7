"""Reading a fairseq checkpoint, by torch's safe loading (``weights_only=True``)."""

from __future__ import annotations

import argparse
import os
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from fairseq.file_io import PathManager

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
        _ = state["model"].items()
    except Exception as error:  # torch's and pickle's, of many kinds
        raise InputError(path, None, f"expected a fairseq checkpoint, found {_short(error)}") from error
    for name, value in literals.code([state.get("args"), state.get("cfg")]):
        raise InputError(path, None, f"{name}: expected a literal, such as [1, 2], found {value!r}, which is not run")
    return state


def _short(error: Exception) -> str:
    """An error in a line: torch's advice on unsafe loading is long, and its reason stands at the end."""
    reason = str(error).rpartition("WeightsUnpickler error: ")[2].strip().splitlines()
    return f"{type(error).__name__}: {reason[0]}" if reason else type(error).__name__


@contextmanager
def weights_of(path: str, fit: str) -> Iterator[None]:
    """Inside the block, what torch says of weights that do not fit is an :class:`InputError`; `fit` says what to."""
    try:
        yield
    except RuntimeError as error:
        raise InputError(
            path, None, f"expected weights that fit {fit}, found: {' '.join(str(error).split())}"
        ) from error

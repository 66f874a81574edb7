"""Safe loading knows what fairseq checkpoints hold, and nothing more."""

from __future__ import annotations

import pickle
from argparse import Namespace
from fractions import Fraction

import numpy as np
import pytest
import torch

import fairseq_syntax  # noqa: F401  (allow-lists on import)


def test_what_fairseq_checkpoints_hold_is_loaded(tmp_path):
    path = tmp_path / "x.pt"
    content = {
        "args": Namespace(arch="x", lr=[0.1]),
        "counts": [np.array([1, 2], dtype=kind) for kind in ("int64", "int32", "float64", "float32")],
    }
    torch.save(content, path)
    loaded = torch.load(path, weights_only=True)
    assert loaded["args"] == content["args"]
    assert [array.tolist() for array in loaded["counts"]] == [[1, 2]] * 4


def test_anything_else_is_refused(tmp_path):
    path = tmp_path / "x.pt"
    torch.save({"half": Fraction(1, 2)}, path)
    with pytest.raises(pickle.UnpicklingError, match="Fraction"):
        torch.load(path, weights_only=True)

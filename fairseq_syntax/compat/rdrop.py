"""Making fairseq's R-Drop (``--criterion label_smoothed_cross_entropy_with_rdrop``) repeat whole batches.

fairseq-fixed 0.12.3.1 (fairseq 0.12.2 has no R-Drop) repeats the tensors of ``net_input``, but not those in a
dictionary there, such as ``src_syntax``. And it writes the repeated ones into the batch that it was given, so that
``--eval-bleu`` then translates each sentence twice and fails for want of a reference (facebookresearch/fairseq#5410).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from fairseq.criterions import label_smoothed_cross_entropy_with_rdrop as rdrop
from torch import Tensor


def repeat_whole_batches() -> None:
    """From now on, R-Drop repeats nested tensors too and leaves the batch as it is."""
    rdrop.duplicate_input = _duplicate_input


def _duplicate_input(sample: dict[str, Any]) -> dict[str, Any]:
    if "net_input" in sample:
        return {**sample, "net_input": _twice(sample["net_input"])}
    repeated: dict[str, Any] = _twice(sample)
    return repeated


def _twice(value: Any) -> Any:
    """Tensors, also in dictionaries, one after themselves along the first dimension."""
    if isinstance(value, Tensor):
        return torch.cat([value, value])
    if isinstance(value, Mapping):
        return {name: _twice(part) for name, part in value.items()}
    return value

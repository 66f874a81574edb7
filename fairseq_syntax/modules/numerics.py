"""Numeric helpers that several modules share."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

import torch
import torch.nn.functional as F
from torch import Tensor, nn

#: Marks a position that has no feature, in batches only (never in files).
UNKNOWN = -1

#: How many numbers in float32 a vector of this CPU has, as torch uses it.
_VECTOR = {"AVX512": 16, "AVX2": 8}.get(torch.backends.cpu.get_cpu_capability(), 0)


def is_asynchronous(device: torch.device) -> bool:
    """Return true if operations are queued, as on a GPU, where reading a number waits."""
    return device.type in ("cuda", "meta")


def padding_bias(padding: Tensor, dtype: torch.dtype, *, width: int | None = None) -> Tensor:
    """Return -inf at padding, 0 elsewhere, in the shape of `padding`.

    Args:
        width: number of columns; those beyond `padding` are 0.
    """
    zeros = torch.zeros(len(padding), width or padding.shape[1], dtype=dtype, device=padding.device)
    zeros[:, : padding.shape[1]].masked_fill_(padding.to(torch.bool), -torch.inf)
    return zeros


def at_least_float32(x: Tensor) -> Tensor:
    """Half precision as float32; float32 and float64 as they are."""
    return x.to(torch.promote_types(x.dtype, torch.float32))


def softmax(x: Tensor) -> Tensor:
    """Return the softmax over the last dimension.

    torch takes up to ten times as long on a CPU for rows in float32 that are shorter than its vectors, in the gradient,
    too; so they are padded.
    """
    n = x.shape[-1]
    if n >= _VECTOR or x.device.type != "cpu" or x.dtype != torch.float32:
        return x.softmax(dim=-1)
    return F.pad(x, (0, _VECTOR - n), value=-torch.inf).softmax(dim=-1)[..., :n]


def no_autocast(device: torch.device) -> AbstractContextManager:
    """Switch mixed precision off on `device`, inside the block."""
    kind = device.type
    return torch.autocast(kind, enabled=False) if torch.amp.is_autocast_available(kind) else nullcontext()


def keep_parameters_in_graph(x: Tensor, module: nn.Module) -> Tensor:
    """Return `x`, with gradients of 0 for a module without a part in it, as DDP wants."""
    return x + sum(parameter.sum() * 0.0 for parameter in module.parameters()).to(x.dtype)  # type: ignore[union-attr]

"""Numbers that attention and gates have in common."""

from __future__ import annotations

import torch
from torch import Tensor


def hiding(padding: Tensor, dtype: torch.dtype) -> Tensor:
    """What is added where padding must not count: -inf at padding, 0 elsewhere, in the shape of `padding`."""
    zeros = torch.zeros(padding.shape, dtype=dtype, device=padding.device)
    return zeros.masked_fill_(padding.to(torch.bool), -torch.inf)


def at_least_float32(x: Tensor) -> Tensor:
    """Half precision as float32; float32 and float64 as they are."""
    return x.to(torch.promote_types(x.dtype, torch.float32))

"""Dropout from fewer random bits on a CPU."""

from __future__ import annotations

import torch
from fairseq.modules.fairseq_dropout import FairseqDropout
from torch import Tensor, nn

_CHANCES = 2**16


class FastDropout(FairseqDropout):
    """fairseq's dropout; on a CPU, where drawing random numbers is most of its cost, from 16 random bits an entry.

    torch draws 64. Probabilities are rounded to multiples of 2⁻¹⁶, and kept entries are scaled accordingly, so that the
    mean stays the input. On other devices it is torch's own.
    """

    def forward(self, x: Tensor, inplace: bool = False) -> Tensor:
        """As fairseq's, on any shape; on a CPU `inplace` is not used."""
        if self.p >= 1 or x.device.type != "cpu" or not (self.training or self.apply_during_inference):
            return super().forward(x, inplace)
        dropped = min(round(self.p * _CHANCES), _CHANCES - 1)
        return x * _kept(x, dropped) if dropped else x


def _kept(x: Tensor, dropped: int) -> Tensor:
    """Return a mask of the shape and dtype of `x`: 0 with probability dropped/2¹⁶, scaled to a mean of 1."""
    count = x.numel()
    bits = torch.empty(-(-count // 4), dtype=torch.int64).random_(-(2**63), None)  # all 64 bits
    kept = bits.view(torch.int16)[:count].view(x.shape) >= dropped - _CHANCES // 2
    return kept * torch.tensor(_CHANCES / (_CHANCES - dropped), dtype=x.dtype)


def use_fast_dropout(model: nn.Module) -> None:
    """Replaces each of fairseq's dropout modules in a model by :class:`FastDropout`.

    Attention that fairseq leaves to torch in training (the decoder's, and that of layers without syntax) uses only the
    probability of its module, and torch's dropout.
    """
    for module in list(model.modules()):
        for name, child in module.named_children():
            if type(child) is FairseqDropout:
                setattr(module, name, FastDropout(child.p, child.module_name))

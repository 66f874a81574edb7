"""Scores of which word is whose head, by a biaffine form of hidden states (LISA, Strubell et al. 2018)."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fairseq_syntax.modules.numerics import at_least_float32

_SLOPE = 0.1


class ParentScorer(nn.Module):
    """s[i, j]: how likely j is to be i's head, [d_i; 1]·U·h_jᵀ, with d = φ(z·W_d + b_d), h = φ(z·W_h + b_h).

    φ is leaky ReLU. U begins as 0, so that all words are as likely. The row of 1 in it is a prior of j's being a head.

    Args:
        embed_dim: width of z.
        hidden_dim: width of d and h.
    """

    def __init__(self, embed_dim: int, hidden_dim: int):
        super().__init__()
        self.dependent = nn.Linear(embed_dim, hidden_dim)
        self.head = nn.Linear(embed_dim, hidden_dim)
        self.weight = nn.Parameter(torch.zeros(hidden_dim + 1, hidden_dim))

    def forward(self, z: Tensor) -> Tensor:
        """The scores, ``(batch, n, n)`` in float32 at least, of hidden states ``(n, batch, embed_dim)``."""
        z = z.transpose(0, 1)
        dependent = F.pad(F.leaky_relu(self.dependent(z), _SLOPE), (0, 1), value=1.0)
        head = F.leaky_relu(self.head(z), _SLOPE)
        return at_least_float32(dependent @ self.weight @ head.transpose(1, 2))

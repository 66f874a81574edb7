"""Parent-scaled attention: dependency trees (PASCAL)."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from fairseq_syntax.modules.biases.bias import AttentionBias
from fairseq_syntax.modules.biases.registry import SyntaxBias, register_syntax_bias
from fairseq_syntax.modules.dependency import first_subwords, head_positions
from fairseq_syntax.options import option


@register_syntax_bias("parent")
class ParentScaling(SyntaxBias):
    """Scores are scaled by a normal density around the word's parent (PASCAL, Bugliarello and Okazaki 2020).

    The factor is f[i, j] = N(j; p_i, σ²), the density of a normal distribution around p_i, the middle of the subwords
    of i's parent. A root, and so ``</s>``, is its own parent. The density is not normalised over keys: with σ = 1 its
    peak is 0.399. A factor is not a mask. Far keys have score 0, so weight exp(0), not 0; all scores shrink; and where
    scores are negative, the parent has the least weight.
    """

    features = ("word", "head")

    sigma: float = option(
        1.0, above=0, help="standard deviation of the density around the parent, in subwords (PASCAL: 1)"
    )
    ignoring: float = option(
        0.0,
        at_least=0,
        at_most=1,
        help="parent ignoring: probability, in training, that a query's scores are left as they are (PASCAL's q)",
    )

    def bias(self, *features: Tensor, **labels: Tensor) -> AttentionBias:
        word, head = features
        first = first_subwords(word)
        size = torch.zeros_like(first).scatter_add_(1, first, torch.ones_like(first))
        parent = head_positions(word, head, first)
        middle = parent + (size.gather(1, parent) - 1) / 2
        position = torch.arange(word.shape[1], device=word.device)
        away = (position - middle.unsqueeze(2)) / self.sigma
        # In float32: in half precision the density would be 0 from a distance of 6 on.
        factor = torch.exp(-0.5 * away.square()) / (self.sigma * math.sqrt(2 * math.pi))
        return AttentionBias(factor=factor.unsqueeze(1))

    def effective_options(self) -> dict[str, object]:
        return {"parent_sigma": self.sigma}  # ignoring concerns training alone

    def build_layer_module(self, *, heads: int, head_dim: int, embed_dim: int) -> nn.Module | None:
        return ParentIgnoring(self.ignoring, heads=heads) if self.ignoring else None


class ParentIgnoring(nn.Module):
    """Random rows of scores without their factor, in training."""

    def __init__(self, rate: float, *, heads: int):
        super().__init__()
        self.rate = rate
        self.heads = heads

    def forward(self, expert: AttentionBias, query: Tensor) -> AttentionBias:
        """The factor, ``(batch, heads, n, n)``, 1 in a row with probability `rate`."""
        if not self.training or expert.factor is None:
            return expert
        batch, _, n, _ = expert.factor.shape
        ignored = torch.rand(batch, self.heads, n, 1, device=expert.factor.device) < self.rate
        return AttentionBias(factor=expert.factor.masked_fill(ignored, 1.0))

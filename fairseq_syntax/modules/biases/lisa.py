"""Attention to the predicted parent: linguistically-informed self-attention (LISA)."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from fairseq_syntax.modules.biases.bias import AttentionBias
from fairseq_syntax.modules.biases.registry import SyntaxBias, register_syntax_bias
from fairseq_syntax.modules.heads import ParentScorer, parent_targets
from fairseq_syntax.modules.numerics import UNKNOWN
from fairseq_syntax.options import option


@register_syntax_bias("lisa")
class PredictedParent(SyntaxBias):
    """A word attends to its predicted head; no parse is needed at test (LISA, Strubell et al. 2018)."""

    label_features = ("word", "head")

    hidden_dim: int | None = option(
        None, at_least=1, help="width of the scorer of heads under lisa; default: that of an attention head"
    )
    teacher_forcing: bool = option(
        True, help="under lisa, a word attends to its head in the parse in training (Strubell et al. 2018)"
    )

    def bias(self, *features: Tensor, **labels: Tensor) -> Tensor | None:
        """:func:`~fairseq_syntax.modules.heads.parent_targets` of the labels; ``None`` without any."""
        return parent_targets(**labels) if labels else None

    def build_layer_module(self, *, heads: int, head_dim: int, embed_dim: int) -> nn.Module:
        return ParentAttention(embed_dim, self.hidden_dim or head_dim, teacher_forcing=self.teacher_forcing)

    def effective_options(self) -> dict[str, object]:
        return {}  # the scorer's width is in its weights' shapes; forcing concerns training alone


class ParentAttention(nn.Module):
    """Attention softmax(s) by the scores s of a :class:`ParentScorer`.

    Args:
        embed_dim: width of the attention's input, which is scored.
        hidden_dim: hidden width of the scorer.
        teacher_forcing: in training, a word whose head is given attends to that alone.
    """

    def __init__(self, embed_dim: int, hidden_dim: int, *, teacher_forcing: bool):
        super().__init__()
        self.scorer = ParentScorer(embed_dim, hidden_dim)
        self.teacher_forcing = teacher_forcing

    def forward(self, targets: Tensor | None, query: Tensor) -> AttentionBias:
        """The attention bias with f = 0, b = s, and s as its ``prediction``, ``(batch, 1, n, n)``."""
        scores = self.scorer(query).unsqueeze(1)
        bias = scores
        if targets is not None and self.training and self.teacher_forcing:
            position = torch.arange(targets.shape[1], device=targets.device)
            others = (targets.unsqueeze(2) != position) & (targets != UNKNOWN).unsqueeze(2)
            bias = scores.masked_fill(others.unsqueeze(1), -torch.inf)
        return AttentionBias(factor=scores.new_zeros(1, 1, 1, 1), bias=bias, prediction=scores)

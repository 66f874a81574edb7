"""Attention to the predicted parent: linguistically-informed self-attention (LISA)."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from fairseq_syntax.modules.biases.base import AttentionBias, SyntaxBias, register_syntax_bias
from fairseq_syntax.modules.heads import parent_targets
from fairseq_syntax.modules.numerics import UNKNOWN
from fairseq_syntax.modules.parent_scorer import ParentScorer
from fairseq_syntax.options import option


@register_syntax_bias("lisa")
class PredictedParent(SyntaxBias):
    """A word attends to what the model takes for its head, without a parse at test (LISA, Strubell et al. 2018)."""

    label_features = ("word", "head")

    hidden_dim: int | None = option(
        None, at_least=1, help="width of the scorer of heads under lisa; default: that of an attention head"
    )
    teacher_forcing: bool = option(
        True, help="under lisa, a word attends to its true head in training (Strubell et al. 2018)"
    )

    def bias(self, *features: Tensor, **labels: Tensor) -> Tensor | None:
        """What :func:`~fairseq_syntax.modules.heads.parent_targets` finds; ``None`` without labels."""
        return parent_targets(labels["word"], labels["head"]) if labels else None

    def build_layer_module(self, *, heads: int, head_dim: int, embed_dim: int) -> nn.Module:
        return ParentAttention(embed_dim, self.hidden_dim or head_dim, teacher_forcing=self.teacher_forcing)

    def effective_options(self) -> dict[str, object]:
        return {}  # the scorer's width is in its weights' shapes; forcing is a matter of training


class ParentAttention(nn.Module):
    """P = softmax(s): attention by the scores s of a :class:`~fairseq_syntax.modules.parent_scorer.ParentScorer`.

    Args:
        embed_dim: width of the attention's query input, which is scored.
        hidden_dim: the scorer's.
        teacher_forcing: whether, in training, a word whose head is given attends to that alone.
    """

    def __init__(self, embed_dim: int, hidden_dim: int, *, teacher_forcing: bool):
        super().__init__()
        self.scorer = ParentScorer(embed_dim, hidden_dim)
        self.teacher_forcing = teacher_forcing

    def forward(self, targets: Tensor | None, query: Tensor) -> AttentionBias:
        """The attention bias with f = 0 and b = s, and s itself as its ``prediction``, ``(batch, 1, n, n)``."""
        scores = self.scorer(query).unsqueeze(1)
        bias = scores
        if targets is not None and self.training and self.teacher_forcing:
            place = torch.arange(targets.shape[1], device=targets.device)
            others = (targets.unsqueeze(2) != place) & (targets != UNKNOWN).unsqueeze(2)
            bias = scores.masked_fill(others.unsqueeze(1), -torch.inf)
        return AttentionBias(factor=scores.new_zeros(1, 1, 1, 1), bias=bias, prediction=scores)

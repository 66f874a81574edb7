"""Self-attention that mixes global attention with attention under syntax masks."""

from __future__ import annotations

from typing import Any

import torch
from fairseq.modules import MultiheadAttention
from fairseq.modules.fairseq_dropout import FairseqDropout
from torch import Tensor

from fairseq_syntax.masks import SyntaxBias
from fairseq_syntax.modules.gate import SyntaxGate


class SyntaxAttention(MultiheadAttention):
    """Gated syntax self-attention (Hou 2024, eq. 7-11), for any number of masks.

    A_raw = softmax(x), A_k = softmax(x + log m_k) for the scores x = q·kᵀ/√d and each mask m_k;
    A = (1 - ΣG_k)·A_raw + Σ G_k·dropout(A_k), then attention dropout on A, once. A sentence without the parse that
    mask k is made of has m_k = 1 everywhere and no syntax dropout, so A_k = A_raw whatever its gate.

    Parameters have the names of fairseq's :class:`~fairseq.modules.MultiheadAttention`, plus those of the gate.

    Args:
        embed_dim: width of the model.
        num_heads: number of attention heads.
        num_masks: number of syntax masks.
        syntax_heads: how many heads, the first ones, mix masks; the others stay global.
        combination: ``gate``; ``average``: the mean of A_raw and all A_k; ``pure``: the mean of all A_k.
        gate_hidden_dim: width of the gate's hidden layer.
        gate_batch_norm: by which statistics gate logits are batch-normalised in training, or ``None``.
        gate_batch_norm_eps: what is added to their variance.
        syntax_dropout: probability of dropping an entry of A_k ("syntax ignoring").
        **kwargs: those of :class:`~fairseq.modules.MultiheadAttention`.
    """

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        *,
        num_masks: int,
        syntax_heads: int,
        combination: str,
        gate_hidden_dim: int,
        gate_batch_norm: str | None,
        gate_batch_norm_eps: float,
        syntax_dropout: float,
        **kwargs: Any,
    ):
        super().__init__(embed_dim, num_heads, self_attention=True, **kwargs)
        self.num_masks = num_masks
        self.syntax_heads = syntax_heads
        self.combination = combination
        self.syntax_dropout_module = FairseqDropout(syntax_dropout, module_name=self.__class__.__name__)
        self.gate = (
            SyntaxGate(
                embed_dim=embed_dim,
                hidden_dim=gate_hidden_dim,
                num_heads=syntax_heads,
                num_masks=num_masks,
                batch_norm=gate_batch_norm,
                batch_norm_eps=gate_batch_norm_eps,
            )
            if combination == "gate"
            else None
        )

    def forward(
        self,
        query: Tensor,
        key: Tensor | None,
        value: Tensor | None,
        key_padding_mask: Tensor | None = None,
        need_weights: bool = True,
        attn_mask: Tensor | None = None,
        *,
        syntax: SyntaxBias,
    ) -> tuple[Tensor, Tensor | None]:
        """Attends.

        Args:
            query: the input, ``(n, batch, embed_dim)``; `key` and `value` are the same tensor.
            key_padding_mask: true at padding, ``(batch, n)``.
            need_weights: whether to return A, averaged over heads.
            attn_mask: not supported; must be ``None``.
            syntax: the batch's masks.

        Returns:
            the output, ``(n, batch, embed_dim)``, and A, ``(batch, n, n)``, or ``None``.
        """
        if attn_mask is not None:
            raise ValueError("SyntaxAttention takes syntax masks, not an attn_mask")
        n, batch, _ = query.shape
        q = self._split_heads(self.q_proj(query) * self.scaling)
        k = self._split_heads(self.k_proj(query))
        v = self._split_heads(self.v_proj(query))
        scores = (q @ k.transpose(2, 3)).float()  # (batch, heads, n, n)
        if key_padding_mask is not None:
            scores = scores.masked_fill(key_padding_mask.to(torch.bool)[:, None, None, :], -torch.inf)
        attention = scores.softmax(dim=-1)
        mixed = self._mix(
            attention[:, : self.syntax_heads],
            scores[:, : self.syntax_heads],
            self._weights(query, key_padding_mask),
            syntax,
        )
        if self.syntax_heads < self.num_heads:
            mixed = torch.cat([mixed, attention[:, self.syntax_heads :]], dim=1)
        mixed = mixed.type_as(v)
        output = self.dropout_module(mixed) @ v
        output = output.permute(2, 0, 1, 3).reshape(n, batch, self.embed_dim)
        return self.out_proj(output), mixed.mean(dim=1) if need_weights else None

    def _split_heads(self, x: Tensor) -> Tensor:
        """``(n, batch, embed_dim)`` to ``(batch, heads, n, head_dim)``."""
        return x.view(len(x), -1, self.num_heads, self.head_dim).permute(1, 2, 0, 3)

    def _weights(self, query: Tensor, key_padding_mask: Tensor | None) -> Tensor:
        """Weights of the masks, ``(batch, masks, syntax_heads)``."""
        if self.gate is not None:
            return self.gate(query, key_padding_mask)
        experts = self.num_masks + (self.combination == "average")
        shape = query.shape[1], self.num_masks, self.syntax_heads
        return torch.full(shape, 1.0 / experts, device=query.device)

    def _mix(self, raw: Tensor, scores: Tensor, weights: Tensor, syntax: SyntaxBias) -> Tensor:
        """(1 - ΣG_k)·A_raw + Σ G_k·dropout(A_k); `raw` and `scores` are ``(batch, syntax_heads, n, n)``."""
        mixed = (1.0 - weights.sum(dim=1))[:, :, None, None] * raw
        for k in range(self.num_masks):
            guided = (scores + syntax.log_masks[:, k, None]).softmax(dim=-1)
            if self.training and self.syntax_dropout_module.p > 0:
                parsed = syntax.parsed[:, k, None, None, None]
                guided = torch.where(parsed, self.syntax_dropout_module(guided), guided)
            mixed = mixed + weights[:, k, :, None, None] * guided
        return mixed

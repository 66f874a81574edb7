"""Self-attention that mixes global attention with attention under syntax masks."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from fairseq.modules import MultiheadAttention
from fairseq.modules.fairseq_dropout import FairseqDropout
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from fairseq_syntax.nn.gate import SyntaxGate
from fairseq_syntax.nn.masks import SyntaxBias
from fairseq_syntax.nn.numerics import at_least_float32, hiding

#: Below this share of a row's global attention that a mask lets pass, ``shared`` would lose precision.
_SMALLEST_SHARE = 1e-12

#: On a CPU, fused attention is faster than ``shared`` from about this sentence length.
_LONG = 128


class SyntaxAttention(MultiheadAttention):
    """Gated syntax self-attention (Hou 2024, eq. 7-11), for any number of masks.

    A_raw = softmax(x), A_k = softmax(x + log m_k) for the scores x = q·kᵀ/√d and each mask m_k;
    A = (1 - ΣG_k)·A_raw + Σ G_k·dropout(A_k), then attention dropout on A, once. A sentence without the parse that
    mask k is made of has m_k = 1 everywhere and no syntax dropout, so A_k = A_raw whatever its gate.

    Parameters have the names of fairseq's :class:`~fairseq.modules.MultiheadAttention`, plus those of the gate.

    There are three ways to compute this, which agree up to rounding:

    ``plain``
        as it is written above.
    ``shared``
        one softmax for all: A_k = m_k·A_raw / Σ m_k·A_raw. Where a mask lets less than 1e-12 of a row's global
        attention pass, the batch falls back to ``plain`` (finding that out makes a GPU wait).
    ``fused``
        torch's scaled_dot_product_attention, once for global attention and once a mask, mixed afterwards, which is the
        same because the output is linear in A. Where A is asked for or a dropout acts on it, as ``plain``.
    ``auto``
        on CUDA ``fused`` where it is possible, else ``plain``; on a CPU ``fused`` where it is possible and sentences
        are long, else ``shared``.

    All but ``plain`` compute queries, keys and values in one projection, unless quant-noise acts on them.

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
        implementation: ``auto``, ``plain``, ``shared`` or ``fused``.
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
        implementation: str = "auto",
        **kwargs: Any,
    ):
        super().__init__(embed_dim, num_heads, self_attention=True, **kwargs)
        self.num_masks = num_masks
        self.syntax_heads = syntax_heads
        self.combination = combination
        self.implementation = implementation
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
        implementation = self._implementation(query, need_weights)
        q, k, v = self._project(query, packed=self.implementation != "plain")
        weights = self._weights(query, key_padding_mask)
        if implementation == "fused":
            output, mixed = self._fused(q, k, v, weights, key_padding_mask, syntax), None
        else:
            scores = at_least_float32(self._scores(q, k, key_padding_mask)).view(batch, self.num_heads, n, n)
            mixed = self._mix(scores, weights, syntax, shared=implementation == "shared").type_as(v)
            output = torch.bmm(self.dropout_module(mixed).view(-1, n, n), v)
        output = output.transpose(0, 1).reshape(n, batch, self.embed_dim)
        return self.out_proj(output), mixed.mean(dim=1) if need_weights and mixed is not None else None

    def _implementation(self, query: Tensor, need_weights: bool) -> str:
        """Which of ``plain``, ``shared`` and ``fused`` it is this time."""
        if self.implementation in ("plain", "shared"):
            return self.implementation
        fusible = not (need_weights or self._acts(self.dropout_module) or self._acts(self.syntax_dropout_module))
        if self.implementation == "fused" or query.is_cuda:
            return "fused" if fusible else "plain"
        return "fused" if fusible and len(query) >= _LONG else "shared"

    def _acts(self, dropout: FairseqDropout) -> bool:
        return dropout.p > 0 and (self.training or dropout.apply_during_inference)

    def _project(self, x: Tensor, *, packed: bool) -> tuple[Tensor, Tensor, Tensor]:
        """Queries (divided by √d), keys and values of ``(n, batch, embed_dim)``: ``(batch · heads, n, d)`` each."""
        projections = self.q_proj, self.k_proj, self.v_proj
        n, batch, _ = x.shape
        if not packed or any(type(p) is not nn.Linear or p._forward_pre_hooks for p in projections):
            q, k, v = (p(x).view(n, -1, self.head_dim).transpose(0, 1) for p in projections)
            return q * self.scaling, k, v
        # Rows in the order heads, (q, k, v), d: so what comes out is multiplied head by head without a copy.
        shape = self.num_heads, self.head_dim, self.embed_dim
        weights = self.q_proj.weight * self.scaling, self.k_proj.weight, self.v_proj.weight
        biases = self.q_proj.bias * self.scaling, self.k_proj.bias, self.v_proj.bias
        weight = torch.stack([w.view(shape) for w in weights], dim=1).view(-1, self.embed_dim)
        bias = torch.stack([b.view(shape[:2]) for b in biases], dim=1).view(-1)
        qkv = F.linear(x, weight, bias).view(n, batch * self.num_heads, 3, self.head_dim)
        q, k, v = qkv.transpose(0, 1).unbind(dim=2)
        return q, k, v

    def _scores(self, q: Tensor, k: Tensor, key_padding_mask: Tensor | None) -> Tensor:
        """q·kᵀ, ``(batch · heads, n, n)``; -inf for keys that are padding."""
        if key_padding_mask is None:
            return torch.bmm(q, k.transpose(1, 2))
        hidden = hiding(key_padding_mask, q.dtype)
        return torch.baddbmm(hidden.repeat_interleave(self.num_heads, dim=0)[:, None], q, k.transpose(1, 2))

    def _weights(self, query: Tensor, key_padding_mask: Tensor | None) -> Tensor:
        """Weights of the masks, ``(batch, masks, syntax_heads)``."""
        if self.gate is not None:
            return self.gate(query, key_padding_mask)
        experts = self.num_masks + (self.combination == "average")
        shape = query.shape[1], self.num_masks, self.syntax_heads
        return torch.full(shape, 1.0 / experts, device=query.device)

    def _mix(self, scores: Tensor, weights: Tensor, syntax: SyntaxBias, *, shared: bool) -> Tensor:
        """A, before attention dropout, of scores ``(batch, heads, n, n)`` and :meth:`_weights`."""
        attention = scores.softmax(dim=-1)
        raw, scores = attention[:, : self.syntax_heads], scores[:, : self.syntax_heads]
        mixed = self._mix_shared(raw, weights, syntax) if shared else None
        if mixed is None:
            mixed = self._mix_plain(raw, scores, weights, syntax)
        if self.syntax_heads < self.num_heads:
            mixed = torch.cat([mixed, attention[:, self.syntax_heads :]], dim=1)
        return mixed

    def _mix_plain(self, raw: Tensor, scores: Tensor, weights: Tensor, syntax: SyntaxBias) -> Tensor:
        """(1 - ΣG_k)·A_raw + Σ G_k·dropout(softmax(x + log m_k)); all ``(batch, syntax_heads, n, n)``."""
        mixed = (1.0 - weights.sum(dim=1))[:, :, None, None] * raw
        for k in range(self.num_masks):
            guided = (scores + syntax.log_masks[:, k, None]).softmax(dim=-1)
            mixed = mixed + weights[:, k, :, None, None] * self._ignore_syntax(guided, syntax, k)
        return mixed

    def _mix_shared(self, raw: Tensor, weights: Tensor, syntax: SyntaxBias) -> Tensor | None:
        """A_raw·((1 - ΣG_k) + Σ G_k·dropout(m_k)/Z_k) with Z_k = Σ m_k·A_raw; ``None`` where some Z_k is too small."""
        factor = (1.0 - weights.sum(dim=1))[:, :, None, None]
        for k in range(self.num_masks):
            mask = syntax.masks[:, k, None]
            share = (raw * mask).sum(dim=-1, keepdim=True)
            if not share.detach().amin() > _SMALLEST_SHARE:
                return None
            mask = self._ignore_syntax(mask.expand_as(raw), syntax, k)
            factor = factor + mask * (weights[:, k, :, None, None] / share)  # faster than addcmul
        return raw * factor

    def _ignore_syntax(self, guided: Tensor, syntax: SyntaxBias, k: int) -> Tensor:
        """Syntax dropout on mask k's ``(batch, syntax_heads, n, n)``, of the sentences that are parsed."""
        if not self._acts(self.syntax_dropout_module):
            return guided
        dropped = self.syntax_dropout_module(guided)
        return dropped if syntax.all_parsed else torch.where(syntax.parsed[:, k, None, None, None], dropped, guided)

    def _fused(
        self, q: Tensor, k: Tensor, v: Tensor, weights: Tensor, key_padding_mask: Tensor | None, syntax: SyntaxBias
    ) -> Tensor:
        """The mixed output, ``(batch · heads, n, d)``."""
        batch, n = len(syntax.parsed), q.shape[1]
        q, k, v = (x.unflatten(0, (batch, self.num_heads)) for x in (q, k, v))
        padding, guiding = syntax.with_padding(key_padding_mask, q.dtype)
        first = slice(0, self.syntax_heads)
        with sdpa_kernel([SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]):
            output = F.scaled_dot_product_attention(q, k, v, attn_mask=padding, scale=1.0)
            mixed = (1.0 - weights.sum(dim=1))[:, :, None, None] * output[:, first]
            for i, bias in enumerate(guiding):
                guided = F.scaled_dot_product_attention(
                    q[:, first], k[:, first], v[:, first], attn_mask=bias, scale=1.0
                )
                mixed = torch.addcmul(mixed, weights[:, i, :, None, None], guided.to(mixed))
        mixed = mixed.to(output)
        if self.syntax_heads < self.num_heads:
            mixed = torch.cat([mixed, output[:, self.syntax_heads :]], dim=1)
        return mixed.reshape(-1, n, self.head_dim)

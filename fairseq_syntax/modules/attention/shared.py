"""All experts by one softmax.

A = A_0 ⊙ (w_0 + Σ w_k ⊙ dropout(m_k)/Z_k), Z_k = Σ m_k·A_0, masks m_k = exp(b_k).
"""

from __future__ import annotations

import torch
from torch import Tensor

from fairseq_syntax.modules.attention.interface import AttentionResult, ExpertMixture
from fairseq_syntax.modules.attention.reference import ReferenceAttention
from fairseq_syntax.modules.numerics import softmax

#: Below this share of a row's global attention that a mask lets pass, precision would be lost.
_SMALLEST_SHARE = 1e-12

#: About how many scores are computed at a time, but at least those of one sentence: they stay in the CPU's cache.
_CACHED_SCORES = 2**20


class SharedAttention(ReferenceAttention):
    """One softmax for all experts, the fastest implementation on a CPU.

    Where a mask lets less than 1e-12 of a row's global attention pass, or exp(b) is too large a number, the batch falls
    back to :class:`ReferenceAttention`; finding that out makes a GPU wait.
    """

    def supports(self, mixture: ExpertMixture) -> bool:
        return mixture.has_only_biases and not mixture.learned and bool(mixture.biases.biases) and mixture.experts > 1

    def attend(self, q: Tensor, k: Tensor, v: Tensor, mixture: ExpertMixture) -> AttentionResult:
        batch, heads, n, _ = q.shape
        size = group_size(heads * n * n)
        if not takes_groups(mixture, q.device) or size >= batch:
            return super().attend(q, k, v, mixture)
        groups = zip(*(part.split(size) for part in (q, k, v)), mixture.split(size), strict=True)
        return AttentionResult(torch.cat([super(SharedAttention, self).attend(*group).output for group in groups]))

    def _experts(self, x: Tensor, mixture: ExpertMixture) -> Tensor:
        raw = _global_attention(x, mixture)[:, : mixture.heads]
        passed, shares = _passed(raw, mixture)
        if not _is_precise(shares):
            return super()._experts(x, mixture)
        parts = zip(passed, shares, strict=True)
        each = [mixture.drop_syntax(part / share, k) for k, (part, share) in enumerate(parts)]
        return mixture.drop_experts(torch.stack([raw, *each] if mixture.has_global_expert else each, dim=2))

    def weights(self, x: Tensor, mixture: ExpertMixture) -> Tensor:
        attention = _global_attention(x, mixture)
        raw = attention[:, : mixture.heads]
        passed, shares = _passed(raw, mixture)
        if not _is_precise(shares):
            return self._mixed(super()._experts(x, mixture), x, mixture)
        weights = [mixture.weight(mixture.has_global_expert + k) / share for k, share in enumerate(shares)]
        if mixture.evaluates:  # a sum in place: one pass over n×n numbers less for each mask
            if mixture.has_global_expert:
                passed, weights = [raw, *passed], [mixture.weight(0), *weights]
            mixed = passed[0].mul_(weights[0])
            for part, weight in zip(passed[1:], weights[1:], strict=True):
                mixed.addcmul_(part, weight)
        else:
            del passed
            mixed = raw * _factor(mixture, raw, weights)
        return mixture.with_global_heads(mixed, attention[:, mixture.heads :], mixture.drop_experts)


def _global_attention(x: Tensor, mixture: ExpertMixture) -> Tensor:
    """A_0 of all heads."""
    padding = mixture.biases.padding_bias(x.dtype)
    return softmax(x if padding is None else x + padding)


def _passed(raw: Tensor, mixture: ExpertMixture) -> tuple[list[Tensor], list[Tensor]]:
    """m_k·A_0 and its sums Z_k of each mask."""
    passed = [raw * bias.normal_mask for bias in mixture.biases.biases]
    return passed, [part.sum(dim=-1, keepdim=True) for part in passed]


def _is_precise(shares: list[Tensor]) -> bool:
    """Return true if no Z_k is too small or infinite."""
    least, most = torch.cat([share.detach() for share in shares]).aminmax()
    return float(least) > _SMALLEST_SHARE and float(most) < torch.inf


def takes_groups(mixture: ExpertMixture, device: torch.device) -> bool:
    """Return true if some sentences are computed at a time: on a CPU, if the output alone is needed, without values."""
    return device.type == "cpu" and mixture.evaluates and not (mixture.needs_weights or mixture.has_values)


def group_size(scores: int) -> int:
    """Return how many sentences with N scores each to compute at a time."""
    return max(1, _CACHED_SCORES // scores)


def _factor(mixture: ExpertMixture, raw: Tensor, weights: list[Tensor]) -> Tensor:
    """The factor of A_0 in A; one tensor is kept for the gradient, of any number of masks.

    Args:
        raw: A_0.
        weights: w_k/Z_k of each mask, ``(batch, heads, n, 1)``.
    """
    factor = raw.new_zeros(())
    if mixture.has_global_expert:
        factor = mixture.weight(0)
        if mixture.dropout is not None and mixture.dropout_on == "experts":
            factor = factor * mixture.dropout(torch.ones_like(raw))
    for k, (bias, weight) in enumerate(zip(mixture.biases.biases, weights, strict=True)):
        mask = mixture.drop_experts(mixture.drop_syntax(bias.normal_mask.expand_as(raw), k))
        factor = (mask * weight).add_(factor)  # faster than addcmul
    return factor

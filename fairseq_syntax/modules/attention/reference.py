"""The definition: experts are one more axis of one softmax."""

from __future__ import annotations

import torch
from torch import Tensor

from fairseq_syntax.modules.attention.interface import AttentionImplementation, AttentionResult, ExpertMixture
from fairseq_syntax.modules.numerics import at_least_float32, softmax


class ReferenceAttention(AttentionImplementation):
    """Attention as its formula is written, for any mixture."""

    def supports(self, mixture: ExpertMixture) -> bool:
        return True

    def attend(self, q: Tensor, k: Tensor, v: Tensor, mixture: ExpertMixture) -> AttentionResult:
        x = scores(q, k, position=mixture.position)
        if mixture.has_values:
            return self._attend_with_values(x, v, mixture)
        weights = self.weights(x, mixture).type_as(v)
        output = torch.bmm(mixture.drop_mixture(weights).flatten(0, 1), v.flatten(0, 1))
        return AttentionResult(output.unflatten(0, v.shape[:2]), weights, x)

    def weights(self, x: Tensor, mixture: ExpertMixture) -> Tensor:
        """A of scores x, ``(batch, heads, n, n)`` both."""
        return self._mixed(self._experts(x, mixture) if mixture.heads else None, x, mixture)

    def _experts(self, x: Tensor, mixture: ExpertMixture) -> Tensor:
        """A_k of all experts after dropout that acts on them, ``(batch, heads with experts, experts, n, n)``."""
        has_global = mixture.has_global_expert
        experts, factors = x[:, : mixture.heads].unsqueeze(2), mixture.biases.expert_factors(with_global=has_global)
        if factors is not None:
            experts = experts * factors
        experts = softmax(experts + mixture.biases.expert_biases(x.dtype, with_global=has_global))
        if mixture.syntax_dropout is not None:
            each = list(experts.unbind(dim=2))
            for k in range(len(mixture.biases.biases)):
                each[has_global + k] = mixture.drop_syntax(each[has_global + k], k)
            experts = torch.stack(each, dim=2)
        return mixture.drop_experts(experts)

    def _mixed(self, experts: Tensor | None, x: Tensor, mixture: ExpertMixture) -> Tensor:
        """A of :meth:`_experts`, if there are any, and of the other heads."""
        mixed, padding = None if experts is None else mixture.mix(experts), mixture.biases.padding_bias(x.dtype)

        def attend_globally(x: Tensor) -> Tensor:
            return mixture.drop_experts(softmax(x if padding is None else x + padding))

        return mixture.with_global_heads(mixed, x[:, mixture.heads :], attend_globally)

    def _attend_with_values(self, x: Tensor, v: Tensor, mixture: ExpertMixture) -> AttentionResult:
        """:meth:`attend` by scores x, where experts have values."""
        experts = self._experts(x, mixture)
        weights = self._mixed(experts, x, mixture)
        kept = None  # by attention dropout, the same entries of A and all A_k
        if mixture.dropout is not None and mixture.dropout_on == "mixture":
            kept = mixture.dropout(torch.ones_like(weights))
        dropped = weights if kept is None else weights * kept
        output = torch.bmm(dropped.type_as(v).flatten(0, 1), v.flatten(0, 1)).unflatten(0, v.shape[:2])
        of_experts = None if kept is None else kept[:, : mixture.heads]
        mixed = mixture.add_values(output[:, : mixture.heads], experts, kept=of_experts)
        output = torch.cat([mixed, output[:, mixture.heads :].to(mixed.dtype)], dim=1)
        return AttentionResult(output.type_as(v), weights.type_as(v), x)


def scores(q: Tensor, k: Tensor, *, position: Tensor | None = None) -> Tensor:
    """Return x = q·kᵀ/√d in float32 at least, ``(batch, heads, n, n)``, of ``(batch, heads, n, d)``.

    Args:
        position: a bias of all experts, ``(1, heads, n, n)``, is added.
    """
    q = q * q.shape[3] ** -0.5
    product = torch.bmm(q.flatten(0, 1), k.flatten(0, 1).transpose(1, 2))
    x = at_least_float32(product).unflatten(0, q.shape[:2])
    return x if position is None else x + position

"""The definition: experts are one more axis of one softmax."""

from __future__ import annotations

import torch
from torch import Tensor

from fairseq_syntax.modules.attention.interface import AttentionImplementation, AttentionResult, ExpertMixture
from fairseq_syntax.modules.numerics import at_least_float32


class ReferenceAttention(AttentionImplementation):
    """Attention as its formula is written, for any mixture."""

    def supports(self, mixture: ExpertMixture) -> bool:
        return True

    def attend(self, q: Tensor, k: Tensor, v: Tensor, mixture: ExpertMixture) -> AttentionResult:
        x = scores(q, k, position=mixture.position)
        weights = self.weights(x, mixture).type_as(v)
        output = torch.bmm(mixture.drop_mixture(weights).flatten(0, 1), v.flatten(0, 1))
        return AttentionResult(output.unflatten(0, v.shape[:2]), weights, x)

    def weights(self, x: Tensor, mixture: ExpertMixture) -> Tensor:
        """A of scores x, ``(batch, heads, n, n)`` both."""
        mixed, padding = None, mixture.biases.padding_bias(x.dtype)
        has_global = mixture.has_global_expert
        if mixture.heads:
            experts, factors = x[:, : mixture.heads].unsqueeze(2), mixture.biases.expert_factors(with_global=has_global)
            if factors is not None:
                experts = experts * factors
            # (batch, heads, experts, n, n)
            experts = (experts + mixture.biases.expert_biases(x.dtype, with_global=has_global)).softmax(dim=-1)
            if mixture.syntax_dropout is not None:
                each = list(experts.unbind(dim=2))
                for k in range(len(mixture.biases.biases)):
                    each[has_global + k] = mixture.drop_syntax(each[has_global + k], k)
                experts = torch.stack(each, dim=2)
            mixed = mixture.mix(mixture.drop_experts(experts))

        def attend_globally(x: Tensor) -> Tensor:
            return mixture.drop_experts((x if padding is None else x + padding).softmax(dim=-1))

        return mixture.with_global_heads(mixed, x[:, mixture.heads :], attend_globally)


def scores(q: Tensor, k: Tensor, *, position: Tensor | None = None) -> Tensor:
    """Return x = q·kᵀ/√d in float32 at least, ``(batch, heads, n, n)``, of ``(batch, heads, n, d)``.

    Args:
        position: a bias of all experts, ``(1, heads, n, n)``, is added.
    """
    q = q * q.shape[3] ** -0.5
    product = torch.bmm(q.flatten(0, 1), k.flatten(0, 1).transpose(1, 2))
    x = at_least_float32(product).unflatten(0, q.shape[:2])
    return x if position is None else x + position

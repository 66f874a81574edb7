"""torch's fused attention, ``scaled_dot_product_attention``, of all experts, mixed afterwards.

The output is linear in A, so A·v is the mixture of the experts' outputs, and no n×n matrix but the biases is stored.
Where experts sum values of pairs, A_k is: it is a part of A_k·[v; I].
"""

from __future__ import annotations

from itertools import groupby

import torch
import torch.nn.functional as F
from torch import Tensor

from fairseq_syntax.modules.attention.interface import AttentionImplementation, AttentionResult, ExpertMixture


class SDPAttention(AttentionImplementation):
    """torch's fused attention, whose queries are repeated for each expert.

    Dropout is torch's, with the probabilities of the mixture's; syntax dropout acts on all sentences. The kernel is
    torch's choice (:mod:`fairseq_syntax.compat.cudnn_attention` is about one of them).
    """

    def supports(self, mixture: ExpertMixture) -> bool:
        if mixture.needs_weights or not mixture.has_only_biases:
            return False
        drops_experts = mixture.dropout is None or mixture.dropout_on == "experts" or mixture.experts == 1
        return drops_experts and (mixture.syntax_dropout is None or mixture.biases.all_have_parse)

    def attend(self, q: Tensor, k: Tensor, v: Tensor, mixture: ExpertMixture) -> AttentionResult:
        heads, n = mixture.heads, q.shape[2]
        position = None if mixture.position is None else mixture.position.to(q.dtype)
        mixed = None
        if heads:
            bias = mixture.biases.expert_biases(q.dtype, with_global=mixture.has_global_expert, aligned=True)
            bias = bias if position is None else bias + position[:, :heads].unsqueeze(2)
            summed = _with_identity(v[:, :heads]) if mixture.has_values else v[:, :heads]
            outputs: list[Tensor] = []  # of experts whose dropout is the same
            for p, group in groupby(enumerate(_dropout_probabilities(mixture)), key=lambda expert: expert[1]):
                experts = [expert for expert, _ in group]
                queries = q[:, :heads].unsqueeze(2).expand(-1, -1, len(experts), -1, -1).flatten(2, 3)
                mask = bias[:, :, experts[0] : experts[-1] + 1].flatten(2, 3)
                output = F.scaled_dot_product_attention(queries, k[:, :heads], summed, attn_mask=mask, dropout_p=p)
                outputs.append(output.unflatten(2, (len(experts), n)))
            of_experts = outputs[0] if len(outputs) == 1 else torch.cat(outputs, dim=2)
            mixed = mixture.mix(of_experts[..., : v.shape[3]])
            if mixture.has_values:
                mixed = mixture.add_values(mixed, of_experts[..., v.shape[3] : v.shape[3] + n])
            mixed = mixed.to(q.dtype)

        def attend_globally(q: Tensor) -> Tensor:
            mask = mixture.biases.padding_bias(q.dtype)
            if position is not None:
                mask = position[:, heads:] if mask is None else mask + position[:, heads:]
            p = 0.0 if mixture.dropout is None else mixture.dropout.p
            return F.scaled_dot_product_attention(q, k[:, heads:], v[:, heads:], attn_mask=mask, dropout_p=p)

        return AttentionResult(mixture.with_global_heads(mixed, q[:, heads:], attend_globally))


def _with_identity(v: Tensor) -> Tensor:
    """[v; I], ``(batch, heads, n, d + n)``, the width up to a multiple of 8, as fused attention takes it."""
    n, width = v.shape[2:]
    identity = torch.eye(n, n + -(width + n) % 8, dtype=v.dtype, device=v.device)
    return torch.cat([v, identity.expand(*v.shape[:2], -1, -1)], dim=3)


def _dropout_probabilities(mixture: ExpertMixture) -> list[float]:
    """Dropout of each expert's entries; two dropouts are one that keeps (1-p)·(1-q)."""
    p = 0.0 if mixture.dropout is None else mixture.dropout.p
    of_syntax = p if mixture.syntax_dropout is None else 1 - (1 - p) * (1 - mixture.syntax_dropout.p)
    return [p] * mixture.has_global_expert + [of_syntax] * len(mixture.biases.biases)

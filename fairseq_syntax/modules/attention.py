"""Attention as a mixture of experts, and the ways to compute it.

Expert k turns the scores x = q·kᵀ/√d into A_k = softmax(f_k ⊙ x + b_k + padding), by the factor f_k and the bias b_k of
its :class:`~fairseq_syntax.modules.biases.AttentionBias`; the global expert 0 has f = 1, b = 0. Then

    A = w_0 ⊙ A_0 + Σ w_k ⊙ dropout(A_k),

with weights w that sum up to 1, ``(batch, experts, heads, 1 or n)``, the last axis being queries: Hou 2024, eq. (7) to
(11).

Attention dropout then acts on A, once, or on each A_k, drawn apart. The mean is A in either case. With p the
probability that an entry is dropped, its variance is A²·p/(1-p) in the first case and Σ (w_k·A_k)²·p/(1-p) in the
second: less, but at least a K-th of it with K experts (Cauchy-Schwarz), and the same where one has all the weight.

The first heads may have experts, the others have A = A_0. Where weights have no rest, there is no A_0 but for those. A
bias by relative position, if a model has one for all experts, is part of x.

:func:`plain` is the definition: experts are one more axis of one softmax. :func:`shared` and :func:`fused` agree with
it up to rounding, where :func:`choose` takes them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from fairseq_syntax.modules.biases import BatchBiases
from fairseq_syntax.modules.numerics import at_least_float32, no_autocast

#: The ways to compute it that one can ask for.
WAYS = ("auto", "plain", "shared", "fused")

#: What attention dropout may act on.
DROPOUT_ON = ("mixture", "experts")

#: Below this share of a row's global attention that a mask lets pass, :func:`shared` would lose precision.
_SMALLEST_SHARE = 1e-12

#: On a CPU, fused attention is faster from about this sentence length than what takes all sentences at once.
_LONG = 128

#: About how many scores are taken at a time, but at least one sentence's: what is made of them may stay in the cache.
_CACHED = 2**20


class Dropout(Protocol):
    """A dropout that acts.

    Attributes:
        p: the probability of dropping an entry.
    """

    p: float

    def __call__(self, x: Tensor) -> Tensor: ...


@dataclass(frozen=True)
class Mixture:
    """What attention over a batch is made of, beside queries, keys and values.

    Attributes:
        masks: of the batch, each a :class:`~fairseq_syntax.modules.biases.AttentionBias` here.
        weights: of the experts, ``(batch, experts, heads with experts, 1 or n)``: of the global one, if it has one, and
            of the masks; they sum up to 1.
        padding: true at keys that are padding, ``(batch, n)``; ``None`` where there are none.
        ignore: dropout of syntactic attention ("syntax ignoring"); ``None`` where none acts.
        has_global_expert: whether the global expert has a weight.
        dropout: attention dropout that acts on each expert, drawn apart; ``None`` where none does.
    """

    masks: BatchBiases
    weights: Tensor
    padding: Tensor | None
    ignore: Dropout | None
    has_global_expert: bool = True
    dropout: Dropout | None = None

    @property
    def heads(self) -> int:
        """How many heads, the first ones, have experts."""
        return self.weights.shape[2] if self.masks.biases else 0

    def split(self, size: int) -> list[Mixture]:
        """Those of groups of so many sentences."""
        groups = zip(self.masks.split(self.padding, size), self.weights.split(size), strict=True)
        return [replace(self, masks=masks, weights=w, padding=padding) for (masks, padding), w in groups]

    def hidden_keys(self, dtype: torch.dtype) -> Tensor | None:
        """What hides keys that are padding from scores, ``(batch, 1, 1, n)``: -inf there, 0 elsewhere."""
        return self.masks.hidden_keys(self.padding, dtype)

    def expert_biases(self, dtype: torch.dtype, *, aligned: bool = False) -> Tensor:
        """b of the experts, padding hidden, ``(batch, 1 or heads, experts, n, n)``."""
        return self.masks.expert_biases(self.padding, dtype, with_global=self.has_global_expert, aligned=aligned)

    def expert_factors(self) -> Tensor | None:
        """f of the experts, in that shape; ``None`` if all are 1."""
        return self.masks.expert_factors(with_global=self.has_global_expert)

    def weight(self, expert: int) -> Tensor:
        """w of an expert, ``(batch, heads, 1 or n, 1)``: one for each row of its attention."""
        return self.weights[:, expert, :, :, None]

    def mixed(self, of_experts: Tensor) -> Tensor:
        """Σ w_k·y_k of what experts give, ``(batch, heads, experts, n, …)``; at least in float32."""
        if of_experts.shape[2] == 1:  # its weight is 1
            return of_experts.squeeze(2)
        of_experts = at_least_float32(of_experts)
        weights = self.weights.transpose(1, 2).to(of_experts.dtype)
        if weights.shape[2] == 2 and not torch.is_grad_enabled():  # one operation; its gradient would be seven
            return torch.lerp(of_experts[:, :, 0], of_experts[:, :, 1], weights[:, :, 1].unsqueeze(3))
        if weights.shape[3] > 1 or not of_experts.is_contiguous():  # a product of matrices would copy them
            return (weights.unsqueeze(4) * of_experts).sum(dim=2)
        batch, heads, experts = weights.shape[:3]
        with no_autocast(of_experts.device):
            product = torch.bmm(
                weights.reshape(batch * heads, 1, experts), of_experts.reshape(batch * heads, experts, -1)
            )
        return product.view(batch, heads, *of_experts.shape[3:])

    def ignored(self, guided: Tensor, k: int) -> Tensor:
        """Syntax dropout on mask k's ``(batch, heads, n, n)``, of the sentences that are parsed."""
        if self.ignore is None:
            return guided
        dropped = self.ignore(guided)
        masks = self.masks
        return dropped if masks.all_parsed else torch.where(masks.parsed[:, k, None, None, None], dropped, guided)

    def dropped(self, of_experts: Tensor) -> Tensor:
        """Attention dropout of experts, if it acts on each: on one, or on a stack of them."""
        return of_experts if self.dropout is None else self.dropout(of_experts)

    @property
    def chances(self) -> list[float]:
        """With which probability an entry of each expert is dropped, where all sentences are parsed.

        Two dropouts, one after the other, are one that keeps (1-p)·(1-q).
        """
        p = 0.0 if self.dropout is None else self.dropout.p
        of_masks = p if self.ignore is None else 1 - (1 - p) * (1 - self.ignore.p)
        return [p] * self.has_global_expert + [of_masks] * len(self.masks.biases)


def choose(
    asked: str,
    *,
    n: int,
    on_cuda: bool,
    needs_matrix: bool,
    drops: bool,
    some_at_a_time: bool,
    masks: BatchBiases,
    own_parameters: bool,
    has_global_expert: bool = True,
) -> str:
    """Which of ``plain``, ``shared`` and ``fused`` computes it.

    Args:
        asked: one of :data:`WAYS`. ``auto``: on CUDA ``fused`` where it is possible, else ``plain``; on a CPU ``fused``
            where it is possible, sentences are long, and ``shared`` would take them all at once; else ``shared``.
        n: the length of the sentences.
        needs_matrix: whether A itself, or an A_k, is needed: it is asked for, or a dropout acts on it that is not drawn
            apart for each expert.
        drops: whether a dropout acts.
        some_at_a_time: whether ``shared`` may take some sentences at a time.
        own_parameters: whether a mask has parameters of its own, so that its bias is any number, not the logarithm of a
            mask.
        has_global_expert: whether the global expert has a weight.
    """
    if any(expert.factor is not None or expert.bias is None for expert in masks.biases):
        return "plain"
    softmaxes = len(masks.biases) + has_global_expert
    sharable = "plain" if own_parameters or not masks.biases or softmaxes == 1 else "shared"
    if asked == "plain" or asked == "shared":
        return "plain" if asked == "plain" else sharable
    if asked == "fused" or on_cuda:
        return "plain" if needs_matrix else "fused"
    fuses = not needs_matrix and not drops and n >= _LONG
    return "fused" if fuses and not (sharable == "shared" and some_at_a_time) else sharable


def at_a_time(of_each: int) -> int:
    """How many sentences to take at a time that have so many scores each."""
    return max(1, _CACHED // of_each)


def scores(q: Tensor, k: Tensor, *, heads: int, position: Tensor | None = None) -> Tensor:
    """x = q·kᵀ, ``(batch, heads, n, n)`` in float32 at least, of q (divided by √d) and k, ``(batch · heads, n, d)``.

    Args:
        position: a bias that all experts have, ``(1, heads, n, n)``, is added.
    """
    x = at_least_float32(torch.bmm(q, k.transpose(1, 2))).unflatten(0, (-1, heads))
    return x if position is None else x + position


def plain(x: Tensor, mixture: Mixture) -> Tensor:
    """A, ``(batch, heads, n, n)``, of scores x, before attention dropout that acts on it: as the module's formula is
    written."""
    mixed, hidden = None, mixture.hidden_keys(x.dtype)
    if mixture.heads:
        of_experts, factors = x[:, : mixture.heads].unsqueeze(2), mixture.expert_factors()
        if factors is not None:
            of_experts = of_experts * factors
        experts = (of_experts + mixture.expert_biases(x.dtype)).softmax(dim=-1)  # (batch, heads, experts, n, n)
        if mixture.ignore is not None:
            each = list(experts.unbind(dim=2))
            for k in range(len(mixture.masks.biases)):
                each[mixture.has_global_expert + k] = mixture.ignored(each[mixture.has_global_expert + k], k)
            experts = torch.stack(each, dim=2)
        mixed = mixture.mixed(mixture.dropped(experts))

    def of_global_heads(x: Tensor) -> Tensor:
        return mixture.dropped((x if hidden is None else x + hidden).softmax(dim=-1))

    return _with_global_heads(mixed, x[:, mixture.heads :], of_global_heads)


def shared(x: Tensor, mixture: Mixture, *, evaluates: bool = False) -> Tensor:
    """As :func:`plain`, by one softmax: A = A_0 ⊙ (w_0 + Σ w_k ⊙ dropout(m_k)/Z_k), Z_k = Σ m_k·A_0.

    Where a mask lets less than 1e-12 of a row's global attention pass, or exp(b) is too large a number, the batch falls
    back to :func:`plain`; finding that out makes a GPU wait.

    Args:
        evaluates: whether no gradient is wanted and no dropout acts: A is then a sum, made in place. That is one pass
            over n×n numbers less for each mask.
    """
    hidden = mixture.hidden_keys(x.dtype)
    attention = (x if hidden is None else x + hidden).softmax(dim=-1)
    raw = attention[:, : mixture.heads]
    guided = [raw * expert.normal_mask for expert in mixture.masks.biases]
    shares = [passed.sum(dim=-1, keepdim=True) for passed in guided]
    least, most = torch.cat([share.detach() for share in shares]).aminmax()
    if not (float(least) > _SMALLEST_SHARE and float(most) < torch.inf):
        return plain(x, mixture)
    weights = [mixture.weight(mixture.has_global_expert + k) / share for k, share in enumerate(shares)]
    if evaluates:
        if mixture.has_global_expert:
            guided, weights = [raw, *guided], [mixture.weight(0), *weights]
        mixed = guided[0].mul_(weights[0])
        for passed, weight in zip(guided[1:], weights[1:], strict=True):
            mixed.addcmul_(passed, weight)
    else:
        del guided
        mixed = raw * _factor(mixture, raw, weights)
    return _with_global_heads(mixed, attention[:, mixture.heads :], mixture.dropped)


def _factor(mixture: Mixture, raw: Tensor, weights: list[Tensor]) -> Tensor:
    """What A_0 is multiplied by in :func:`shared`; one tensor is kept for the gradient, however many masks there are.

    Args:
        raw: A_0.
        weights: w_k/Z_k of each mask, ``(batch, heads, n, 1)``.
    """
    factor = raw.new_zeros(())
    if mixture.has_global_expert:
        factor = mixture.weight(0)
        if mixture.dropout is not None:
            factor = factor * mixture.dropout(torch.ones_like(raw))
    for k, (expert, weight) in enumerate(zip(mixture.masks.biases, weights, strict=True)):
        mask = mixture.dropped(mixture.ignored(expert.normal_mask.expand_as(raw), k))
        factor = (mask * weight).add_(factor)  # faster than addcmul
    return factor


def fused(q: Tensor, k: Tensor, v: Tensor, mixture: Mixture, *, position: Tensor | None = None) -> Tensor:
    """A·v, ``(batch, heads, n, d)``: torch's fused attention of as many queries as there are experts, mixed afterwards.

    That is the same, because the output is linear in A. Dropout is torch's, by the probabilities of the mixture's; that
    of syntactic attention acts on all sentences. The kernel is torch's choice
    (:mod:`fairseq_syntax.compat.cudnn_attention` is about one of them).

    Args:
        q: not divided by √d; as k and v, ``(batch, heads, n, d)``.
        position: that of :func:`scores`.
    """
    heads, n = mixture.heads, q.shape[2]
    added = None if position is None else position.to(q.dtype)
    mixed = None
    if heads:
        bias = mixture.expert_biases(q.dtype, aligned=True)
        bias = bias if added is None else bias + added[:, :heads].unsqueeze(2)
        outputs: list[Tensor] = []  # of experts whose dropout is the same
        for p, group in groupby(enumerate(mixture.chances), key=lambda of_expert: of_expert[1]):
            experts = [expert for expert, _ in group]
            queries = q[:, :heads].unsqueeze(2).expand(-1, -1, len(experts), -1, -1).flatten(2, 3)
            of_these = bias[:, :, experts[0] : experts[-1] + 1].flatten(2, 3)
            output = F.scaled_dot_product_attention(
                queries, k[:, :heads], v[:, :heads], attn_mask=of_these, dropout_p=p
            )
            outputs.append(output.unflatten(2, (len(experts), n)))
        mixed = mixture.mixed(outputs[0] if len(outputs) == 1 else torch.cat(outputs, dim=2)).to(q.dtype)

    def of_global_heads(q: Tensor) -> Tensor:
        bias = mixture.hidden_keys(q.dtype)
        if added is not None:
            bias = added[:, heads:] if bias is None else bias + added[:, heads:]
        p = 0.0 if mixture.dropout is None else mixture.dropout.p
        return F.scaled_dot_product_attention(q, k[:, heads:], v[:, heads:], attn_mask=bias, dropout_p=p)

    return _with_global_heads(mixed, q[:, heads:], of_global_heads)


def _with_global_heads(mixed: Tensor | None, of_others: Tensor, attend: Callable[[Tensor], Tensor]) -> Tensor:
    """What heads with experts give, and what the others do by global attention alone."""
    if not of_others.shape[1]:
        assert mixed is not None
        return mixed
    return attend(of_others) if mixed is None else torch.cat([mixed, attend(of_others)], dim=1)

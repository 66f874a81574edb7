"""Attention as a mixture of experts, and the interface of its implementations.

Expert k turns the scores x = q·kᵀ/√d into A_k = softmax(f_k ⊙ x + b_k + padding), by the factor f_k and the bias b_k of
its :class:`~fairseq_syntax.modules.biases.AttentionBias`; the global expert 0 has f = 1, b = 0. Then

    A = w_0 ⊙ A_0 + Σ w_k ⊙ dropout(A_k),

with weights w that sum up to 1, ``(batch, experts, heads, 1 or n)``, the last axis being queries: Hou 2024, eq. (7) to
(11).

Attention dropout then acts on A, once, or on each A_k, drawn apart. The mean is A in either case. With p the
probability that an entry is dropped, its variance is A²·p/(1-p) in the first case and Σ (w_k·A_k)²·p/(1-p) in the
second: less, but at least a K-th of it with K experts (Cauchy-Schwarz), and the same where one has all the weight.

The output is A·v. Where expert k has vectors E of pairs of positions
(:class:`~fairseq_syntax.modules.biases.PairValues`), its own attention sums these beside v:

    o_i = Σ_j A[i, j]·v_j + Σ_k w_k ⊙ Σ_j dropout(A_k)[i, j]·E_k[r_k(i, j)].

Dropout that acts on A takes the same entries from each A_k here.

The first heads may have experts, the others have A = A_0. Without a global expert, there is no A_0 but for those. A
bias by relative position, if a model has one for all experts, is part of x.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from fairseq_syntax.modules.biases import BatchBiases
from fairseq_syntax.modules.numerics import at_least_float32, no_autocast

#: What attention dropout may act on.
DROPOUT_ON = ("mixture", "experts")


class Dropout(Protocol):
    """A dropout that acts.

    Attributes:
        p: the probability of dropping an entry.
    """

    p: float

    def __call__(self, x: Tensor) -> Tensor: ...


@dataclass(frozen=True)
class ExpertMixture:
    """The experts of one layer on a batch, their weights, and how attention by them is needed.

    Attributes:
        biases: of the syntax experts, each an :class:`~fairseq_syntax.modules.biases.AttentionBias` here.
        weights: of the experts, ``(batch, experts, heads with experts, 1 or n)``: of the global one, if there is one,
            and of the syntax experts; they sum up to 1.
        has_global_expert: global attention has a weight in heads with experts.
        position: a bias of the scores of all experts, ``(1, heads, n, n)``; ``None`` where there is none.
        syntax_dropout: dropout of syntactic attention ("syntax ignoring"); ``None`` where none acts.
        dropout: attention dropout; ``None`` where none acts.
        dropout_on: what it acts on, one of :data:`DROPOUT_ON`.
        learned: biases have parameters, so that b is any number, not the logarithm of a mask.
        needs_weights: A and x are needed, not only the output.
        evaluates: no gradient is needed, and no dropout acts.
    """

    biases: BatchBiases
    weights: Tensor
    has_global_expert: bool = True
    position: Tensor | None = None
    syntax_dropout: Dropout | None = None
    dropout: Dropout | None = None
    dropout_on: str = "mixture"
    learned: bool = False
    needs_weights: bool = False
    evaluates: bool = False

    @property
    def heads(self) -> int:
        """The number of heads, the first ones, that have experts."""
        return self.weights.shape[2] if self.biases.biases else 0

    @property
    def experts(self) -> int:
        """The number of experts, the global one included."""
        return len(self.biases.biases) + self.has_global_expert

    @property
    def has_only_biases(self) -> bool:
        """Syntax experts have a bias and no factor."""
        return all(b.factor is None and b.bias is not None for b in self.biases.biases)

    @property
    def has_values(self) -> bool:
        """Syntax experts sum values of pairs of positions."""
        return any(bias.values for bias in self.biases.biases)

    def split(self, size: int) -> list[ExpertMixture]:
        """The mixtures of groups of `size` sentences."""
        groups = zip(self.biases.split(size), self.weights.split(size), strict=True)
        return [replace(self, biases=biases, weights=weights) for biases, weights in groups]

    def weight(self, expert: int) -> Tensor:
        """w of an expert, ``(batch, heads, 1 or n, 1)``: one for each row of its attention."""
        return self.weights[:, expert, :, :, None]

    def mix(self, experts: Tensor) -> Tensor:
        """Σ w_k·y_k of results y of experts, ``(batch, heads, experts, n, …)``; in float32 at least."""
        if experts.shape[2] == 1:  # its weight is 1
            return experts.squeeze(2)
        experts = at_least_float32(experts)
        weights = self.weights.transpose(1, 2).to(experts.dtype)
        if weights.shape[2] == 2 and not torch.is_grad_enabled():  # one operation; its gradient would be seven
            return torch.lerp(experts[:, :, 0], experts[:, :, 1], weights[:, :, 1].unsqueeze(3))
        if weights.shape[3] > 1 or not experts.is_contiguous():  # a product of matrices would copy them
            return (weights.unsqueeze(4) * experts).sum(dim=2)
        batch, heads, number = weights.shape[:3]
        with no_autocast(experts.device):
            product = torch.bmm(weights.reshape(batch * heads, 1, number), experts.reshape(batch * heads, number, -1))
        return product.view(batch, heads, *experts.shape[3:])

    def add_values(self, output: Tensor, experts: Tensor, *, kept: Tensor | None = None) -> Tensor:
        """Add what experts sum beside v, Σ w_k ⊙ Σ_j A_k[i, j]·E_k[r_k(i, j)], to the output of heads with experts.

        Args:
            output: ``(batch, heads, n, d)``.
            experts: A_k of all experts after dropout that acts on them, ``(batch, heads, experts, n, n)``.
            kept: factors of the entries of all by dropout that acts on A, ``(batch, heads, n, n)``.
        """
        for k, bias in enumerate(self.biases.biases, start=self.has_global_expert):
            for values in bias.values:
                attention = at_least_float32(experts[:, :, k])
                output = output + values.sum(attention if kept is None else attention * kept) * self.weight(k)
        return output

    def drop_syntax(self, attention: Tensor, k: int) -> Tensor:
        """Syntax dropout on A_k of syntax expert k, from 0, in sentences with a parse."""
        if self.syntax_dropout is None:
            return attention
        dropped = self.syntax_dropout(attention)
        if self.biases.all_have_parse:
            return dropped
        return torch.where(self.biases.has_parse[:, k, None, None, None], dropped, attention)

    def drop_experts(self, attention: Tensor) -> Tensor:
        """Attention dropout on the attention of one expert, or of a stack of them, if it acts on experts."""
        return attention if self.dropout is None or self.dropout_on != "experts" else self.dropout(attention)

    def drop_mixture(self, attention: Tensor) -> Tensor:
        """Attention dropout on A, if it acts on that."""
        return attention if self.dropout is None or self.dropout_on == "experts" else self.dropout(attention)

    def with_global_heads(self, mixed: Tensor | None, others: Tensor, attend: Callable[[Tensor], Tensor]) -> Tensor:
        """Join heads with experts and others, of which `attend` gives global attention."""
        if not others.shape[1]:
            assert mixed is not None
            return mixed
        return attend(others) if mixed is None else torch.cat([mixed, attend(others)], dim=1)


class AttentionResult(NamedTuple):
    """Result of attention; an implementation that supports no weights leaves these and the scores out.

    Attributes:
        output: ``(batch, heads, n, d)``.
        weights: A before attention dropout that acts on it, ``(batch, heads, n, n)``.
        scores: x, in that shape.
    """

    output: Tensor
    weights: Tensor | None = None
    scores: Tensor | None = None


class AttentionImplementation(ABC):
    """One way to compute attention by a mixture of experts; all agree up to rounding."""

    @abstractmethod
    def supports(self, mixture: ExpertMixture) -> bool:
        """Return true if :meth:`attend` can compute this mixture."""

    @abstractmethod
    def attend(self, q: Tensor, k: Tensor, v: Tensor, mixture: ExpertMixture) -> AttentionResult:
        """Attend.

        Args:
            q: queries, not divided by √d; as keys and values, ``(batch, heads, n, d)``.
        """

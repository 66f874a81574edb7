"""Attention biases: how one expert turns attention scores into attention."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from fairseq_syntax.modules.numerics import UNKNOWN


class AttentionBias:
    """Attention softmax(f ⊙ x + b + padding) of one expert, of scores x = q·kᵀ/√d.

    Args:
        bias: b, ``(batch, 1 or heads, n, n)``, float32, no row all -inf; ``None``: 0.
        factor: f, in such a shape, finite; ``None``: 1.
        prediction: scores ``(batch, 1 or heads, n, n)`` for an auxiliary loss, if the expert is supervised.
        values: what the expert sums beside the values of attention.
    """

    def __init__(
        self,
        *,
        bias: Tensor | None = None,
        factor: Tensor | None = None,
        prediction: Tensor | None = None,
        values: Sequence[PairValues] = (),
    ):
        self.bias = bias
        self.factor = factor
        self.prediction = prediction
        self.values = tuple(values)

    @cached_property
    def normal_mask(self) -> Tensor:
        """exp(b), the mask that b is the logarithm of; but 0 where that is below 1e-26.

        It is multiplied by small numbers, and a CPU takes up to 36 times as long for products that have no normal
        number in float32. Of a row of which a mask lets a share of 1e-12 or more pass, 1e-14 at most is cut off.
        """
        assert self.bias is not None
        return F.threshold(self.bias.clamp(min=-60.0).exp(), 1e-26, 0.0)  # e⁻⁶⁰ is below that

    @property
    def matrix(self) -> Tensor:
        """The mask exp(b), or the factor, as one matrix that all heads share, ``(batch, 1, n, n)``.

        Raises:
            ValueError: there is none.
        """
        present = [part for part in (self.bias, self.factor) if part is not None]
        if len(present) != 1 or present[0].shape[1] > 1:
            raise ValueError("expected one matrix that all heads and layers share, found another attention bias")
        return present[0] if self.bias is None else self.bias.exp()

    def where(self, valid: Tensor) -> AttentionBias:
        """This bias where `valid`, ``(batch, 1, n, n)``, is true, and none elsewhere."""
        return AttentionBias(
            bias=None if self.bias is None else torch.where(valid, self.bias, 0.0),
            factor=None if self.factor is None else torch.where(valid, self.factor, 1.0),
            values=[PairValues(of_pairs.buckets.where(valid), of_pairs.vectors) for of_pairs in self.values],
        )

    def map(self, function: Callable[[Any], Any]) -> AttentionBias:
        """This bias with each of its tensors that may have a gradient replaced."""
        return AttentionBias(
            bias=function(self.bias),
            factor=function(self.factor),
            prediction=function(self.prediction),
            values=[PairValues(of_pairs.buckets, function(of_pairs.vectors)) for of_pairs in self.values],
        )


class Buckets:
    """Indices into a table of learned biases, one for each pair of positions.

    Args:
        numbers: ``(batch or 1, n, n)``; from 0, or :data:`UNKNOWN`: there is no bias.
    """

    def __init__(self, numbers: Tensor):
        self.numbers = numbers

    def where(self, valid: Tensor) -> Buckets:
        """These where `valid`, ``(batch, 1, n, n)``, is true, and no bias elsewhere."""
        return Buckets(torch.where(valid.squeeze(1), self.numbers, UNKNOWN))


@dataclass(frozen=True)
class PairValues:
    """Vectors of pairs of positions that attention adds to values (Shaw et al. 2018).

    The expert's output is o_i = Σ_j A[i, j]·(v_j + E[r(i, j)]), their eq. (3), in all its heads.

    Attributes:
        buckets: r; nothing is added where there is no bucket.
        vectors: E, ``(buckets, head_dim)``.
    """

    buckets: Buckets
    vectors: Tensor

    def sum(self, attention: Tensor) -> Tensor:
        """Return Σ_j A[i, j]·E[r(i, j)], ``(batch, heads, n, head_dim)``, of A, ``(batch, heads, n, n)``.

        A is first summed by bucket, so that no vector of a pair is stored.
        """
        vectors = F.pad(self.vectors, (0, 0, 1, 0))  # row 0: there is no bucket
        columns = (self.buckets.numbers.long() + 1).unsqueeze(1).expand_as(attention)
        by_bucket = attention.new_zeros(*attention.shape[:3], len(vectors)).scatter_add(3, columns, attention)
        return by_bucket.to(vectors.dtype) @ vectors

"""The attention biases of one batch, and how they are built from its features."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import cached_property, reduce
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from fairseq_syntax.modules import numerics
from fairseq_syntax.modules.biases.bias import AttentionBias, Buckets
from fairseq_syntax.modules.biases.registry import SyntaxBias
from fairseq_syntax.modules.syntax_batch import SPECIAL, SyntaxBatch


class BatchBiases:
    """The attention biases of one batch, with its padding, each part computed once.

    Args:
        biases: of each kind the result of :meth:`SyntaxBias.bias`.
        has_parse: true for a sentence with the features that the kind needs, ``(batch, kinds)``; or a function that
            computes that.
        padding: true at padding, ``(batch, n)``; ``None`` where there is none.
        position: relative positions, ``(1, n, n)``, where the scores of all experts have a bias by them.
        parent: the batch's biases, of which these are one layer's; it has the same padding.
    """

    def __init__(
        self,
        biases: Sequence[Any],
        has_parse: Tensor | Callable[[], Tensor],
        *,
        padding: Tensor | None = None,
        position: Buckets | None = None,
        parent: BatchBiases | None = None,
    ):
        self.biases = tuple(biases)
        self._has_parse = has_parse
        self.padding: Tensor | None = padding if parent is None else parent.padding
        self.position = position
        self._parent = parent
        self._cache: dict[Hashable, Any] = {}

    @property
    def masks(self) -> Tensor:
        """The matrix of each bias, ``(batch, biases, n, n)``: a mask from 0 to 1, or a factor.

        Raises:
            ValueError: one of them is no matrix that all heads share.
        """
        return torch.cat([bias.matrix for bias in self.biases], dim=1)

    def with_biases(self, biases: Sequence[Any]) -> BatchBiases:
        """The same in one layer, whose biases these are."""
        return BatchBiases(biases, lambda: self.has_parse, position=self.position, parent=self._parent or self)

    @property
    def differentiable(self) -> tuple[Tensor, ...]:
        """The tensors of biases that have a gradient, which layers get as arguments.

        Activation checkpointing keeps gradients of arguments that are tensors, and of nothing within other objects.
        """
        found: list[Tensor] = []
        self._replace(found.append)
        return tuple(found)

    def with_differentiable(self, tensors: Sequence[Tensor]) -> BatchBiases:
        """These biases with other tensors instead of :attr:`differentiable`."""
        if not tensors:
            return self
        remaining = iter(tensors)
        return self.with_biases(self._replace(lambda _: next(remaining)))

    def _replace(self, function: Callable[[Tensor], Any]) -> list[Any]:
        """Biases with the result of a function instead of each tensor that has a gradient."""

        def replaced(part: Any) -> Any:
            return function(part) if isinstance(part, Tensor) and part.requires_grad else part

        return [bias.map(replaced) if isinstance(bias, AttentionBias) else replaced(bias) for bias in self.biases]

    @cached_property
    def has_parse(self) -> Tensor:
        """True for a sentence with the features that the kind of bias needs, ``(batch, kinds)``."""
        return self._has_parse if isinstance(self._has_parse, Tensor) else self._has_parse()

    @cached_property
    def all_have_parse(self) -> bool:
        """True if all sentences have all parses; finding out makes a GPU wait, once a batch."""
        return bool(self.has_parse.all()) if self._parent is None else self._parent.all_have_parse

    @cached_property
    def product(self) -> BatchBiases:
        """One bias instead of all: the sum of biases and the product of factors, with the values of all."""
        biases = [bias.bias for bias in self.biases if bias.bias is not None]
        factors = [bias.factor for bias in self.biases if bias.factor is not None]
        product = AttentionBias(
            bias=reduce(torch.add, biases) if biases else None,
            factor=reduce(torch.mul, factors) if factors else None,
            values=[values for bias in self.biases for values in bias.values],
        )
        return (self._parent or self)._of_products.with_biases([product])

    @cached_property
    def _of_products(self) -> BatchBiases:
        """The parent of products in all layers."""
        return BatchBiases((), lambda: self.has_parse.any(dim=1, keepdim=True), padding=self.padding)

    def padding_bias(self, dtype: torch.dtype, *, aligned: bool = False) -> Tensor | None:
        """-inf at keys that are padding, 0 elsewhere, ``(batch, 1, 1, n)``; ``None`` where there is no padding.

        Args:
            aligned: there are more columns, up to a multiple of 8.
        """
        if self._parent is not None:
            return self._parent.padding_bias(dtype, aligned=aligned)
        if (padding := self.padding) is None:
            return None
        n = padding.shape[1]
        bias = self.once(("padding", dtype), lambda: numerics.padding_bias(padding, dtype, width=_aligned(n)))
        return (bias if aligned else bias[:, :n])[:, None, None]

    def expert_biases(self, dtype: torch.dtype, *, with_global: bool, aligned: bool = False) -> Tensor:
        """b of all experts, -inf for keys that are padding, ``(batch, 1 or heads, experts, n, n)``.

        Args:
            with_global: the first expert is the global one, whose b is 0.
            aligned: rows begin a multiple of 8 numbers apart; others are copied by a GPU's fused attention, in each
                layer.
        """

        def compute() -> Tensor:
            padding = self.padding_bias(dtype, aligned=aligned)
            parts = [bias.bias for bias in self.biases]
            bias = self._of_experts(parts, 0.0, with_global=with_global, aligned=aligned).to(dtype)
            bias = bias if padding is None else bias + padding.unsqueeze(2)
            return bias[..., : bias.shape[-2]]

        return self.once(("biases", dtype, with_global, aligned), compute)

    def expert_factors(self, *, with_global: bool) -> Tensor | None:
        """f of all experts, in the shape of :meth:`expert_biases`; ``None`` if all are 1."""
        factors = [bias.factor for bias in self.biases]
        if all(factor is None for factor in factors):
            return None
        return self.once(("factors", with_global), lambda: self._of_experts(factors, 1.0, with_global=with_global))

    def split(self, size: int) -> list[BatchBiases]:
        """Biases, each an :class:`AttentionBias` without a factor and values, of groups of `size` sentences."""

        def compute() -> list[BatchBiases]:
            has_parse = self.has_parse.split(size)
            paddings = [None] * len(has_parse) if self.padding is None else self.padding.split(size)
            biases = [
                [AttentionBias(bias=part) for part in bias.bias.split(size)]
                if len(bias.bias) > 1
                else [bias] * len(has_parse)
                for bias in self.biases
            ]
            groups = zip(zip(*biases, strict=True), has_parse, paddings, strict=True)
            return [BatchBiases(group, known, padding=padding) for group, known, padding in groups]

        return self.once(("groups", size), compute)

    def _of_experts(
        self, parts: Sequence[Tensor | None], neutral: float, *, with_global: bool, aligned: bool = False
    ) -> Tensor:
        """Stack parts of all experts, `neutral` where one has none: ``(batch, 1 or heads, experts, n, n)``."""
        present = [part for bias in self.biases for part in (bias.bias, bias.factor) if part is not None]
        shape = torch.broadcast_shapes(*(part.shape for part in present))
        whole = [(present[0].new_full((), neutral) if part is None else part).expand(shape) for part in parts]
        stacked = _stack(whole, dim=2)
        more = _aligned(shape[-1]) - shape[-1] if aligned else 0
        if not (with_global or more):
            return stacked
        return F.pad(stacked, (0, more, 0, 0, int(with_global), 0), value=neutral)

    def once(self, key: Hashable, compute: Callable[[], Any]) -> Any:
        """The result of `compute`, which only the first call with this key runs."""
        if key not in self._cache:
            self._cache[key] = compute()
        return self._cache[key]


class BiasBuilder:
    """Builder of a batch's attention biases from its features, once for all layers.

    Args:
        masks: the kinds, in the order of the gates.
        position: the kind of a learned bias of all experts' scores, which needs no features, if there is one.
        opens_special: pairs with a special token that a batch names (:data:`SPECIAL`) have no bias of a parse.
    """

    def __init__(self, masks: Sequence[SyntaxBias], *, position: SyntaxBias | None = None, opens_special: bool = True):
        self.masks = tuple(masks)
        self.position = position
        self.opens_special = opens_special
        self.names = tuple(mask.name for mask in masks)
        #: The features that they need, each once; and those that only their losses need.
        self.features = tuple(dict.fromkeys(feature for mask in masks for feature in mask.features))
        self.label_features = tuple(dict.fromkeys(feature for mask in masks for feature in mask.label_features))

    def __call__(
        self,
        features: Mapping[str, Tensor] | None,
        tokens: Tensor | None = None,
        *,
        padding: Tensor | None = None,
        teaches: bool = False,
    ) -> BatchBiases:
        """Build the biases of a batch.

        Args:
            features: each ``(batch, n)``; may be ``None`` where no kind needs any.
            tokens: ``(batch, n)``, whose values are ignored; by default one of the features.
            padding: true at padding, ``(batch, n)``; ``None`` where there is none.
            teaches: kinds get their :attr:`SyntaxBias.label_features`, if the batch has them.

        Raises:
            ValueError: features are missing.
            TypeError: a kind with features gives neither an :class:`AttentionBias` nor :class:`Buckets`.
        """
        syntax = SyntaxBatch.of(features)
        syntax.require(self.features, part=f"the model with the syntax masks {', '.join(self.names)}")
        if tokens is None:
            tokens = next(iter(syntax.values()))
        indices = torch.arange(tokens.shape[1], device=tokens.device).unsqueeze(0)
        valid: list[Tensor] = []  # of each kind, positions that have its features
        biases: list[Any] = []
        for mask in self.masks:
            labels: dict[str, Tensor] = {}
            if teaches and mask.label_features and {*mask.label_features} <= syntax.keys():
                labels = {name: syntax[name] for name in mask.label_features}
                labels |= {SPECIAL: syntax.special} if SPECIAL in syntax else {}
            bias = mask.bias(*([syntax[name] for name in mask.features] or [indices]), **labels)
            at = syntax.known(*mask.features) if mask.features else torch.ones_like(tokens, dtype=torch.bool)
            if mask.features:
                if not isinstance(bias, (AttentionBias, Buckets)):
                    raise TypeError(f"{mask.name}: expected an AttentionBias or Buckets, found {type(bias).__name__}")
                opens = mask.opens_special or (self.opens_special and SPECIAL in syntax)
                biased = at & ~syntax.special if opens else at
                bias = bias.where((biased.unsqueeze(2) & biased.unsqueeze(1)).unsqueeze(1))
            valid.append(at)
            biases.append(bias)

        def has_parse() -> Tensor:
            return _stack(valid, dim=1).any(dim=2) if valid else torch.ones_like(tokens[:, :0], dtype=torch.bool)

        position = None if self.position is None else self.position.bias(indices)
        return BatchBiases(biases, has_parse, padding=padding, position=position)


def _stack(tensors: Sequence[Tensor], *, dim: int) -> Tensor:
    """As ``torch.stack``, which copies even a single tensor."""
    return torch.stack(tuple(tensors), dim) if len(tensors) > 1 else tensors[0].unsqueeze(dim)


def _aligned(n: int) -> int:
    """The next multiple of 8."""
    return n + -n % 8

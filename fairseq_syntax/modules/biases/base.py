"""What a mask is, what it makes of a batch, and the register of masks."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, reduce
from typing import Any, ClassVar, TypeVar, cast, dataclass_transform

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fairseq_syntax.modules.numerics import UNKNOWN, padding_bias
from fairseq_syntax.modules.syntax_batch import SyntaxBatch
from fairseq_syntax.options import NONE, Option, option, options_of
from syntax_data.features import FEATURES


class AttentionBias:
    """How one expert turns scores x = q·kᵀ/√d into attention: softmax(f ⊙ x + b + padding).

    Args:
        bias: b, ``(batch, 1 or heads, n, n)``, float32, no row all -inf; ``None``: 0.
        factor: f, in such a shape, finite; ``None``: 1.
        prediction: scores ``(batch, 1 or heads, n, n)`` for an auxiliary loss, if the expert is supervised.
    """

    def __init__(self, *, bias: Tensor | None = None, factor: Tensor | None = None, prediction: Tensor | None = None):
        self.bias = bias
        self.factor = factor
        self.prediction = prediction

    @cached_property
    def mask(self) -> Tensor:
        """exp(b): for a mask that is kept as its logarithm, the mask, from 0 to 1."""
        return self._bias.exp()

    @cached_property
    def normal_mask(self) -> Tensor:
        """:attr:`mask`, but 0 where that is below 1e-26.

        What it is multiplied by may be small, too, and a CPU takes up to 36 times as long for what has no normal
        number in float32. Of a row of which a mask lets a share of 1e-12 or more pass, 1e-14 at most is cut off.
        """
        return F.threshold(self._bias.clamp(min=-60.0).exp(), 1e-26, 0.0)  # e⁻⁶⁰ is below that

    @property
    def _bias(self) -> Tensor:
        if self.bias is None:
            raise ValueError("expected a bias, found a factor alone")
        return self.bias

    def where(self, known: Tensor) -> AttentionBias:
        """This bias where `known`, ``(batch, 1, n, n)``, is true, and none elsewhere."""
        return AttentionBias(
            bias=None if self.bias is None else torch.where(known, self.bias, 0.0),
            factor=None if self.factor is None else torch.where(known, self.factor, 1.0),
        )


class Buckets:
    """Which number of a table each pair of positions has, for biases that are learned.

    Args:
        numbers: ``(batch or 1, n, n)``; from 0, or :data:`UNKNOWN`: there is no bias.
    """

    def __init__(self, numbers: Tensor):
        self.numbers = numbers

    def where(self, known: Tensor) -> Buckets:
        """These where `known`, ``(batch, 1, n, n)``, is true, and no bias elsewhere."""
        return Buckets(torch.where(known.squeeze(1), self.numbers, UNKNOWN))


class SyntaxBias:
    """A kind of mask: a dataclass whose fields are its options, registered by :func:`register_syntax_bias`.

    A subclass names its :attr:`features` and writes :meth:`log_mask`; or :meth:`bias`, if it has a factor or a bias
    for each head; or, if it has parameters, :meth:`build_layer_module` as well.
    """

    #: What ``--syntax-masks`` calls it.
    name: ClassVar[str]
    #: The features that it is made of: keys of :data:`syntax_data.features.FEATURES`. None: it is made of the
    #: places of tokens alone, so that no sentence lacks what it needs.
    features: ClassVar[tuple[str, ...]] = ()
    #: Features that training alone asks for: what a loss compares with.
    label_features: ClassVar[tuple[str, ...]] = ()

    def log_mask(self, *features: Tensor) -> Tensor:
        """The mask's logarithm, ``(batch, n, n)`` in float32.

        What it is at positions that lack a feature does not matter: these see, and are seen, as without the mask.

        Args:
            features: :attr:`features`, in their order, each ``(batch, n)``. A mask that has none gets the numbers of
                positions, ``(1, n)``, counted from 0 at the left end, padding included; what it makes of them may have
                a batch of 1.
        """
        raise NotImplementedError

    def bias(self, *features: Tensor, **labels: Tensor) -> Any:
        """What a batch gets once, for all layers: an :class:`AttentionBias`, or what :meth:`build_layer_module` needs.

        That holds no tensor with a gradient; :class:`Buckets` are what a table of biases takes.

        Args:
            features: see :meth:`log_mask`.
            labels: :attr:`label_features` by name, each ``(batch, n)``, in a batch that is to teach them; else none.
        """
        return AttentionBias(bias=self.log_mask(*features).unsqueeze(1))

    def build_layer_module(self, *, heads: int, head_dim: int, embed_dim: int) -> nn.Module | None:
        """A module with the parameters that this mask has in one guided layer; ``None`` if it has none.

        The module is called with what :meth:`bias` made and the attention's query input, ``(n, batch, embed_dim)``,
        and returns the :class:`AttentionBias` of that layer.

        Args:
            heads: the number of heads that it biases.
            head_dim: the width of each.
            embed_dim: the width of the layer's input.
        """
        return None

    def effective_options(self) -> dict[str, Any]:
        """The options that say what weights trained under this mask mean, by name; those without effect left out."""
        return {o.key: getattr(self, o.field) for o in bias_options(self.name)}


class BatchBiases:
    """The masks of one batch.

    Args:
        biases: of each mask, what :meth:`SyntaxBias.bias` made.
        parsed: whether the sentence has the parses that the mask is made of, ``(batch, masks)``; or what makes that,
            once it is asked for.
        known: of each mask, the pairs of positions that have its features, ``(batch, 1, n, n)``; ``None`` where its
            bias says so itself, or it needs none.
        position: of relative positions, ``(1, n, n)``, where the scores of all experts have a bias by them.
        of_batch: those that these are a layer's form of; what holds of both is found out once.
    """

    def __init__(
        self,
        biases: Sequence[Any],
        parsed: Tensor | Callable[[], Tensor],
        known: Sequence[Tensor | None] = (),
        *,
        position: Buckets | None = None,
        of_batch: BatchBiases | None = None,
    ):
        self.biases = tuple(biases)
        self._parsed = parsed
        self.known = tuple(known)
        self.position = position
        self._of_batch = of_batch
        self._made: dict[tuple[str, torch.dtype], tuple[Tensor | None, Any]] = {}

    @classmethod
    def of(cls, log_masks: Tensor, parsed: Tensor) -> BatchBiases:
        """From the logarithms of masks that all heads share, ``(batch, masks, n, n)``."""
        return cls([AttentionBias(bias=mask.unsqueeze(1)) for mask in log_masks.unbind(dim=1)], parsed)

    @property
    def log_masks(self) -> Tensor:
        """The logarithms of masks that all heads share, ``(batch, masks, n, n)``."""
        return torch.cat([expert.bias for expert in self.biases], dim=1)

    @property
    def masks(self) -> Tensor:
        """What biases attention, as one matrix a mask: the mask, from 0 to 1, or the factor of scores.

        Raises:
            ValueError: one of them is no matrix that all heads and layers share.
        """
        matrices = []
        for expert in self.biases:
            parts = [expert.bias, expert.factor] if isinstance(expert, AttentionBias) else []
            present = [part for part in parts if part is not None]
            if len(present) != 1 or present[0].shape[1] > 1:
                raise ValueError("a mask is no matrix that all heads and layers share, which could be shown")
            matrices.append(expert.mask if expert.factor is None else expert.factor)
        return torch.cat(matrices, dim=1)

    def with_biases(self, biases: Sequence[AttentionBias]) -> BatchBiases:
        """The same masks in one layer, where their biases are these."""
        return BatchBiases(biases, lambda: self.parsed, position=self.position, of_batch=self)

    @cached_property
    def parsed(self) -> Tensor:
        """Whether the sentence has the parses that the mask is made of, ``(batch, masks)``."""
        return self._parsed if isinstance(self._parsed, Tensor) else self._parsed()

    @cached_property
    def _any_parsed(self) -> BatchBiases:
        return BatchBiases((), lambda: self.parsed.any(dim=1, keepdim=True))

    @cached_property
    def product(self) -> BatchBiases:
        """One mask in the place of all, each a :class:`AttentionBias` here: biases are summed, factors multiplied."""
        biases = [expert.bias for expert in self.biases if expert.bias is not None]
        factors = [expert.factor for expert in self.biases if expert.factor is not None]
        expert = AttentionBias(bias=reduce(torch.add, biases) if biases else None,
                      factor=reduce(torch.mul, factors) if factors else None)  # fmt: skip
        return (self._of_batch or self)._any_parsed.with_biases([expert])

    @cached_property
    def all_parsed(self) -> bool:
        """Whether all sentences have all parses; finding out makes a GPU wait, once a batch."""
        if self._of_batch is not None:
            return self._of_batch.all_parsed
        return bool(self.parsed.all())

    def hidden_keys(self, padding: Tensor | None, dtype: torch.dtype) -> Tensor | None:
        """What hides keys that are padding from scores, ``(batch, 1, 1, n)``: -inf there, 0 elsewhere.

        It is made once for all layers.
        """
        hidden = self._hidden_keys(padding, dtype)
        return hidden if hidden is None or padding is None else hidden[..., : padding.shape[1]]

    def _hidden_keys(self, padding: Tensor | None, dtype: torch.dtype) -> Tensor | None:
        """As :meth:`hidden_keys`; as wide as aligned :meth:`expert_biases` are in memory."""
        if self._of_batch is not None:
            return self._of_batch._hidden_keys(padding, dtype)

        def make() -> Tensor | None:
            return None if padding is None else padding_bias(padding, dtype, width=_aligned(padding.shape[1]))

        hidden = self._once("hidden keys", padding, dtype, make)
        return None if hidden is None else hidden[:, None, None, :]

    def expert_biases(
        self, padding: Tensor | None, dtype: torch.dtype, *, with_global: bool, aligned: bool = False
    ) -> Tensor:
        """b of all experts, each a :class:`AttentionBias`, and -inf for keys that are padding (true in ``(batch, n)``),
        ``(batch, 1 or heads, experts, n, n)``.

        It is made once for all layers that share these masks, as :meth:`expert_factors` are.

        Args:
            with_global: whether the first expert is the global one, whose b is 0.
            aligned: whether rows lie a multiple of 8 numbers apart, as kernels of fused attention on a GPU want them:
                they copy others, in each layer.
        """

        def make() -> Tensor:
            hidden = (self._hidden_keys if aligned else self.hidden_keys)(padding, dtype)
            bias = self._of_experts(
                [expert.bias for expert in self.biases], 0.0, with_global=with_global, aligned=aligned
            )
            bias = bias.to(dtype) if hidden is None else bias.to(dtype) + hidden.unsqueeze(2)
            return bias[..., : bias.shape[-2]]

        return self._once(f"biases {with_global} {aligned}", padding, dtype, make)

    def expert_factors(self, *, with_global: bool) -> Tensor | None:
        """f of all experts, in the shape of :meth:`expert_biases`; ``None`` if all are 1."""
        found = [expert.factor for expert in self.biases]
        if all(factor is None for factor in found):
            return None

        def make() -> Tensor:
            return self._of_experts(found, 1.0, with_global=with_global)

        return self._once(f"factors {with_global}", None, torch.float32, make)

    def split(self, padding: Tensor | None, size: int) -> list[tuple[BatchBiases, Tensor | None]]:
        """Masks, each a :class:`AttentionBias` that has a bias alone, and padding of groups of so many sentences.

        They are made once for all layers, as :meth:`expert_biases` are.
        """

        def make() -> list[tuple[BatchBiases, Tensor | None]]:
            parsed = self.parsed.split(size)
            paddings = [None] * len(parsed) if padding is None else padding.split(size)
            biases = [
                [AttentionBias(bias=part) for part in expert.bias.split(size)]
                if len(expert.bias) > 1
                else [expert] * len(parsed)
                for expert in self.biases
            ]
            groups = zip(*biases, strict=True)
            masks = [BatchBiases(group, known) for group, known in zip(groups, parsed, strict=True)]
            return list(zip(masks, paddings, strict=True))

        return self._once(f"groups of {size}", padding, torch.bool, make)

    def _of_experts(
        self, parts: Sequence[Tensor | None], neutral: float, *, with_global: bool, aligned: bool = False
    ) -> Tensor:
        """Of each expert one, or what is neutral: ``(batch, 1 or heads, experts, n, n)``; if `aligned`, with more
        columns, up to a multiple of 8."""
        there = [part for expert in self.biases for part in (expert.bias, expert.factor) if part is not None]
        shape = torch.broadcast_shapes(*(part.shape for part in there))
        whole = [(there[0].new_full((), neutral) if part is None else part).expand(shape) for part in parts]
        of_masks = _stack(whole, dim=2)
        more = _aligned(shape[-1]) - shape[-1] if aligned else 0
        padded = with_global or more
        return F.pad(of_masks, (0, more, 0, 0, int(with_global), 0), value=neutral) if padded else of_masks

    def _once(self, name: str, padding: Tensor | None, dtype: torch.dtype, make: Callable[[], Any]) -> Any:
        """What is made for a padding in a precision, kept until another padding is asked for."""
        made = self._made.get((name, dtype))
        if made is None or made[0] is not padding:
            made = self._made[name, dtype] = padding, make()
        return made[1]


class BiasBuilder:
    """Builds a model's masks from a batch's features, once for all layers.

    Args:
        masks: in the order in which gates have them.
        position: makes the buckets of a bias by relative position, of positions' numbers ``(1, n)``, if there is one.
    """

    def __init__(self, masks: Sequence[SyntaxBias], *, position: Callable[[Tensor], Buckets] | None = None):
        self.masks = tuple(masks)
        self.position = position

    @property
    def names(self) -> tuple[str, ...]:
        """What the masks are called."""
        return tuple(mask.name for mask in self.masks)

    @property
    def features(self) -> tuple[str, ...]:
        """The features that they are made of, each once."""
        return tuple(dict.fromkeys(feature for mask in self.masks for feature in mask.features))

    @property
    def of_parses(self) -> tuple[int, ...]:
        """The numbers, from 0, of the masks that are made of a parse."""
        return tuple(k for k, mask in enumerate(self.masks) if mask.features)

    @property
    def label_features(self) -> tuple[str, ...]:
        """The features that only their losses are made of, each once."""
        return tuple(dict.fromkeys(feature for mask in self.masks for feature in mask.label_features))

    def __call__(
        self, features: Mapping[str, Tensor] | None, tokens: Tensor | None = None, *, teaches: bool = False
    ) -> BatchBiases:
        """The masks of a batch.

        Args:
            features: each ``(batch, n)``; ``None`` will do where no mask needs any.
            tokens: ``(batch, n)``, whose values do not matter; by default one of the features.
            teaches: whether masks get their :attr:`SyntaxBias.label_features`, if the batch has them.

        Raises:
            ValueError: features are missing: it does not run neutrally instead.
        """
        syntax = SyntaxBatch.of(features)
        syntax.require(self.features, part=f"the model with the syntax masks {', '.join(self.names)}")
        if tokens is None:
            tokens = next(iter(syntax.values()))
        positions: list[Tensor] = []  # of each mask, those that have its features
        biases: list[Any] = []
        known: list[Tensor | None] = []
        for mask in self.masks:
            given = teaches and all(name in syntax for name in mask.label_features)
            labels = {name: syntax[name] for name in mask.label_features} if given else {}
            of_mask = [syntax[name] for name in mask.features]
            made, pairs = mask.bias(*(of_mask or [_places(tokens)]), **labels), None
            if of_mask:
                at = syntax.known(*mask.features)
                positions.append(at)
                pairs = (at.unsqueeze(2) & at.unsqueeze(1)).unsqueeze(1)
                if isinstance(made, (AttentionBias, Buckets)):
                    made, pairs = made.where(pairs), None
            else:
                positions.append(torch.ones_like(tokens, dtype=torch.bool))
            biases.append(made)
            known.append(pairs)

        def parsed() -> Tensor:
            if not positions:
                return torch.ones_like(tokens[:, :0], dtype=torch.bool)
            return _stack(positions, dim=1).any(dim=2)

        position = None if self.position is None else self.position(_places(tokens))
        return BatchBiases(biases, parsed, known, position=position)


def _stack(tensors: Sequence[Tensor], *, dim: int) -> Tensor:
    """As torch's, which copies also where there is but one."""
    return torch.stack(tuple(tensors), dim) if len(tensors) > 1 else tensors[0].unsqueeze(dim)


def _aligned(n: int) -> int:
    """The next multiple of 8."""
    return n + -n % 8


def _places(tokens: Tensor) -> Tensor:
    """The numbers of positions, from 0, ``(1, n)``, of ``(batch, n)`` tokens."""
    return torch.arange(tokens.shape[1], device=tokens.device).unsqueeze(0)


_MASKS: dict[str, type[SyntaxBias]] = {}
_Mask = TypeVar("_Mask", bound=type[SyntaxBias])


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(option,))
def register_syntax_bias(name: str) -> Callable[[_Mask], _Mask]:
    """Registers a subclass of :class:`SyntaxBias` as `name`, and makes it a frozen dataclass.

    Its options, declared by :func:`fairseq_syntax.options.option`, become ``--NAME-FIELD`` on the command line, and
    ``name_field`` for fairseq-hydra-train.

    Raises:
        ValueError: the name is taken or cannot be one, an option's name is taken, or there is no such feature.
    """

    def register(mask: _Mask) -> _Mask:
        if not name.isidentifier() or name in _MASKS or name == NONE:
            raise ValueError(f"expected a new name for a syntax mask, in letters, digits and _, found {name!r}")
        if not {*mask.features, *mask.label_features} <= FEATURES.keys():
            found = (*mask.features, *mask.label_features)
            raise ValueError(f"{name}: expected features among {', '.join(FEATURES)}, found {found!r}")
        made = cast(_Mask, dataclasses.dataclass(frozen=True, kw_only=True)(mask))
        taken = {o.key for other in _MASKS for o in bias_options(other)}
        for o in options_of(made, f"{name}_"):
            if o.key in taken:
                raise ValueError(f"{name}: {o.flag} is the option of another syntax mask")
        made.name = name
        _MASKS[name] = made
        return made

    return register


def bias_names() -> list[str]:
    """The registered masks, in the order in which a model's gates have them: slr, then by name."""
    return sorted(_MASKS, key=lambda name: (name != "slr", name))


def bias_type(name: str) -> type[SyntaxBias]:
    """The mask of that name."""
    return _MASKS[name]


def bias_options(name: str) -> list[Option]:
    """The options of a mask."""
    return list(options_of(_MASKS[name], f"{name}_"))

"""The base class of all kinds of attention biases, and their registry."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, TypeVar, cast, dataclass_transform

from torch import Tensor, nn

from fairseq_syntax.modules.biases.bias import AttentionBias
from fairseq_syntax.options import NONE, Option, option, options_of
from syntax_data.features import FEATURES


class SyntaxBias:
    """A kind of attention bias: a dataclass whose fields are its options.

    A subclass names its :attr:`features` and implements :meth:`log_mask`; or :meth:`bias`, if it has a factor or a bias
    for each head; or, if it has parameters, :meth:`build_layer_module` as well.
    """

    #: Its name in ``--syntax-masks``.
    name: ClassVar[str]
    #: The features that it needs: keys of :data:`syntax_data.features.FEATURES`. None: it needs positions alone, which
    #: every sentence has.
    features: ClassVar[tuple[str, ...]] = ()
    #: Features that only its auxiliary loss needs, in training.
    label_features: ClassVar[tuple[str, ...]] = ()
    #: By its definition, pairs with a special token have no bias.
    opens_special: ClassVar[bool] = False

    def log_mask(self, *features: Tensor) -> Tensor:
        """Return the logarithm of a mask, ``(batch, n, n)`` in float32.

        Args:
            features: :attr:`features`, in their order, each ``(batch, n)``. Without any, the indices of positions,
                ``(1, n)``, counted from 0 at the left end, padding included; the mask may then have a batch of 1.
        """
        raise NotImplementedError

    def bias(self, *features: Tensor, **labels: Tensor) -> Any:
        """Return what all layers share, once a batch; its tensors may have a gradient.

        That is an :class:`AttentionBias`; or, for the module of :meth:`build_layer_module`,
        :class:`~fairseq_syntax.modules.biases.bias.Buckets`, or anything if the bias needs no features.

        Args:
            features: see :meth:`log_mask`.
            labels: :attr:`label_features` by name, each ``(batch, n)``, in a batch that trains them; else none. With
                them ``special``, true at special tokens, if the batch names those.
        """
        return AttentionBias(bias=self.log_mask(*features).unsqueeze(1))

    def build_layer_module(self, *, heads: int, head_dim: int, embed_dim: int) -> nn.Module | None:
        """Return a module with this bias's parameters in one syntax layer; ``None`` if it has none.

        The module is called with the result of :meth:`bias` and the attention's input, ``(n, batch, embed_dim)``, and
        returns the :class:`AttentionBias` of that layer for `heads` heads, each `head_dim` wide.
        """
        return None

    def with_labels(self, labels: Mapping[str, Sequence[str]]) -> SyntaxBias:
        """Return this bias with the labels of features, where they are known, in the order of the model's numbers."""
        return self

    def effective_options(self) -> dict[str, Any]:
        """Options on which the meaning of trained weights depends, by name."""
        return {o.key: getattr(self, o.field) for o in bias_options(self.name)}


_REGISTRY: dict[str, type[SyntaxBias]] = {}
_Bias = TypeVar("_Bias", bound=type[SyntaxBias])


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(option,))
def register_syntax_bias(name: str) -> Callable[[_Bias], _Bias]:
    """Register a subclass of :class:`SyntaxBias` as `name`, and make it a frozen dataclass.

    Its options, declared by :func:`fairseq_syntax.options.option`, become ``--NAME-FIELD`` on the command line, and
    ``name_field`` for fairseq-hydra-train.

    Raises:
        ValueError: the name is taken or invalid, an option's name is taken, or there is no such feature.
    """

    def register(cls: _Bias) -> _Bias:
        if not name.isidentifier() or name in _REGISTRY or name == NONE:
            raise ValueError(f"expected a new name for a syntax mask, in letters, digits and _, found {name!r}")
        needed = (*cls.features, *cls.label_features)
        if not {*needed} <= FEATURES.keys():
            raise ValueError(f"{name}: expected features among {', '.join(FEATURES)}, found {needed!r}")
        registered = cast(_Bias, dataclasses.dataclass(frozen=True, kw_only=True)(cls))
        taken = {o.key for other in _REGISTRY for o in bias_options(other)}
        for o in options_of(registered, f"{name}_"):
            if o.key in taken:
                raise ValueError(f"{name}: {o.flag} is the option of another syntax mask")
        registered.name = name
        _REGISTRY[name] = registered
        return registered

    return register


def bias_names() -> list[str]:
    """The registered names, in the order of a model's gates: slr, then by name."""
    return sorted(_REGISTRY, key=lambda name: (name != "slr", name))


def bias_type(name: str) -> type[SyntaxBias]:
    """The class that is registered as `name`."""
    return _REGISTRY[name]


def bias_options(name: str) -> list[Option]:
    """The options of the class that is registered as `name`."""
    return list(options_of(_REGISTRY[name], f"{name}_"))

"""Weights under the options with which they were trained.

Weights are found by names and shapes. That the first gate is SLR's, how wide its range is, or which layers are syntax
layers is in the checkpoint's configuration, which is compared with the options in force as it is loaded (``loading``).
"""

from __future__ import annotations

import logging
import re
import textwrap
from argparse import Namespace
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, cast

from fairseq.models import ARCH_MODEL_REGISTRY, MODEL_REGISTRY
from omegaconf import OmegaConf, open_dict
from torch import Tensor

from fairseq_syntax.models.roberta_options import option_names
from fairseq_syntax.models.syntax_model import SyntaxModel
from fairseq_syntax.models.transformer_options import SyntaxTransformerConfig
from syntax_data.errors import InputError, short_repr

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Recorded:
    """The record of a checkpoint of itself: options, optimizer, epoch.

    Attributes:
        model: the model's options, ``None`` if it has none.
        has_optimizer: a training can go on from it.
        epoch: the last one that it was trained in, from 1; ``None`` if it records none.
    """

    path: str
    model: Namespace | None
    has_optimizer: bool
    epoch: int | None


def recorded(path: str, state: Mapping[str, Any]) -> Recorded:
    """Return what a checkpoint records; refuse invalid options of our models."""
    options = state.get("args") or (state.get("cfg") or {}).get("model")
    try:
        # a copy, as fairseq overrides them
        model = Namespace(**(options if isinstance(options, dict) else vars(options))) if options else None
        for name, value in vars(model).items() if _is_ours(model) else ():
            if isinstance(value, Mapping | Namespace) and value:  # fairseq would take the encoder's from it
                raise InputError(path, None, f"{name}: expected an option of a model, found a dictionary of them")
        cfg = _config(model)
        if cfg is not None:
            _check_layers(path, cfg, state["model"])
            _ = cfg.semantics
    except InputError:
        raise
    except Exception as error:  # of many kinds: an option may have a value of any type
        reason = textwrap.shorten(str(error), 500, placeholder=" …")
        reason = reason if isinstance(error, ValueError) else f"{type(error).__name__}: {reason}"
        raise InputError(path, None, f"expected a model's configuration, found: {reason}") from error
    return Recorded(path, model, state.get("last_optimizer_state") is not None, _last_epoch(state))


def _last_epoch(state: Mapping[str, Any]) -> int | None:
    """The last epoch in which a checkpoint was trained; at the end of an epoch fairseq records the next one."""
    iterator = (state.get("extra_state") or {}).get("train_iterator")
    if not isinstance(iterator, dict) or not isinstance(epoch := iterator.get("epoch"), int):
        return None
    return epoch if iterator.get("iterations_in_epoch") else epoch - 1


def _check_layers(path: str, cfg: SyntaxTransformerConfig, weights: Mapping[str, Tensor]) -> None:
    """Refuse options of more layers than there are in the weights: their numbers would be listed one by one."""
    for side, prefix in cfg.layer_prefixes.items():
        layers = getattr(cfg, side).layers
        most = len({found[1] for name in weights if (found := re.match(rf"{re.escape(prefix)}(\d+)\.", name))})
        if layers > most:
            raise InputError(path, None, f"{side}_layers: expected at most {most}, as its weights have, found {layers}")


def check_model(found: Recorded) -> None:
    """Refuse an unknown model; warn of gates that were frozen in all epochs.

    :mod:`syntax_experiments.steps.runs` looks for these words.
    """
    name = _architecture(found.model)
    if found.model is not None and name not in {*MODEL_REGISTRY, *ARCH_MODEL_REGISTRY}:
        raise InputError(found.path, None, f"expected a model that fairseq knows, found {short_repr(name)}")
    cfg = _config(found.model)
    if cfg and cfg.syntax.gated and found.epoch is not None and found.epoch <= cfg.syntax.gate.warmup_epochs:
        logger.warning(
            "%s: its gates were never trained: it is of epoch %d, and pre-warmup freezes them up to epoch %d. Use a "
            "later checkpoint, or train with a smaller --gate-warmup-epochs, or with --validate-after-updates, so that "
            "the best checkpoint is a later one",
            found.path, found.epoch, cfg.syntax.gate.warmup_epochs,
        )  # fmt: skip


def override(model: Any, overrides: Mapping[str, Any]) -> None:
    """Override options of ours that are not recorded, as fairseq does not."""
    if OmegaConf.is_config(model) and _config(model) is not None:
        with open_dict(model):
            model.update({name: overrides[name] for name in set(option_names()) & overrides.keys()})


def incompatible_options(before: Namespace | None, after: Namespace | None) -> list[tuple[str, Any, Any]]:
    """Options in which two models, at least one of them ours, compute something else from the same weights.

    Each has its value in both; ``--arch`` where the other model is of another kind. Labels in another order are among
    them, of stock models, too.
    """
    if before is None or after is None:
        return []
    labels = [("label/dict.txt", *values) for _, *values in _differing(("label_names",), before, after)]
    configurations = _config(before), _config(after)
    if configurations == (None, None):
        return labels
    old, new = (
        {"arch": _architecture(options)} if cfg is None else {"arch": _kind(options), **cfg.semantics}
        for options, cfg in zip((before, after), configurations, strict=True)
    )
    return labels + _differing(old, Namespace(**old), Namespace(**new))


#: Options of stock models that give weights a meaning beyond their names and shapes.
_STOCKS = (
    "activation_fn", "encoder_attention_heads", "encoder_normalize_before",
    "decoder_attention_heads", "decoder_normalize_before",
)  # fmt: skip


def _differing(names: Iterable[str], before: Namespace, after: Namespace) -> list[tuple[str, Any, Any]]:
    """Return options, by their names on a command line, that both models have with other values."""
    values = ((name, getattr(before, name), getattr(after, name)) for name in names if name in before and name in after)
    return [(f"--{name.replace('_', '-')}", old, new) for name, old, new in values if old != new]


def _architecture(options: Namespace | None) -> str | None:
    return getattr(options, "_name", None) or getattr(options, "arch", None)


def _kind(options: Namespace | None) -> str:
    """The name of the model that an architecture is one of."""
    model = ARCH_MODEL_REGISTRY[_architecture(options)]
    return next(name for name, registered in MODEL_REGISTRY.items() if registered is model)


def _config(options: Namespace | None) -> SyntaxTransformerConfig | None:
    """The configuration of one of our models; ``None`` for other models."""
    model = ARCH_MODEL_REGISTRY.get(_architecture(options), object)
    return model.config_type.from_namespace(options) if issubclass(model, SyntaxModel) else None


def _is_ours(options: Namespace | None) -> bool:
    return issubclass(ARCH_MODEL_REGISTRY.get(_architecture(options), object), SyntaxModel)


def compare(found: Recorded, model: Any, *, resuming: bool) -> None:
    """Refuse weights under options that are incompatible with a model's, or warn of them.

    Refused, by :class:`InputError`, are a training that would go on under them, and gates of other masks.
    """
    if OmegaConf.is_config(model):
        model = Namespace(**cast(dict[str, Any], OmegaConf.to_container(model, resolve=True)))
    if found.model is None:
        if _config(model) is not None:
            logger.warning("%s: no options are recorded, so they are not compared with the model's", found.path)
        return
    pruned = {"encoder_layers_to_keep": getattr(model, "encoder_layers_to_keep", None)}
    options = Namespace(**{**vars(found.model), **pruned})
    if not resuming and _config(options) is None:  # ours may start from a stock model's weights
        differing = _differing(_STOCKS, options, model)
    else:
        differing = incompatible_options(options, model)
    for option, old, new in differing:
        configurations = map(_config, (options, model))
        if option == "--syntax-masks" and all(cfg is not None and cfg.syntax.gated for cfg in configurations):
            raise InputError(found.path, None, f"{option}: expected {old}, whose gates these are, found {new}")
        if resuming:
            raise InputError(
                found.path, None, f"{option}: expected {old}, as this training began, found {new}. For a new training "
                "that begins with these weights: --finetune-from-model and a new --save-dir, or --reset-optimizer"
            )  # fmt: skip
        logger.warning("%s: %s is %s here, and was %s when these weights were trained", found.path, option, new, old)

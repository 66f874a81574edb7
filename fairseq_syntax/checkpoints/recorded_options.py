"""What is looked at before fairseq loads a checkpoint: is it one, would it run code, and do its weights mean what the
model makes of them?

Weights are found by names and shapes. That the first gate is SLR's, how wide its range is, or which layers are guided,
they do not say: the checkpoint's configuration does, which is compared with the options in force.
:mod:`fairseq_syntax.checkpoints.loading` has fairseq call :func:`read_checkpoint` and :func:`check_resumption`.
"""

from __future__ import annotations

import logging
import re
import textwrap
from argparse import Namespace
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, cast

from fairseq.models import ARCH_MODEL_REGISTRY, MODEL_REGISTRY
from omegaconf import OmegaConf, open_dict
from torch import Tensor

from fairseq_syntax.checkpoints.safe_loading import read
from fairseq_syntax.models.transformer import SyntaxTransformerModel
from fairseq_syntax.models.transformer_options import SyntaxTransformerConfig, option_names
from syntax_data.errors import InputError, short_repr

logger = logging.getLogger(__name__)


def read_checkpoint(
    path: str, overrides: Mapping[str, Any] | None, load: Callable[[], dict[str, Any]]
) -> dict[str, Any]:
    """What `load`, fairseq's own way, makes of a checkpoint that was looked at before, so that its weights mean what
    they meant.

    Args:
        overrides: what its options are overridden with; ``None``: no model will be built of it.

    Raises:
        InputError: it is no checkpoint, its options cannot be meant, or its gates would be those of other masks.
    """
    found = _look_at(path)
    if overrides is not None:  # a model will be built; the trainer has one
        _check_architecture(found)
        _warn_of_frozen_gates(found)
    state = load()
    _as_it_was_built((state.get("cfg") or {}).get("model"))
    if found.mask_order is not None:
        for weights in (state["model"], *(state["extra_state"].get(n, {}) for n in ("ema", "ema_fp32_params"))):
            reorder_masks(weights, found.mask_order)
    if overrides and state.get("cfg"):
        model = state["cfg"].model
        if OmegaConf.is_config(model) and _config(model) is not None:
            # fairseq overrides what is recorded, and fairseq-hydra-train records only what it was given
            with open_dict(model):
                model.update({name: overrides[name] for name in set(option_names()) & overrides.keys()})
        _compare(found, model, resuming=False)
    return state


def check_resumption(path: str, model: Any, resets_optimizer: bool) -> None:
    """Refuses a checkpoint that a training cannot go on from, or begin with.

    Args:
        model: options of the model that is trained.
        resets_optimizer: whether a new training begins.

    Raises:
        InputError: as :func:`read_checkpoint`; or the training would go on with weights that mean something else.
    """
    found = _look_at(path)
    _compare(found, model, resuming=found.has_optimizer and not resets_optimizer)


def _as_it_was_built(model: Any) -> None:
    """Puts into a record of version 0.1.0 what its architecture has other defaults for since, and takes out what is no
    longer the model's; later versions record all options."""
    if not _is_ours(model) or getattr(model, "gate_output_bias", None) is not None:
        return
    with open_dict(model) if OmegaConf.is_config(model) else nullcontext():
        model.gate_output_bias = True
        model.gate_hidden_dim = getattr(model, "gate_hidden_dim", None)
        if hasattr(model, "cpu_dropout"):
            del model.cpu_dropout


@dataclass(frozen=True)
class Recorded:
    """What a checkpoint says of itself.

    Attributes:
        path: where it lies.
        model: the model's options, ``None`` if it has none.
        has_optimizer: whether a training can go on from it.
        epoch: the last one that it was trained in, from 1; ``None`` if it records none.
    """

    path: str
    model: Namespace | None
    has_optimizer: bool
    epoch: int | None

    @property
    def mask_order(self) -> list[int] | None:
        """Where the gates have each of the masks, these in our order; ``None`` if the gates have them in that order."""
        cfg = _config(self.model)
        if cfg is None or not cfg.syntax.gated_by_head:
            return None
        written = [name.strip() for name in cfg.syntax.masks.split(",")]
        order = [written.index(name) for name in cfg.syntax.mask_names]
        return None if order == sorted(order) else order


def recorded(path: str, state: Mapping[str, Any]) -> Recorded:
    """What a checkpoint, with this content, says of itself.

    Raises:
        InputError: the options of one of our models cannot be meant.
    """
    options = state.get("args") or (state.get("cfg") or {}).get("model")
    try:
        model = Namespace(**options) if isinstance(options, dict) else options
        if _is_ours(model):
            _refuse_nested(path, vars(model))
        cfg = _config(model)
        if cfg is not None:
            _check_layers(path, cfg, state["model"])
            _ = cfg.semantics
    except InputError:
        raise
    except Exception as error:  # of many kinds: anything may stand where an option is looked for
        raise InputError(path, None, f"expected a model's configuration, found: {_said(error)}") from error
    return Recorded(path, model, state.get("last_optimizer_state") is not None, _last_epoch(state))


def _last_epoch(state: Mapping[str, Any]) -> int | None:
    """The last epoch in which a checkpoint was trained; at the end of an epoch fairseq records the next one."""
    iterator = (state.get("extra_state") or {}).get("train_iterator")
    if not isinstance(iterator, dict) or not isinstance(epoch := iterator.get("epoch"), int):
        return None
    return epoch if iterator.get("iterations_in_epoch") else epoch - 1


def _refuse_nested(path: str, options: Mapping[str, Any]) -> None:
    """Refuses dictionaries within a model's options, which we never write.

    fairseq would take options of the encoder from one, or from beside it, by what holds them.
    """
    for name, value in options.items():
        if isinstance(value, Mapping | Namespace) and value:
            raise InputError(path, None, f"{name}: expected an option of a model, found a dictionary of them")


def _check_layers(path: str, cfg: SyntaxTransformerConfig, weights: Mapping[str, Tensor]) -> None:
    """Refuses options of more layers than there are in the weights, whose numbers we would spell out."""
    for side in ("encoder", "decoder"):
        layers = getattr(cfg, side).layers
        most = len({found[1] for name in weights if (found := re.match(rf"{side}\.layers\.(\d+)\.", name))})
        if layers > most:
            raise InputError(path, None, f"{side}_layers: expected at most {most}, as its weights have, found {layers}")


def reorder_masks(state: dict[str, Tensor], order: Sequence[int]) -> None:
    """Sorts what gates in a model's state have of each mask: the i-th mask will be the one that is ``order[i]`` now.

    Weights that have no such parts are left alone: loading them names them.
    """
    for name, weight in state.items():
        of_gate = re.search(r"\.gate\.(fc2|batch_norm)\.\w+$", name)
        if of_gate and weight.dim() and weight.shape[0] % len(order) == 0:
            state[name] = weight.unflatten(0, (len(order), -1))[list(order)].flatten(0, 1)


def _said(error: Exception) -> str:
    reason = textwrap.shorten(str(error), 500, placeholder=" …")
    return reason if isinstance(error, ValueError) else f"{type(error).__name__}: {reason}"


def _check_architecture(found: Recorded) -> None:
    name = _architecture(found.model)
    if found.model is not None and (not isinstance(name, str) or name not in {*MODEL_REGISTRY, *ARCH_MODEL_REGISTRY}):
        raise InputError(
            found.path, None, f"expected a model that fairseq knows, found the architecture {short_repr(name)}"
        )


def _warn_of_frozen_gates(found: Recorded) -> None:
    """Says so if a checkpoint's gates were frozen in all epochs that it was trained in.

    :mod:`syntax_experiments.steps.runs` looks for these words.
    """
    cfg = _config(found.model)
    if cfg is None or found.epoch is None:
        return
    if cfg.syntax.gated and found.epoch <= cfg.syntax.gate.warmup_epochs:
        logger.warning(
            "%s: its gates were never trained: it is of epoch %d, and pre-warmup freezes them up to epoch %d. Use a "
            "later checkpoint, or train with a smaller --gate-warmup-epochs, or with --validate-after-updates, so that "
            "the best checkpoint is a later one",
            found.path, found.epoch, cfg.syntax.gate.warmup_epochs,
        )  # fmt: skip


def _look_at(path: str) -> Recorded:
    state = read(path, mmap=True)
    if not {"optimizer_history", "extra_state"} <= state.keys() and "best_loss" not in state:
        raise InputError(
            path, None, "expected a fairseq checkpoint, found one without optimizer_history and extra_state"
        )
    return recorded(path, state)


def differences(before: Namespace | None, after: Namespace | None) -> list[tuple[str, Any, Any]]:
    """Options that make the same weights mean something else, where at least one of two models is ours: the option, and
    its value in each; ``--arch`` where the other is of another kind."""
    configurations = _config(before), _config(after)
    if before is None or after is None or configurations == (None, None):
        return []
    meanings = [
        {"arch": _architecture(options)} if cfg is None else {"arch": "gated_syntax_transformer", **cfg.semantics}
        for options, cfg in zip((before, after), configurations, strict=True)
    ]
    return [
        (f"--{name.replace('_', '-')}", meanings[0][name], meanings[1][name])
        for name in meanings[0]
        if name in meanings[1] and meanings[0][name] != meanings[1][name]
    ]


def _architecture(options: Namespace | None) -> str | None:
    return getattr(options, "_name", None) or getattr(options, "arch", None)


def _config(options: Namespace | None) -> SyntaxTransformerConfig | None:
    """The configuration of one of our models; ``None`` for other models."""
    return SyntaxTransformerConfig.from_namespace(options) if _is_ours(options) else None


def _is_ours(options: Namespace | None) -> bool:
    return issubclass(ARCH_MODEL_REGISTRY.get(_architecture(options), object), SyntaxTransformerModel)


def _compare(found: Recorded, model: Any, *, resuming: bool) -> None:
    """Refuses, or mentions, weights that mean something else under a model's options.

    Raises:
        InputError: a training would go on with another meaning, or gates would be those of other masks.
    """
    if OmegaConf.is_config(model):
        model = Namespace(**cast(dict[str, Any], OmegaConf.to_container(model, resolve=True)))
    if found.model is None:
        if _config(model) is not None:
            logger.warning("%s: no options are recorded, so what its weights mean is not checked", found.path)
        return
    pruned = {"encoder_layers_to_keep": getattr(model, "encoder_layers_to_keep", None)}
    options = Namespace(**{**vars(found.model), **pruned})
    if not resuming and _config(options) is None:
        return  # a stock Transformer's weights are what ours may start from
    for option, old, new in differences(options, model):
        if option == "--syntax-masks" and all(
            cfg is not None and cfg.syntax.gated for cfg in map(_config, (options, model))
        ):
            raise InputError(found.path, None, f"{option}: expected {old}, whose gates these are, found {new}")
        if resuming:
            raise InputError(
                found.path, None, f"{option}: expected {old}, as this training began, found {new}. For a new training "
                "that begins with these weights: --finetune-from-model and a new --save-dir, or --reset-optimizer"
            )  # fmt: skip
        logger.warning("%s: %s is %s here, and was %s when these weights were trained", found.path, option, new, old)
    if resuming and found.mask_order is not None:
        raise InputError(
            found.path, None, "its gates have the masks in the order in which they were given, as version 0.1.0 wrote "
            "them. They can be sorted, but not the optimizer's state: give --reset-optimizer"
        )  # fmt: skip

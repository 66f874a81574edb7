"""Checks of a checkpoint before fairseq loads it.

What is wrong: fairseq puts a checkpoint's weights into any model whose names and shapes fit. What the checkpoint
records of its model's options is overridden, or ignored, and neither the model nor the task is asked before.
https://github.com/facebookresearch/fairseq/blob/main/fairseq/checkpoint_utils.py (``load_checkpoint_to_cpu``) and
https://github.com/facebookresearch/fairseq/blob/main/fairseq/trainer.py (``load_checkpoint``)

The repair: the functions that load checkpoints are wrapped. One reads a file, by our own reader, in all commands; one
builds models from it, up to a limit; the third, the trainer's, knows whether a training goes on (with the optimizer's
state) or begins. Errors in them name the checkpoint.
"""

from __future__ import annotations

import functools
import inspect
import threading
from collections.abc import Mapping
from typing import Any

import torch
from fairseq import checkpoint_utils
from fairseq.optim.adam import Adam
from fairseq.trainer import Trainer

from fairseq_syntax.checkpoints.recorded_options import Recorded, check_model, compare, override, recorded
from fairseq_syntax.checkpoints.safe_loading import naming, read
from fairseq_syntax.checkpoints.size_limit import SizeLimit


class _Loading(threading.local):
    """The purpose for which this thread loads a checkpoint.

    Attributes:
        limit: of the models that are built.
        trained: the options of the trainer's model, and whether the optimizer is reset.
        found: what the checkpoint that was read last records.
    """

    limit: SizeLimit | None = None
    trained: tuple[Any, bool] | None = None
    found: Recorded


_loading = _Loading()


class _Torch:
    """torch, as fairseq's module for checkpoints imports it, except that it reads by our reader."""

    def load(self, file: Any, *_: Any, **__: Any) -> dict[str, Any]:
        state = read(file.name)
        _loading.found = recorded(file.name, state)
        return state

    def __getattr__(self, name: str) -> Any:
        return getattr(torch, name)


def _check_moments(optimizer: Any) -> None:
    """Raise :class:`ValueError` unless fairseq's Adam has means of its parameters' shapes, or none."""
    states = optimizer.optimizer.state if isinstance(optimizer.optimizer, Adam) else {}
    for number, (parameter, state) in enumerate(states.items()):
        shapes = [getattr(state.get(name), "shape", None) for name in ("exp_avg", "exp_avg_sq")]
        if state and (shapes != [parameter.shape] * 2 or not isinstance(state.get("step"), int)):
            raise ValueError(f"the optimizer's state of parameter {number} is not of shape {tuple(parameter.shape)}")


def hook_checkpoint_loading() -> None:
    """Have fairseq's commands load checkpoints with our checks."""
    load, resume = checkpoint_utils.load_checkpoint_to_cpu, Trainer.load_checkpoint
    build = checkpoint_utils.load_model_ensemble_and_task

    @functools.wraps(load)
    def load_checkpoint_to_cpu(
        path: str, arg_overrides: Mapping[str, Any] | None = None, *args: Any, **kwargs: Any
    ) -> Any:
        limit, trained = _loading.limit, _loading.trained
        if limit is not None:
            limit.lift()
        with naming(path, "a checkpoint as fairseq writes it"):
            state = load(path, arg_overrides, *args, **kwargs)
        found = _loading.found
        if arg_overrides is not None:  # a model will be built; the trainer has one
            check_model(found)
        if arg_overrides and state.get("cfg"):
            override(state["cfg"].model, arg_overrides)
            compare(found, state["cfg"].model, resuming=False)
        if trained is not None:
            model, resets_optimizer = trained
            compare(found, model, resuming=found.has_optimizer and not resets_optimizer)
        if limit is not None:
            limit.of(path, state)
        return state

    @functools.wraps(build)
    def load_model_ensemble_and_task(*args: Any, **kwargs: Any) -> Any:
        given = inspect.signature(build).bind(*args, **kwargs).arguments
        paths, overrides = given["filenames"], given.get("arg_overrides") or {}
        data = getattr(getattr(given.get("task"), "cfg", None), "data", None) or overrides.get("data", "the data")
        with SizeLimit(parts=given.get("num_shards", 1)) as limit:
            _loading.limit = limit
            try:
                if given.get("state") is not None:
                    limit.of(paths[0], given["state"])
                with naming(":".join(paths), f"weights that fit its configuration and the dictionaries of {data}"):
                    return build(*args, **kwargs)
            finally:
                _loading.limit = None

    @functools.wraps(resume)
    def load_checkpoint(self: Trainer, filename: str, reset_optimizer: bool = False, *args: Any, **kwargs: Any) -> Any:
        _loading.trained = self.cfg.model, reset_optimizer
        try:
            with naming(filename, "a checkpoint that this training can begin with"):
                found = resume(self, filename, reset_optimizer, *args, **kwargs)
                if self._optimizer is not None:
                    _check_moments(self.optimizer)
                return found
        finally:
            _loading.trained = None

    vars(checkpoint_utils)["torch"] = _Torch()
    checkpoint_utils.load_checkpoint_to_cpu = load_checkpoint_to_cpu
    checkpoint_utils.load_model_ensemble_and_task = load_model_ensemble_and_task
    Trainer.load_checkpoint = load_checkpoint

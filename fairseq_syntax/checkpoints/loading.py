"""Checks of a checkpoint before fairseq loads it.

What is wrong: fairseq 0.12.2, main and fairseq-fixed 0.12.3 put a checkpoint's weights into any model whose names and
shapes fit. What the checkpoint records of its model's options is overridden, or ignored, and neither the model nor the
task is asked before. https://github.com/facebookresearch/fairseq/blob/main/fairseq/checkpoint_utils.py
(``load_checkpoint_to_cpu``) and https://github.com/facebookresearch/fairseq/blob/main/fairseq/trainer.py
(``load_checkpoint``)

The repair: the functions that load checkpoints are wrapped. One reads a file, by our own reader, in all commands; one
builds models from it, up to a limit; the third, the trainer's, knows whether a training goes on (with the optimizer's
state) or begins. Errors in them name the checkpoint.
"""

from __future__ import annotations

import functools
import inspect
import threading
from collections.abc import Callable, Mapping
from typing import Any

import torch
from fairseq import checkpoint_utils
from fairseq.file_io import PathManager
from fairseq.optim.adam import Adam
from fairseq.trainer import Trainer

from fairseq_syntax.checkpoints.safe_loading import naming, read
from fairseq_syntax.checkpoints.size_limit import SizeLimit

#: What the options of a checkpoint are overridden with.
Overrides = Mapping[str, Any]
#: A checkpoint's content, as fairseq reads it.
State = dict[str, Any]


class _Torch:
    """torch, as fairseq's module for checkpoints imports it, except that it reads by our reader."""

    def load(self, file: Any, *_: Any, **__: Any) -> State:
        return read(file.name)

    def __getattr__(self, name: str) -> Any:
        return getattr(torch, name)


def _check_moments(optimizer: Any) -> None:
    """Raise :class:`ValueError` unless fairseq's Adam has means of its parameters' shapes, or none."""
    states = optimizer.optimizer.state if isinstance(optimizer.optimizer, Adam) else {}
    for number, (parameter, state) in enumerate(states.items()):
        shapes = [getattr(state.get(name), "shape", None) for name in ("exp_avg", "exp_avg_sq")]
        if state and (shapes != [parameter.shape] * 2 or not isinstance(state.get("step"), int)):
            raise ValueError(
                f"the optimizer's state of parameter {number} is not of its shape {tuple(parameter.shape)}"
            )


def hook_checkpoint_loading(
    read_checkpoint: Callable[[str, Overrides | None, Callable[[], State]], State],
    check_resumption: Callable[[str, Any, bool], None],
) -> None:
    """Have fairseq's commands load checkpoints through these functions, which may refuse them.

    Args:
        read_checkpoint: returns the content of the checkpoint at a path, with options overridden (``None``: no model
            will be built) by a call of its last argument, fairseq's own function.
        check_resumption: is called before a trainer takes the checkpoint at a path, with the options of the trainer's
            model, and whether the optimizer is reset.
    """
    load, resume = checkpoint_utils.load_checkpoint_to_cpu, Trainer.load_checkpoint
    build = checkpoint_utils.load_model_ensemble_and_task
    of_thread = threading.local()  # as torch's modes are

    @functools.wraps(load)
    def load_checkpoint_to_cpu(path: str, arg_overrides: Overrides | None = None, *args: Any, **kwargs: Any) -> State:
        def load_by_fairseq() -> State:
            with naming(path, "a checkpoint as fairseq writes it"):
                return load(path, arg_overrides, *args, **kwargs)

        limit: SizeLimit | None = getattr(of_thread, "limit", None)  # of the model that is built from it
        if limit is None:
            return read_checkpoint(path, arg_overrides, load_by_fairseq)
        limit.lift()
        state = read_checkpoint(path, arg_overrides, load_by_fairseq)
        limit.of(path, state)
        return state

    @functools.wraps(build)
    def load_model_ensemble_and_task(*args: Any, **kwargs: Any) -> Any:
        given = inspect.signature(build).bind(*args, **kwargs).arguments
        paths, overrides = given["filenames"], given.get("arg_overrides") or {}
        data = getattr(getattr(given.get("task"), "cfg", None), "data", None) or overrides.get("data", "the data")
        with SizeLimit(parts=given.get("num_shards", 1)) as limit:
            of_thread.limit = limit
            try:
                if given.get("state") is not None:
                    limit.of(paths[0], given["state"])
                with naming(":".join(paths), f"weights that fit its configuration and the dictionaries of {data}"):
                    return build(*args, **kwargs)
            finally:
                of_thread.limit = None

    @functools.wraps(resume)
    def load_checkpoint(self: Trainer, filename: str, reset_optimizer: bool = False, *args: Any, **kwargs: Any) -> Any:
        if PathManager.isfile(filename):
            check_resumption(filename, self.cfg.model, reset_optimizer)
        with naming(filename, "a checkpoint that this training can begin with"):
            found = resume(self, filename, reset_optimizer, *args, **kwargs)
            if self._optimizer is not None:
                _check_moments(self.optimizer)
            return found

    vars(checkpoint_utils)["torch"] = _Torch()
    checkpoint_utils.load_checkpoint_to_cpu = load_checkpoint_to_cpu
    checkpoint_utils.load_model_ensemble_and_task = load_model_ensemble_and_task
    Trainer.load_checkpoint = load_checkpoint

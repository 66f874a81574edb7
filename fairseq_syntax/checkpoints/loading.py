"""A place to look at a checkpoint before fairseq loads it.

What is wrong: fairseq 0.12.2, main and fairseq-fixed 0.12.3 put a checkpoint's weights into any model whose names and
shapes fit. What the checkpoint records of its model's options is overridden, or not looked at, and neither the model
nor the task is asked before. https://github.com/facebookresearch/fairseq/blob/main/fairseq/checkpoint_utils.py
(``load_checkpoint_to_cpu``) and https://github.com/facebookresearch/fairseq/blob/main/fairseq/trainer.py
(``load_checkpoint``)

The repair: the functions that load checkpoints are wrapped. One gives a file's content, read by our own reader, in all
commands; one builds models of it, up to a limit; the third, the trainer's, knows whether a training goes on (with the
optimizer's state) or begins. What goes wrong in them names the checkpoint.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Mapping
from typing import Any

import torch
from fairseq import checkpoint_utils
from fairseq.file_io import PathManager
from fairseq.optim.adam import Adam
from fairseq.trainer import Trainer

from fairseq_syntax.checkpoints.safe_loading import naming, read, weights_of
from fairseq_syntax.checkpoints.size_limit import SizeLimit

#: What the options of a checkpoint are overridden with.
Overrides = Mapping[str, Any]
#: A checkpoint's content, as fairseq makes it.
State = dict[str, Any]


class _Torch:
    """torch, as fairseq's module for checkpoints has it: but that it reads by our reader."""

    def load(self, file: Any, *_: Any, **__: Any) -> State:
        return read(file.name)

    def __getattr__(self, name: str) -> Any:
        return getattr(torch, name)


def _check_moments(optimizer: Any) -> None:
    """Raises :class:`ValueError` if fairseq's Adam has got means for parameters of other shapes, or not all of them."""
    states = optimizer.optimizer.state if isinstance(optimizer.optimizer, Adam) else {}
    for number, (parameter, state) in enumerate(states.items()):
        shapes = [getattr(state.get(name), "shape", None) for name in ("exp_avg", "exp_avg_sq")]
        if state and (shapes != [parameter.shape] * 2 or not isinstance(state.get("step"), int)):
            raise ValueError(
                f"the optimizer's state of parameter {number} is not of its shape {tuple(parameter.shape)}"
            )


def hook_checkpoint_loading(
    *,
    look: Callable[[str, Overrides | None, Callable[[], State]], State],
    before_resuming: Callable[[str, Any, bool], None],
) -> None:
    """From now on, fairseq's commands load checkpoints through these functions, which may refuse them.

    Args:
        look: gives the content of the checkpoint at a path, with options overridden (``None``: no model will be built)
            by a call of its last argument, fairseq's own way.
        before_resuming: is called before a trainer takes the checkpoint at a path, with the options of the trainer's
            model, and whether the optimizer begins anew.
    """
    load, resume = checkpoint_utils.load_checkpoint_to_cpu, Trainer.load_checkpoint
    build = checkpoint_utils.load_model_ensemble_and_task
    of_thread = threading.local()  # as torch's modes are

    @functools.wraps(load)
    def load_checkpoint_to_cpu(path: str, arg_overrides: Overrides | None = None, *args: Any, **kwargs: Any) -> State:
        def load_by_fairseq() -> State:
            with naming(path, "a checkpoint as fairseq writes it"):
                return load(path, arg_overrides, *args, **kwargs)

        limits: tuple[SizeLimit, ...] = getattr(of_thread, "limits", ())
        for limit in limits:
            limit.lift()
        state = look(path, arg_overrides, load_by_fairseq)
        for limit in limits:
            limit.of(path, state)
        return state

    @functools.wraps(build)
    def load_model_ensemble_and_task(
        filenames: list[str],
        arg_overrides: Overrides | None = None,
        task: Any = None,
        strict: bool = True,
        suffix: str = "",
        num_shards: int = 1,
        state: State | None = None,
    ) -> Any:
        data = getattr(getattr(task, "cfg", None), "data", None) or (arg_overrides or {}).get("data", "the data")
        with SizeLimit(parts=num_shards) as limit:
            before = getattr(of_thread, "limits", ())
            of_thread.limits = (*before, limit)
            try:
                if state is not None:
                    limit.of(filenames[0], state)
                with weights_of(":".join(filenames), f"its configuration and the dictionaries of {data}"):
                    return build(filenames, arg_overrides, task, strict, suffix, num_shards, state)
            finally:
                of_thread.limits = before

    @functools.wraps(resume)
    def load_checkpoint(self: Trainer, filename: str, reset_optimizer: bool = False, *args: Any, **kwargs: Any) -> Any:
        if PathManager.isfile(filename):
            before_resuming(filename, self.cfg.model, reset_optimizer)
        with naming(filename, "a checkpoint that this training can begin with"):
            found = resume(self, filename, reset_optimizer, *args, **kwargs)
            if self._optimizer is not None:
                _check_moments(self.optimizer)
            return found

    vars(checkpoint_utils)["torch"] = _Torch()
    checkpoint_utils.load_checkpoint_to_cpu = load_checkpoint_to_cpu
    checkpoint_utils.load_model_ensemble_and_task = load_model_ensemble_and_task
    Trainer.load_checkpoint = load_checkpoint

"""A place to look at a checkpoint before fairseq loads it.

What is wrong: fairseq 0.12.2, main and fairseq-fixed 0.12.3 put a checkpoint's weights into any model whose names and
shapes fit. What the checkpoint records of its model's options is overridden, or not looked at, and neither the model
nor the task is asked before. https://github.com/facebookresearch/fairseq/blob/main/fairseq/checkpoint_utils.py
(``load_checkpoint_to_cpu``) and https://github.com/facebookresearch/fairseq/blob/main/fairseq/trainer.py
(``load_checkpoint``)

The repair: the two functions that load checkpoints are wrapped. One reads the file, in all commands; the other, the
trainer's, knows whether a training goes on (with the optimizer's state) or begins.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

from fairseq import checkpoint_utils
from fairseq.file_io import PathManager
from fairseq.trainer import Trainer

#: What the options of a checkpoint are overridden with.
Overrides = Mapping[str, Any]
#: A checkpoint's content, as fairseq makes it.
State = dict[str, Any]


def look_before_loading(
    *,
    read: Callable[[str, Overrides | None, Callable[[], State]], State],
    before_resuming: Callable[[str, Any, bool], None],
) -> None:
    """From now on, fairseq's commands load checkpoints through these functions, which may refuse them.

    Args:
        read: gives the content of the checkpoint at a path, with options overridden (``None``: no model will be built)
            by a call of its last argument, fairseq's own way.
        before_resuming: is called before a trainer takes the checkpoint at a path, with the options of the trainer's
            model, and whether the optimizer begins anew.
    """
    load, resume = checkpoint_utils.load_checkpoint_to_cpu, Trainer.load_checkpoint

    @functools.wraps(load)
    def load_checkpoint_to_cpu(path: str, arg_overrides: Overrides | None = None, *args: Any, **kwargs: Any) -> State:
        return read(path, arg_overrides, lambda: load(path, arg_overrides, *args, **kwargs))

    @functools.wraps(resume)
    def load_checkpoint(self: Trainer, filename: str, reset_optimizer: bool = False, *args: Any, **kwargs: Any) -> Any:
        if PathManager.isfile(filename):
            before_resuming(filename, self.cfg.model, reset_optimizer)
        return resume(self, filename, reset_optimizer, *args, **kwargs)

    checkpoint_utils.load_checkpoint_to_cpu = load_checkpoint_to_cpu
    Trainer.load_checkpoint = load_checkpoint

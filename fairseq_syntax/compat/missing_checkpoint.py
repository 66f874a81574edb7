"""A training from a checkpoint that is not there.

What is wrong: in fairseq 0.12.2, main and fairseq-fixed 0.12.3 a training with ``--restore-file roberta.base/model.pt``
begins from random weights if there is no such file, and says so in one line of its log alone.
``--finetune-from-model`` refuses. https://github.com/facebookresearch/fairseq/blob/main/fairseq/trainer.py
(``load_checkpoint``)

The repair: a file that ``--restore-file`` names must be there. Its default, ``checkpoint_last.pt`` in ``--save-dir``,
need not be.
"""

from __future__ import annotations

import functools
from typing import Any

from fairseq import checkpoint_utils
from fairseq.file_io import PathManager


def refuse_missing() -> None:
    """Let a training end in FileNotFoundError if ``--restore-file`` names no file."""
    load = checkpoint_utils.load_checkpoint

    @functools.wraps(load)
    def load_checkpoint(cfg: Any, trainer: Any, **kwargs: Any) -> Any:
        path = cfg.restore_file
        if path != "checkpoint_last.pt":
            path = path.replace(".pt", f"{trainer.checkpoint_suffix}.pt")  # as fairseq names shards
            if not PathManager.exists(path):
                raise FileNotFoundError(f"--restore-file: expected a checkpoint, found no file {path}")
        return load(cfg, trainer, **kwargs)

    checkpoint_utils.load_checkpoint = load_checkpoint

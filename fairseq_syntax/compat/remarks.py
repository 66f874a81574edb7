"""No remark on tensorboardX in front of every command.

What is wrong: fairseq imports all its tasks, of which text_to_speech logs ``Please install tensorboardX`` where that is
missing. Commands that have nothing to do with speech or tensorboard begin with that line on stderr.
https://github.com/facebookresearch/fairseq/blob/main/fairseq/tasks/text_to_speech.py

The repair: our package imports fairseq inside :func:`left_out`, which concerns our own commands and Python programs.
fairseq's commands import it, and log the line, before they import our package.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def left_out(logged_by: str = "fairseq.tasks.text_to_speech") -> Iterator[None]:
    """Inside the block, a module, or all of a package, logs nothing below warnings."""
    logger = logging.getLogger(logged_by)
    before = logger.level
    logger.setLevel(logging.WARNING)
    try:
        yield
    finally:
        logger.setLevel(before)

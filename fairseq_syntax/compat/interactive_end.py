"""fairseq-interactive has a last word, and an exit status.

What is wrong: in fairseq 0.12.2, main and fairseq-fixed 0.12.3 there is no place for either. After the last line
``fairseq_cli.interactive.main`` logs the time and returns, without a call of the task, and the command ends with status
0, though a parser may have failed or parses may be left over.
https://github.com/facebookresearch/fairseq/blob/main/fairseq_cli/interactive.py (``main``)

The repair: fairseq's commands run through ``fairseq.distributed.utils.call_main``, and what is to be called at the end
is called after that. Whoever calls ``main`` in another way has no last word.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

from fairseq.distributed import utils as distributed_utils

#: What is to be called at the end of the fairseq-interactive that runs; ``None`` where none does.
_AT_END: ContextVar[list[Callable[[], None]] | None] = ContextVar("_AT_END", default=None)


def tell_the_end() -> None:
    """From now on, :func:`add_exit_hook` works."""
    call_main = distributed_utils.call_main

    @functools.wraps(call_main)
    def call_main_and_tell(cfg: Any, main: Callable[..., Any], **kwargs: Any) -> Any:
        if not _is_interactive(main):
            return call_main(cfg, main, **kwargs)
        at_end: list[Callable[[], None]] = []
        token = _AT_END.set(at_end)
        try:
            result = call_main(cfg, main, **kwargs)
        finally:
            _AT_END.reset(token)
        for function in at_end:
            function()
        return result

    distributed_utils.call_main = call_main_and_tell


def add_exit_hook(function: Callable[[], None]) -> bool:
    """Has `function` called after the last line, if fairseq-interactive runs; says whether it does.

    `function` may raise :class:`SystemExit` with the status that the command is to end with.
    """
    at_end = _AT_END.get()
    if at_end is None:
        return False
    at_end.append(function)
    return True


def _is_interactive(main: Callable[..., Any]) -> bool:
    # By what stands beside it: under `python -m`, or run by its path, its module has another name.
    return {"buffered_read", "make_batches"} <= getattr(main, "__globals__", {}).keys()

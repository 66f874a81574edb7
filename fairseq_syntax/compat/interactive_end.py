"""Exit hooks of fairseq-interactive.

What is wrong: in fairseq a task cannot set the exit status. After the last line ``fairseq_cli.interactive.main`` logs
the time and returns, without a call of the task, and the command ends with status 0, though a parser may have failed or
parses may be left over. https://github.com/facebookresearch/fairseq/blob/main/fairseq_cli/interactive.py (``main``)

The repair: fairseq's commands run through ``fairseq.distributed.utils.call_main``, after which the hooks are called. A
program that calls ``main`` in another way has none.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

from fairseq.distributed import utils as distributed_utils

#: The hooks of the fairseq-interactive that runs; ``None`` where none does.
_HOOKS: ContextVar[list[Callable[[], None]] | None] = ContextVar("_HOOKS", default=None)


def install_exit_hooks() -> None:
    """Let fairseq-interactive call the hooks of :func:`add_exit_hook`."""
    call_main = distributed_utils.call_main

    @functools.wraps(call_main)
    def call_main_with_hooks(cfg: Any, main: Callable[..., Any], **kwargs: Any) -> Any:
        if not _is_interactive(main):
            return call_main(cfg, main, **kwargs)
        hooks: list[Callable[[], None]] = []
        token = _HOOKS.set(hooks)
        try:
            result = call_main(cfg, main, **kwargs)
        finally:
            _HOOKS.reset(token)
        for function in hooks:
            function()
        return result

    distributed_utils.call_main = call_main_with_hooks


def add_exit_hook(function: Callable[[], None]) -> bool:
    """Have `function` called after the last line, if fairseq-interactive runs; return if it does.

    `function` may raise :class:`SystemExit` with the status that the command is to end with.
    """
    hooks = _HOOKS.get()
    if hooks is None:
        return False
    hooks.append(function)
    return True


def _is_interactive(main: Callable[..., Any]) -> bool:
    # By the functions beside it: under `python -m`, or run by its path, its module has another name.
    return {"buffered_read", "make_batches"} <= getattr(main, "__globals__", {}).keys()

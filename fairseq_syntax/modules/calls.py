"""Handing an argument through code that does not know of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from torch import nn


@contextmanager
def extra_arguments(modules: Iterable[nn.Module], **extra: Any) -> Iterator[None]:
    """Inside the block, calls of `modules` get `extra` as further keyword arguments.

    fairseq's encoder calls its layers, and its layers their attention, with fixed arguments. This adds ours
    without a copy of those methods, and leaves nothing behind on the modules.
    """

    def add(_: nn.Module, args: tuple, kwargs: dict[str, Any]) -> tuple[tuple, dict[str, Any]]:
        return args, {**kwargs, **extra}

    handles = [module.register_forward_pre_hook(add, with_kwargs=True) for module in modules]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()

"""Handing arguments into, and results out of, code that does not know of them."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from torch import Tensor, nn

#: Hooks, like other attributes of modules, act on the calls of all threads. So what sets them for a while holds this:
#: threads that share a model pass through it one after another. Code inside must not wait for another thread's pass.
one_thread = threading.RLock()


@contextmanager
def extra_arguments(modules: Iterable[nn.Module], **extra: Any) -> Iterator[None]:
    """Inside the block, calls of `modules` get `extra` as further keyword arguments.

    fairseq's encoder calls its layers, and its layers their attention, with fixed arguments. This adds ours
    without a copy of those methods, and leaves nothing behind on the modules.
    """

    def add(_: nn.Module, args: tuple, kwargs: dict[str, Any]) -> tuple[tuple, dict[str, Any]]:
        return args, {**kwargs, **extra}

    with one_thread:
        handles = [module.register_forward_pre_hook(add, with_kwargs=True) for module in modules]
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()


@contextmanager
def outputs_of(modules: Iterable[nn.Module]) -> Iterator[dict[nn.Module, list[Tensor]]]:
    """Inside the block, gathers what `modules` return, without gradients, call by call."""
    outputs: dict[nn.Module, list[Tensor]] = {module: [] for module in modules}

    def keep(module: nn.Module, args: tuple, output: Tensor) -> None:
        outputs[module].append(output.detach())

    with one_thread:
        handles = [module.register_forward_hook(keep) for module in outputs]
        try:
            yield outputs
        finally:
            for handle in handles:
                handle.remove()

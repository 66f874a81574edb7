"""The error of a training that diverges names the module.

What is wrong: where a gradient is NaN or infinite, fairseq 0.12.2, main and fairseq-fixed 0.12.3 repeat the batch to
look for its origin (``NanDetector``). The hooks for that, torch's ``register_backward_hook``, need a tensor among the
values of a module's output. An encoder's output is a dictionary of lists. So every model with an encoder, stock ones
too, ends in a ``StopIteration`` without a message.
https://github.com/facebookresearch/fairseq/blob/main/fairseq/nan_detector.py (``add_hooks``),
https://github.com/pytorch/pytorch/blob/main/torch/nn/modules/module.py (``non_full_backward_hooks``)

The repair: hooks of the tensors in a module's output check gradients. The error, "gradients are Nan/Inf",
ends with the first module in the forward pass and the first in the backward pass.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Iterator, Mapping
from typing import Any

from fairseq.nan_detector import NanDetector
from torch import Tensor


def inspect_nested_outputs() -> None:
    """Make the detector take every kind of output, and add what it finds to the error."""
    detect, leave = NanDetector._detect, NanDetector.__exit__

    @functools.wraps(NanDetector.add_hooks)
    def add_hooks(self: Any, module: Any) -> None:
        if self.forward:
            self.fhooks.append(module.register_forward_hook(self.fhook_fn))
        if self.backward:
            self.bhooks.append(module.register_forward_hook(functools.partial(_check_gradients, self)))

    @functools.wraps(detect)
    def _detect(self: Any, tensor: Tensor, name: str, backward: bool) -> str | None:
        found: str | None = detect(self, tensor, name, backward)
        if found is not None:
            self.found = [*getattr(self, "found", ()), found]
        return found

    @functools.wraps(leave)
    def __exit__(self: Any, *raised: Any) -> None:
        leave(self, *raised)
        error = sys.exception()  # fairseq's, after which it looked
        if error is not None and raised[0] is None:
            for found in getattr(self, "found", ["no NaN or Inf in the output of a module or in its gradient"]):
                error.add_note(found)

    NanDetector.add_hooks, NanDetector._detect, NanDetector.__exit__ = add_hooks, _detect, __exit__


def _check_gradients(detector: Any, module: Any, inputs: Any, output: Any) -> None:
    for tensor in _tensors(output):
        if tensor.requires_grad:
            tensor.register_hook(lambda gradient: detector.bhook_fn(module, None, gradient))


def _tensors(output: Any) -> Iterator[Tensor]:
    if isinstance(output, Tensor):
        yield output
    elif isinstance(output, Mapping):
        yield from _tensors(list(output.values()))
    elif isinstance(output, list | tuple):
        for part in output:
            yield from _tensors(part)

"""The error of a training that diverges names the module.

What is wrong: where a gradient is NaN or infinite, fairseq repeats the batch to look for its origin (``NanDetector``).
The hooks for that, torch's ``register_backward_hook``, need a tensor among the values of a module's output. An
encoder's output is a dictionary of lists. So every model with an encoder, stock ones too, ends in a ``StopIteration``
without a message. https://github.com/facebookresearch/fairseq/blob/main/fairseq/nan_detector.py (``add_hooks``),
https://github.com/pytorch/pytorch/blob/main/torch/nn/modules/module.py (``non_full_backward_hooks``)

The repair: hooks of the tensors in a module's output check gradients. The log then names the first module in the
forward pass and the first in the backward pass.
"""

from __future__ import annotations

import functools
from typing import Any

from fairseq.nan_detector import NanDetector
from torch import Tensor
from torch.utils._pytree import tree_leaves


def inspect_nested_outputs() -> None:
    """Make the detector take every kind of output."""

    @functools.wraps(NanDetector.add_hooks)
    def add_hooks(self: Any, module: Any) -> None:
        if self.forward:
            self.fhooks.append(module.register_forward_hook(self.fhook_fn))
        if self.backward:
            self.bhooks.append(module.register_forward_hook(functools.partial(_check_gradients, self)))

    NanDetector.add_hooks = add_hooks


def _check_gradients(detector: Any, module: Any, inputs: Any, output: Any) -> None:
    for tensor in tree_leaves(output):
        if isinstance(tensor, Tensor) and tensor.requires_grad:
            tensor.register_hook(lambda gradient: detector.bhook_fn(module, None, gradient))

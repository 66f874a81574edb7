"""Adam for all parameters at once.

What is wrong: fairseq's Adam, which it takes where apex is missing, goes through the parameters one by one, with about
ten kernels for each. On a GPU their launches, not the arithmetic, take the time, unless ``--fp16`` makes one flat
tensor of all parameters.
https://github.com/facebookresearch/fairseq/blob/main/fairseq/optim/adam.py (``Adam.step``); the same for an optimizer
of speech models: https://github.com/facebookresearch/fairseq/pull/4904

The repair: the same operations in the same order, each for many parameters by one call of torch's ``_foreach``
functions. States and checkpoints are those of fairseq. The results are bit-identical on a CPU.
"""

from __future__ import annotations

import functools
import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
from fairseq.optim.adam import Adam
from torch import Tensor

HALF = torch.float16, torch.bfloat16
#: Elements updated at once: on a CPU, those that stay in its cache from one operation to the next; on other devices, as
#: many as need 64 MB for denominators and, in half precision, twice that for copies in float32.
ON_A_CPU, ELSEWHERE = 2**18, 2**24


def step_at_once() -> None:
    """Make fairseq's Adam update the parameters of a group together.

    AMSGrad, which no option asks for, and sparse gradients, which Adam refuses, are left to fairseq.
    """
    original = Adam.step

    @functools.wraps(original)
    def step(self: Any, closure: Callable[[], Any] | None = None) -> Any:
        loss = None if closure is None else closure()
        if any(group.get("amsgrad") or _has_sparse_gradient(group) for group in self.param_groups):
            original(self)
            return loss
        for group in self.param_groups:
            for count, parameters in _count_step(group["params"], self.state).items():
                for part in _parts(parameters):
                    _update(part, [self.state[parameter] for parameter in part], count, group)
        return loss

    Adam.step = step


def _has_sparse_gradient(group: Mapping[str, Any]) -> bool:
    return any(parameter.grad is not None and parameter.grad.is_sparse for parameter in group["params"])


def _count_step(parameters: Sequence[Tensor], states: Any) -> dict[int, list[Tensor]]:
    """Count a step of each parameter that has a gradient; return them by their number of steps.

    It differs where some had no gradient in a step before.
    """
    by_step = defaultdict(list)
    for parameter in parameters:
        if parameter.grad is not None:
            state = states[parameter]
            state["step"] = state.get("step", 0) + 1
            by_step[state["step"]].append(parameter)
    return by_step


def _parts(parameters: Sequence[Tensor]) -> Iterator[list[Tensor]]:
    """Split parameters into parts of at most ``ON_A_CPU`` or ``ELSEWHERE`` elements, or of one parameter."""
    part: list[Tensor] = []
    elements = 0
    for parameter in parameters:
        limit = ON_A_CPU if parameter.device.type == "cpu" else ELSEWHERE
        if part and elements + parameter.numel() > limit:
            yield part
            part, elements = [], 0
        part.append(parameter)
        elements += parameter.numel()
    yield part


def _update(
    parameters: Sequence[Tensor], states: Sequence[dict[str, Any]], count: int, group: Mapping[str, Any]
) -> None:
    """Take step number `count` of Adam with decoupled weight decay (https://arxiv.org/abs/1711.05101)."""
    weights = [_at_least_float32(parameter.data) for parameter in parameters]
    gradients = [_at_least_float32(parameter.grad.data) for parameter in parameters if parameter.grad is not None]
    exp_avgs, exp_avg_sqs = (_moments(name, states, weights) for name in ("exp_avg", "exp_avg_sq"))
    beta1, beta2 = group["betas"]
    torch._foreach_mul_(exp_avgs, beta1)
    torch._foreach_add_(exp_avgs, gradients, alpha=1 - beta1)
    torch._foreach_mul_(exp_avg_sqs, beta2)
    torch._foreach_addcmul_(exp_avg_sqs, gradients, gradients, value=1 - beta2)
    denominators = torch._foreach_sqrt(exp_avg_sqs)
    torch._foreach_add_(denominators, group["eps"])
    if group["weight_decay"] != 0:
        torch._foreach_add_(weights, weights, alpha=-group["weight_decay"] * group["lr"])
    step_size = group["lr"] * math.sqrt(1 - beta2**count) / (1 - beta1**count)
    torch._foreach_addcdiv_(weights, exp_avgs, denominators, value=-step_size)
    for parameter, copy in zip(parameters, weights, strict=True):
        if parameter.dtype in HALF:
            parameter.data.copy_(copy)


def _at_least_float32(tensor: Tensor) -> Tensor:
    return tensor.float() if tensor.dtype in HALF else tensor


def _moments(name: str, states: Sequence[dict[str, Any]], weights: Sequence[Tensor]) -> list[Tensor]:
    """Return moments on the device and in the precision of `weights`; a checkpoint may have others."""
    for state, weight in zip(states, weights, strict=True):
        state[name] = state[name].to(weight) if name in state else torch.zeros_like(weight)
    return [state[name] for state in states]

"""Keeping parameters still over an optimizer step."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from fairseq.optim.fp16_optimizer import FP16Optimizer
from torch import Tensor, nn


@contextmanager
def frozen(parameters: Sequence[nn.Parameter], optimizer: object) -> Iterator[None]:
    """Inside the block, a step of `optimizer` leaves `parameters` bit-identical.

    Without gradients, fairseq's optimizers skip a parameter: no weight decay, no moments. ``--fp16`` steps on a
    float32 copy of all parameters instead, which decays whatever the gradient; there the copy is put back.
    """
    for parameter in parameters:
        parameter.grad = None
    copies = _fp32_copies(parameters, optimizer)
    saved = [(copy, copy.detach().clone()) for copy in copies]
    yield
    with torch.no_grad():
        for copy, before in saved:
            copy.copy_(before)


def _fp32_copies(parameters: Sequence[nn.Parameter], optimizer: object) -> list[Tensor]:
    if not isinstance(optimizer, FP16Optimizer):
        return []
    wanted = {id(parameter) for parameter in parameters}
    copies: list[Tensor] = []
    if isinstance(optimizer.fp32_params, dict):  # one flat tensor of them all
        (flat,) = optimizer.fp32_params.values()
        lengths = [parameter.numel() for parameter in optimizer.fp16_params]
        fp32_params = flat.data.split(lengths)
    else:
        fp32_params = [parameter.data for parameter in optimizer.fp32_params]
    for parameter, copy in zip(optimizer.fp16_params, fp32_params, strict=True):
        if id(parameter) in wanted:
            copies += [copy, parameter.data]
    return copies

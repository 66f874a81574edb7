"""Frozen parameters in an optimizer step.

What is wrong: fairseq decays the weights of parameters without a gradient under ``--fp16``, since its optimizer makes
one flat tensor of them all; and every optimizer decays parameters whose gradient is zero. So frozen parameters change.
https://github.com/facebookresearch/fairseq/issues/4702

The repair: the task steps inside :func:`frozen`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from fairseq.optim.fp16_optimizer import FP16Optimizer
from torch import Tensor, nn


@contextmanager
def frozen(parameters: Sequence[nn.Parameter], optimizer: object) -> Iterator[None]:
    """Inside the block, a step of `optimizer` leaves `parameters` bit-identical.

    Without gradients, fairseq's optimizers skip a parameter: no weight decay, no moments. ``--fp16`` steps on float32
    copies, which are skipped likewise under ``--fp16-no-flatten-grads``. Without that, one flat tensor holds them all,
    which decays in any case; there the copy is put back. Its Adam has counted the steps, though, so that the first
    steps afterwards are larger: with betas of (0.9, 0.98) up to 1.55 times.
    """
    for parameter in parameters:
        parameter.grad = None
    saved: list[tuple[Tensor, Tensor]] = []
    if isinstance(optimizer, FP16Optimizer):
        wanted = {id(parameter) for parameter in parameters}
        if isinstance(optimizer.fp32_params, dict):
            (flat,) = optimizer.fp32_params.values()
            parts = flat.data.split([parameter.numel() for parameter in optimizer.fp16_params])
            for parameter, part in zip(optimizer.fp16_params, parts, strict=True):
                if id(parameter) in wanted:
                    saved += [(tensor, tensor.clone()) for tensor in (part, parameter.data)]
        else:
            for parameter, copy in zip(optimizer.fp16_params, optimizer.fp32_params, strict=True):
                if id(parameter) in wanted:
                    copy.grad = None
    yield
    for tensor, before in saved:
        tensor.copy_(before)

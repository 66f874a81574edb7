"""The norm of all gradients at once, on their own device.

What is wrong: fairseq, unless it finds apex, computes the norm of gradients one parameter after the other, that is by
hundreds of small kernels on a GPU. And it moves these norms to a GPU wherever there is one, also under ``--cpu``. Then
``--clip-norm`` ends in "scalar tensor is expected to be on cpu but is on cuda:0" (torch 2.11).
https://github.com/facebookresearch/fairseq/blob/main/fairseq/utils.py (``clip_grad_norm_``), since
https://github.com/facebookresearch/fairseq/pull/4904

The repair: torch's ``_foreach_norm`` takes the place that fairseq has for apex's function. On a CPU the norm is
bit-identical.
"""

from __future__ import annotations

import torch
from fairseq import utils
from torch import Tensor


def compute_at_once() -> None:
    """Make fairseq compute the norm of gradients by one function, unless apex has one."""
    if not utils.multi_tensor_l2norm_available:
        utils.multi_tensor_l2norm_available = True
        utils.multi_tensor_total_norm = total_norm


def total_norm(gradients: list[Tensor]) -> Tensor:
    """Euclidean norm of all `gradients`, a float32 scalar on the device of the first of them."""
    norms = torch._foreach_norm(gradients, 2, dtype=torch.float32)
    return torch.linalg.vector_norm(torch.stack([norm.to(gradients[0].device) for norm in norms]))

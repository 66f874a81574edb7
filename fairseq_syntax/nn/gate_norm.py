"""Batch normalisation of gate logits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fairseq_syntax.nn.numerics import at_least_float32


class GateBatchNorm(nn.Module):
    """Batch normalisation of gate logits (Hou 2024, eq. 6) whose evaluation is what was trained.

    Gate logits vary little between sentences, and fairseq's batches hold sentences of like lengths. Plain batch
    normalisation divides by that little spread, so that the gates of evaluation, where running statistics stand in
    for the batch's, leave those of training: measured in docs/gate-evaluation.md. Here training normalises by the
    running statistics too, with the gradient of batch normalisation: y = x̂·r + d, where x̂ is normalised by the batch,
    and r = σ_batch/σ_running, d = (μ_batch - μ_running)/σ_running count as constants. This is batch renormalisation
    (Ioffe 2017) without clipping. ``statistics="batch"`` is the plain way, with the numbers of
    :class:`torch.nn.BatchNorm1d`.

    In any case a batch of one sentence trains, normalised by the running statistics. These stay float32 under
    ``--fp16``, move once a batch under activation checkpointing (which runs the forward pass twice, first without
    gradients), stay where they are for a logit that overflowed, and are not accompanied by an integer counter. Under
    ``--update-freq`` N a step has N batches, and they move with each; also with a batch that loss scaling skips or
    tries again.

    Args:
        num_features: the number of logits.
        statistics: by which ones training normalises, ``running`` or ``batch``.
        momentum: weight of the newest batch in the running statistics.
        eps: added to the variance.
    """

    running_mean: Tensor
    running_var: Tensor

    def __init__(
        self, num_features: int, *, statistics: str = "running", momentum: float = 0.1, eps: float = 1e-5
    ) -> None:
        super().__init__()
        self.statistics = statistics
        self.momentum = momentum
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(num_features))
        self.bias = nn.Parameter(torch.zeros(num_features))
        self.register_buffer("running_mean", torch.zeros(num_features))
        self.register_buffer("running_var", torch.ones(num_features))

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> GateBatchNorm:
        # What half(), to() and cuda() call; torch has no public method between. Here they move the statistics to
        # another device, and leave their precision.
        statistics = self.running_mean, self.running_var
        super()._apply(fn, recurse)
        self.running_mean, self.running_var = (
            before.to(device=after.device)
            for before, after in zip(statistics, (self.running_mean, self.running_var), strict=True)
        )
        return self

    def forward(self, logits: Tensor) -> Tensor:
        """Normalises logits of shape ``(batch, num_features)``; returns float32, or float64 for float64."""
        x = at_least_float32(logits)
        weight, bias = self.weight.to(x.dtype), self.bias.to(x.dtype)
        running = self.running_mean.to(x.dtype), self.running_var.to(x.dtype)
        if not self.training or len(x) == 1:
            return F.batch_norm(x, *running, weight, bias, eps=self.eps)
        var, mean = torch.var_mean(x.detach(), dim=0, correction=0)
        if self.statistics == "batch":
            normalised = F.batch_norm(x, None, None, weight, bias, training=True, eps=self.eps)
        else:
            normalised = _Renormalised.apply(x, weight, bias, *running, mean, var, self.eps)
        if torch.is_grad_enabled():
            # In place: torch.compile loses tensors that take the place of buffers.
            self._move(self.running_mean, mean)
            self._move(self.running_var, var, factor=len(x) / (len(x) - 1))
        return normalised

    def _move(self, running: Tensor, newest: Tensor, *, factor: float = 1.0) -> None:
        # A step whose loss overflows is taken back by fairseq's loss scaling; what it did here could not be.
        step_back = running.sub(newest.to(running.dtype), alpha=factor).nan_to_num_(0.0, 0.0, 0.0)
        running.sub_(step_back, alpha=self.momentum)

    @property
    def statistics_buffers(self) -> tuple[Tensor, Tensor]:
        """The running mean and variance, ``(num_features,)`` each."""
        return self.running_mean, self.running_var


class _Renormalised(torch.autograd.Function):
    """Batch normalisation by running statistics, with the gradient of that by the batch's own.

    With e = g·γ/σ_running, what normalising by constants would hand on of an incoming gradient g, it is
    e - mean(e) - x̂·mean(e·x̂).
    """

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, running_mean: Tensor, running_var: Tensor, mean: Tensor,
        var: Tensor, eps: float,
    ) -> Tensor:  # fmt: skip
        ctx.eps = eps  # the running statistics are moved before the backward pass
        ctx.save_for_backward(x, weight, running_mean.clone(), running_var.clone(), mean, var)
        return F.batch_norm(x, running_mean, running_var, weight, bias, eps=eps)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:
        x, weight, running_mean, running_var, mean, var = ctx.saved_tensors
        backward = torch.ops.aten.native_batch_norm_backward
        gradient = gradient.contiguous()
        e, of_weight, of_bias = backward(
            gradient, x, weight, running_mean, running_var, None, None, False, ctx.eps, [True, True, True]
        )
        sigma = (var + ctx.eps).sqrt()
        of_x, _, _ = backward(e, x, sigma, None, None, mean, sigma.reciprocal(), True, ctx.eps, [True, False, False])
        return of_x, of_weight, of_bias, None, None, None, None, None

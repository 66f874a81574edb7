"""Batch normalisation of gate logits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, NamedTuple

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

    In any case a batch of one sentence trains, normalised by the running statistics. How these move is in
    :class:`RunningStatistics`; they stay float32 under ``--fp16``, and are not accompanied by an integer counter.

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

    def forward(self, logits: Tensor, of_pass: RunningStatistics | None = None) -> Tensor:
        """Normalises logits.

        Args:
            logits: ``(batch, num_features)``.
            of_pass: the statistics of all gates in this pass, whose owner moves them; ``None``: the module's own move
                here, if gradients are computed.

        Returns:
            float32, or float64 for float64, in the shape of `logits`.
        """
        x = at_least_float32(logits)
        weight, bias = self.weight.to(x.dtype), self.bias.to(x.dtype)
        if not self.training or len(x) == 1:
            mean, var = self.statistics_buffers if of_pass is None else of_pass[self].before
            return F.batch_norm(x, mean.to(x.dtype), var.to(x.dtype), weight, bias, eps=self.eps)
        moving = RunningStatistics([self], x.dtype) if of_pass is None else of_pass
        before, moved = moving[self]
        if self.statistics == "batch":
            normalised = F.batch_norm(x, *moved, weight, bias, training=True, momentum=self.momentum, eps=self.eps)
        else:
            by_batch, _, _ = torch.native_batch_norm(x.detach(), None, None, *moved, True, self.momentum, self.eps)
            standard = [of_all[: x.shape[1]] for of_all in moving.standard]
            normalised = _Renormalised.apply(x, weight, bias, *before, by_batch, *standard, self.eps)
        if of_pass is None and torch.is_grad_enabled():
            moving.move()
        return normalised

    @property
    def statistics_buffers(self) -> tuple[Tensor, Tensor]:
        """The running mean and variance, ``(num_features,)`` each."""
        return self.running_mean, self.running_var


class _OfGate(NamedTuple):
    """Mean and variance of one gate, before the pass and moved by its batch."""

    before: tuple[Tensor, Tensor]
    moved: tuple[Tensor, Tensor]


class RunningStatistics:
    """The running statistics of several gates in one forward pass.

    All move at its end, at once: a GPU is asked a few times, not a few times a layer. Until then, and where activation
    checkpointing runs a layer again, gates find them as they were. They stay where they are for a logit that
    overflowed. Under ``--update-freq`` N a step has N passes, and they move with each; also with a batch that loss
    scaling skips or tries again.

    Args:
        norms: of the gates.
        dtype: of their logits.
    """

    def __init__(self, norms: Sequence[GateBatchNorm], dtype: torch.dtype = torch.float32):
        self._buffers = [buffer for norm in norms for buffer in norm.statistics_buffers]
        self._sizes = [len(buffer) for buffer in self._buffers]
        self._before, self._moved = torch.cat([*self._buffers, *self._buffers]).to(dtype).chunk(2)
        pairs = zip(self._pairs(self._before), self._pairs(self._moved), strict=True)
        self._of = {norm: _OfGate(*pair) for norm, pair in zip(norms, pairs, strict=True)}

    def __getitem__(self, norm: GateBatchNorm) -> _OfGate:
        return self._of[norm]

    @cached_property
    def standard(self) -> tuple[Tensor, Tensor]:
        """Mean and inverse deviation of what is normalised already, 0 and 1, for the largest gate."""
        return self._before.new_zeros(max(self._sizes)), self._before.new_ones(max(self._sizes))

    def move(self) -> None:
        """Moves the gates' buffers to where the pass's batch has moved them."""
        # A step whose loss overflows is taken back by fairseq's loss scaling; what it did here could not be.
        step = self._moved.sub(self._before).nan_to_num_(0.0, 0.0, 0.0).to(self._buffers[0].dtype)
        # In place: torch.compile loses tensors that take the place of buffers.
        torch._foreach_add_(self._buffers, step.split(self._sizes))

    def _pairs(self, flat: Tensor) -> list[tuple[Tensor, Tensor]]:
        means_and_variances = iter(flat.split(self._sizes))
        return list(zip(means_and_variances, means_and_variances, strict=True))


class _Renormalised(torch.autograd.Function):
    """Batch normalisation by running statistics, with the gradient of that by the batch's own.

    With e = g·γ/σ_running, what normalising by constants would hand on of an incoming gradient g, it is
    e - mean(e) - x̂·mean(e·x̂): the gradient of normalising x̂, whose mean is 0 and deviation 1, once more.
    """

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, running_mean: Tensor, running_var: Tensor, by_batch: Tensor,
        zero: Tensor, one: Tensor, eps: float,
    ) -> Tensor:  # fmt: skip
        ctx.eps = eps
        ctx.save_for_backward(x, weight, running_mean, running_var, by_batch, zero, one)
        return F.batch_norm(x, running_mean, running_var, weight, bias, eps=eps)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:
        x, weight, running_mean, running_var, by_batch, zero, one = ctx.saved_tensors
        backward = torch.ops.aten.native_batch_norm_backward
        e, of_weight, of_bias = backward(
            gradient.contiguous(), x, weight, running_mean, running_var, None, None, False, ctx.eps, [True, True, True]
        )
        of_x, _, _ = backward(e, by_batch, None, None, None, zero, one, True, ctx.eps, [True, False, False])
        return of_x, of_weight, of_bias, None, None, None, None, None, None

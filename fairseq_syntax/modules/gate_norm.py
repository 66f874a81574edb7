"""Batch normalisation of gate logits."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fairseq_syntax.modules.numerics import at_least_float32


class GateBatchNorm(nn.Module):
    """Batch normalisation of gate logits (Hou 2024, eq. 6) whose evaluation is what was trained.

    Gate logits vary little between sentences, and plain batch normalisation divides by that little spread: gates in
    evaluation, by running statistics, differ from those in training (docs/results.md). Here training normalises by
    the running statistics too, with the gradient of batch normalisation: y = x̂·r + d, where x̂ is normalised by the
    batch, and r = σ_batch/σ_running, d = (μ_batch - μ_running)/σ_running count as constants. This is batch
    renormalisation (Ioffe 2017) without clipping. ``statistics="batch"`` is :class:`torch.nn.BatchNorm1d`.

    A batch of one sentence is normalised by the running statistics in any case. :class:`StepStatistics` moves these, by
    all passes of a step; they stay float32 under ``--fp16``. Means in the gradient, and under ``statistics="batch"``
    the normalisation, are of one pass alone, so N passes train gates nearly as a batch N times as large.

    Args:
        num_features: the number of logits.
        statistics: by which training normalises, ``running`` or ``batch``.
        momentum: weight of the newest step in the running statistics.
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
        # half(), to() and cuda() call this; torch has no public method between. Here they move the statistics to
        # another device, and keep their precision.
        statistics = self.running_mean, self.running_var
        super()._apply(fn, recurse)
        self.running_mean, self.running_var = (
            before.to(device=after.device)
            for before, after in zip(statistics, (self.running_mean, self.running_var), strict=True)
        )
        return self

    def forward(self, logits: Tensor, statistics: RunningStatistics | None = None) -> Tensor:
        """Normalise logits.

        Args:
            logits: ``(batch, num_features)``.
            statistics: of all gates in this pass, which record the logits, to be moved by later; ``None``: the
                module's own move here, if gradients are computed.

        Returns:
            float32, or float64 for float64, in the shape of `logits`.
        """
        x = at_least_float32(logits)
        weight, bias = self.weight.to(x.dtype), self.bias.to(x.dtype)
        if not self.training:
            mean, var = self.statistics_buffers if statistics is None else statistics[self]
            return F.batch_norm(x, mean.to(x.dtype), var.to(x.dtype), weight, bias, eps=self.eps)
        found = RunningStatistics([self], x.dtype) if statistics is None else statistics
        found.record(self, x)
        if len(x) == 1:
            normalised = F.batch_norm(x, *found[self], weight, bias, eps=self.eps)
        elif self.statistics == "batch":
            normalised = F.batch_norm(x, None, None, weight, bias, training=True, eps=self.eps)
        else:
            by_batch, _, _ = torch.native_batch_norm(x.detach(), None, None, None, None, True, 0.0, self.eps)
            standard = [of_all[: x.shape[1]] for of_all in found.standard]
            centred = _CentredGradient.apply(x, by_batch, *standard, self.eps)
            normalised = F.batch_norm(centred, *found[self], weight, bias, eps=self.eps)
        if statistics is None and torch.is_grad_enabled():
            StepStatistics([self]).end_pass(found)
        return normalised

    @property
    def statistics_buffers(self) -> tuple[Tensor, Tensor]:
        """The running mean and variance, ``(num_features,)`` each."""
        return self.running_mean, self.running_var


class RunningStatistics:
    """Gates' running statistics in one forward pass, and the logits of that pass.

    Statistics are copies: a layer that activation checkpointing runs again, after the buffers have moved, finds them
    unchanged. Of its logits the first run's count.

    Args:
        norms: of the gates.
        dtype: of their logits, ``(batch, num_features)`` each.
    """

    def __init__(self, norms: Sequence[GateBatchNorm], dtype: torch.dtype = torch.float32):
        buffers = [buffer for norm in norms for buffer in norm.statistics_buffers]
        self._flat = torch.cat(buffers).to(dtype)
        parts = iter(self._flat.split([len(buffer) for buffer in buffers]))
        self._of = dict(zip(norms, zip(parts, parts, strict=True), strict=True))
        self.logits: dict[GateBatchNorm, Tensor] = {}

    def __getitem__(self, norm: GateBatchNorm) -> tuple[Tensor, Tensor]:
        """Mean and variance of a gate, ``(num_features,)`` each."""
        return self._of[norm]

    @cached_property
    def standard(self) -> tuple[Tensor, Tensor]:
        """Mean 0 and inverse deviation 1 of normalised logits, for the largest gate."""
        largest = max(len(mean) for mean, _ in self._of.values())
        return self._flat.new_zeros(largest), self._flat.new_ones(largest)

    def record(self, norm: GateBatchNorm, logits: Tensor) -> None:
        """Keep a gate's logits, ``(batch, num_features)``."""
        self.logits.setdefault(norm, logits.detach())


class StepStatistics:
    """Mover of gates' running statistics, once an optimizer step, by all its passes.

    With μ and σ² the mean and the unbiased variance over all sentences of a step, of all its passes and processes, and
    m the momentum, a running mean r becomes r + m·(μ - r), and a running variance v becomes v + m·(σ² - v). A gate that
    saw one sentence alone in the whole step does not move, nor does a logit that overflowed. A pass is a step of its
    own unless it runs inside :meth:`within_step`.

    Args:
        norms: of the gates.
    """

    def __init__(self, norms: Sequence[GateBatchNorm]):
        self.norms = tuple(norms)
        self._passes: list[dict[GateBatchNorm, Tensor]] = []
        self._moves_each_pass = True
        self._counts = True

    @contextmanager
    def within_step(self, *, counts: bool) -> Iterator[None]:
        """Hold back the passes in the block until :meth:`move` ends their step.

        If a pass fails, those before it are forgotten too, as fairseq throws away their gradients.

        Args:
            counts: passes in the block are part of the step.
        """
        self._moves_each_pass, self._counts = False, counts
        try:
            yield
        except BaseException:
            self.clear()
            raise
        finally:
            self._moves_each_pass = self._counts = True

    def end_pass(self, statistics: RunningStatistics) -> None:
        """Take the logits of a pass."""
        if self._counts:
            self._passes.append(statistics.logits)
        if self._moves_each_pass:
            self.move()

    def clear(self) -> None:
        """Forget the passes since the last step."""
        self._passes = []

    def move(self, all_reduce: Callable[[Tensor], object] | None = None) -> None:
        """End a step: move the buffers.

        Args:
            all_reduce: sums a tensor over all processes, in place; ``None``: there is one process.
        """
        passes, self._passes = self._passes, []
        moments = self._moments(passes)
        if all_reduce is not None and self.norms:
            moments = self._of_all_processes(moments, all_reduce)
        moving = [(norm, *moments[norm][1:]) for norm in self.norms if moments[norm][0] > 1]
        if not moving:
            return
        buffers = [buffer for norm, _, _ in moving for buffer in norm.statistics_buffers]
        targets = [target for _, mean, var in moving for target in (mean, var)]
        steps = torch.cat(torch._foreach_sub(targets, buffers)).nan_to_num_(0.0, 0.0, 0.0).to(buffers[0].dtype)
        parts = list(steps.split([len(buffer) for buffer in buffers]))
        torch._foreach_mul_(parts, [norm.momentum for norm, _, _ in moving for _ in range(2)])
        # In place: torch.compile loses tensors that take the place of buffers.
        torch._foreach_add_(buffers, parts)

    def _moments(self, passes: Sequence[Mapping[GateBatchNorm, Tensor]]) -> dict[GateBatchNorm, _Moments]:
        """Moments of each gate over these passes; gates that ran in the same ones are taken together."""
        groups: dict[tuple[int, ...], list[GateBatchNorm]] = {}
        for norm in self.norms:
            groups.setdefault(tuple(i for i, logits in enumerate(passes) if norm in logits), []).append(norm)
        found: dict[GateBatchNorm, _Moments] = {}
        for numbers, norms in groups.items():
            if not numbers:  # layer drop left them out, or a process had no batch
                found |= {norm: _Moments(0, *map(torch.zeros_like, norm.statistics_buffers)) for norm in norms}
                continue
            x = _joined([_joined([passes[i][norm] for norm in norms], dim=1) for i in numbers], dim=0)
            var, mean = torch.var_mean(x, dim=0, correction=min(1, len(x) - 1))
            sizes = [len(norm.running_mean) for norm in norms]
            for norm, of_mean, of_var in zip(norms, mean.split(sizes), var.split(sizes), strict=True):
                found[norm] = _Moments(len(x), of_mean, of_var)
        return found

    def _of_all_processes(
        self, moments: Mapping[GateBatchNorm, _Moments], all_reduce: Callable[[Tensor], object]
    ) -> dict[GateBatchNorm, _Moments]:
        """Moments of each gate over all processes, by one sum of n, Σx and Σx² in float64."""
        columns = []
        for norm in self.norms:
            n, mean, var = moments[norm]
            mean, var = mean.double(), var.double()
            columns.append(torch.stack([torch.full_like(mean, n), n * mean, max(n - 1, 0) * var + n * mean.square()]))
        sums = torch.cat(columns, dim=1)
        all_reduce(sums)
        n, total, squares = sums
        n = n.masked_fill(n < 2, torch.nan)  # too few: nothing moves
        mean = total / n
        var = ((squares - total * mean) / (n - 1)).clamp(min=0.0)
        sizes = [len(norm.running_mean) for norm in self.norms]
        # The host does not wait to learn how many sentences there are: 2 lets all gates move, NaN none.
        return {
            norm: _Moments(2, *pair)
            for norm, *pair in zip(self.norms, mean.split(sizes), var.split(sizes), strict=True)
        }


class _Moments(NamedTuple):
    """Number of sentences, mean, and unbiased variance (of one sentence 0), of a gate."""

    n: int
    mean: Tensor
    var: Tensor


def _joined(tensors: Sequence[Tensor], *, dim: int) -> Tensor:
    """As ``torch.cat``, which copies even a single tensor."""
    return torch.cat(tuple(tensors), dim) if len(tensors) > 1 else tensors[0]


class _CentredGradient(torch.autograd.Function):
    """The identity of logits x, whose gradient is that of normalisation by the batch.

    With e the gradient of what normalises x by constants, it is e - mean(e) - x̂·mean(e·x̂): the gradient of normalising
    x̂, whose mean is 0 and deviation 1, once more.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, by_batch: Tensor, zero: Tensor, one: Tensor, eps: float) -> Tensor:
        ctx.eps = eps
        ctx.save_for_backward(by_batch, zero, one)
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:
        by_batch, zero, one = ctx.saved_tensors
        of_x, _, _ = torch.ops.aten.native_batch_norm_backward(
            gradient.contiguous(), by_batch, None, None, None, zero, one, True, ctx.eps, [True, False, False]
        )
        return of_x, None, None, None, None

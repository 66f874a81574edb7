"""The gate: how much each head listens to each syntax mask, sentence by sentence."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
import torch.nn.functional as F
from fairseq.distributed import utils as distributed_utils
from fairseq.modules import LayerNorm
from torch import Tensor, nn
from torch.func import functional_call

from fairseq_syntax.nn.numerics import at_least_float32, hiding, no_autocast


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
        scale = (self.running_var + self.eps).rsqrt()
        if self.training and len(x) > 1:
            var, mean = torch.var_mean(x, dim=0, correction=0)
            normalised = (x - mean) * (var + self.eps).rsqrt()
            if self.statistics == "running":
                r, d = (var + self.eps).sqrt() * scale, (mean - self.running_mean) * scale
                normalised = normalised * r.detach() + d.detach()
            if torch.is_grad_enabled():
                self._move(mean.detach(), var.detach() * (len(x) / (len(x) - 1)))
        else:
            normalised = (x - self.running_mean) * scale
        return normalised * self.weight + self.bias

    def _move(self, mean: Tensor, var: Tensor) -> None:
        # A step whose loss overflows is taken back by fairseq's loss scaling; what it did here could not be.
        finite = mean.isfinite() & var.isfinite()
        for running, newest in ((self.running_mean, mean), (self.running_var, var)):
            running.lerp_(torch.where(finite, newest.to(running), running), self.momentum)


class _Still(torch.autograd.Function):
    """A parameter as it is; its gradient is exactly 0, whatever comes in."""

    @staticmethod
    def forward(ctx: Any, parameter: Tensor) -> Tensor:
        return parameter.view_as(parameter)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        return torch.zeros_like(gradient)


class SyntaxGate(nn.Module):
    """Mixing weights of the syntax masks, one a head and mask (Hou 2024, eq. 4-6).

    T = max of the input over the sentence's real positions; O = W2·LayerNorm(ReLU(W1·T + b1)) + b2. With one
    mask G = σ(BatchNorm(O)); with k masks G = softmax over [0, BatchNorm(O)_1 … BatchNorm(O)_k], which for k = 1
    is the same σ. What is left, 1 - ΣG, is the weight of global attention.

    Args:
        embed_dim: width of the input.
        hidden_dim: width of the hidden layer.
        num_heads: how many heads have gates.
        num_masks: how many masks each of them chooses from.
        batch_norm: by which statistics the logits are batch-normalised in training, ``running`` or ``batch``, or
            ``None``: they are not.
        batch_norm_eps: what :class:`GateBatchNorm` adds to the variance.
    """

    def __init__(
        self,
        *,
        embed_dim: int,
        hidden_dim: int,
        num_heads: int,
        num_masks: int,
        batch_norm: str | None = "running",
        batch_norm_eps: float = 1e-5,
    ):
        super().__init__()
        self.num_heads = num_heads
        self.num_masks = num_masks
        self.fc1 = nn.Linear(embed_dim, hidden_dim)
        self.layer_norm = LayerNorm(hidden_dim)
        self.fc2 = nn.Linear(hidden_dim, num_masks * num_heads)
        self.batch_norm = (
            GateBatchNorm(num_masks * num_heads, statistics=batch_norm, eps=batch_norm_eps) if batch_norm else None
        )
        #: During pre-warmup: the parameters get gradients of exactly 0 (not none, so that distributed data parallel
        #: sees them used); the input gets its own.
        self.frozen = False

    def _call(self, module: nn.Module, x: Tensor) -> Tensor:
        """One of the gate's modules on `x`, its parameters still if they are to be."""
        if not self.frozen:
            return module(x)
        return functional_call(module, {name: _Still.apply(p) for name, p in module.named_parameters()}, x)

    def forward(self, x: Tensor, padding_mask: Tensor | None) -> Tensor:
        """Computes the weights.

        Args:
            x: the attention's query input, ``(n, batch, embed_dim)``.
            padding_mask: true at padding, ``(batch, n)``; ``None`` where there is none.

        Returns:
            G, ``(batch, num_masks, num_heads)``, float32, or float64 for float64.
        """
        if padding_mask is not None:
            x = x + hiding(padding_mask, x.dtype).t().unsqueeze(2)
        # The same number: the one has the faster gradient, the other is faster without.
        pooled = x.max(dim=0).values if torch.is_grad_enabled() else x.amax(dim=0)
        hidden = self._call(self.layer_norm, F.relu(self._call(self.fc1, pooled)))
        weight, bias = self.fc2.weight, self.fc2.bias
        if self.frozen:
            weight, bias = _Still.apply(weight), _Still.apply(bias)
        with no_autocast(x.device):  # batch normalisation divides by what is small beside the logits' own rounding
            logits = F.linear(*map(at_least_float32, (hidden, weight, bias)))
        if self.batch_norm is not None:
            logits = self._call(self.batch_norm, logits)
        logits = logits.view(-1, self.num_masks, self.num_heads)
        return F.pad(logits, (0, 0, 1, 0)).softmax(dim=1)[:, 1:]


def reorder_masks(state: dict[str, Tensor], order: Sequence[int]) -> None:
    """Sorts what gates in a model's state have of each mask: the i-th mask will be the one that is ``order[i]`` now.

    Weights that have no such parts are left alone: loading them names them.
    """
    for name, weight in state.items():
        of_gate = re.search(r"\.gate\.(fc2|batch_norm)\.\w+$", name)
        if of_gate and weight.dim() and weight.shape[0] % len(order) == 0:
            state[name] = weight.unflatten(0, (len(order), -1))[list(order)].flatten(0, 1)


def _statistics(gates: Iterable[SyntaxGate]) -> list[Tensor]:
    norms = [gate.batch_norm for gate in gates if gate.batch_norm is not None]
    return [buffer for norm in norms for buffer in (norm.running_mean, norm.running_var)]


@contextmanager
def kept_statistics(gates: Iterable[SyntaxGate]) -> Iterator[None]:
    """After the block, the running statistics are what they were before it."""
    before = [(statistic, statistic.clone()) for statistic in _statistics(gates)]
    yield
    for statistic, value in before:
        statistic.copy_(value)


def average_statistics(gates: Iterable[SyntaxGate]) -> None:
    """Under data parallel training, gives all ranks the mean of their running statistics, in one small all-reduce.

    After it evaluation, checkpoints, and a step that normalises by running statistics use the same on all ranks.
    What a step takes from a batch, it takes from its rank's own.
    """
    world_size = distributed_utils.get_data_parallel_world_size()
    statistics = _statistics(gates)
    if world_size == 1 or not statistics:
        return
    flat = torch.cat(statistics)
    distributed_utils.all_reduce(flat, group=distributed_utils.get_data_parallel_group())
    flat /= world_size
    for statistic, mean in zip(statistics, flat.split([len(statistic) for statistic in statistics]), strict=True):
        statistic.copy_(mean)

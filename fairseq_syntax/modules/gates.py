"""Weights of experts: gates, and mixtures without parameters."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import functional_call

from fairseq_syntax.modules.gate_norm import GateBatchNorm, RunningStatistics
from fairseq_syntax.modules.numerics import at_least_float32, no_autocast

#: How experts may be mixed: by gates, each head's own for the sentence, or each token's own for all heads; the mean of
#: A_0 and all A_k; the mean of all A_k (Hou 2024, Table 6); one A, of the sum of all biases and the product of all
#: factors, that is of the product of all masks.
COMBINATIONS = ("gate", "token-gate", "average", "pure", "product")

#: Combinations by gates.
GATED = ("gate", "token-gate")

#: Combinations in which global attention has a weight.
GLOBAL_COMBINATIONS = (*GATED, "average")


class _ZeroGrad(torch.autograd.Function):
    """A parameter as it is; its gradient is exactly 0, for any incoming one."""

    @staticmethod
    def forward(ctx: Any, parameter: Tensor) -> Tensor:
        return parameter.view_as(parameter)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        return torch.zeros_like(gradient)


class Gate(nn.Module):
    """Base class of gates: weights of experts by the layer's input."""

    def __init__(self) -> None:
        super().__init__()
        #: Normalises the logits, if a gate has it.
        self.batch_norm: GateBatchNorm | None = None
        #: During pre-warmup: the parameters get gradients of exactly 0 (not none, so that distributed data parallel
        #: sees them used); the input gets its own.
        self.frozen = False

    def forward(self, x: Tensor, padding_bias: Tensor | None, statistics: RunningStatistics | None = None) -> Tensor:
        """Return 1 - ΣG of global attention, and G of each syntax expert.

        They are ``(batch, 1 + num_masks, num_heads)``, or with n queries after them, in float32 at least.

        Args:
            x: the attention's input, ``(n, batch, embed_dim)``.
            padding_bias: of :meth:`~fairseq_syntax.modules.biases.BatchBiases.padding_bias`.
            statistics: see :class:`~fairseq_syntax.modules.gate_norm.GateBatchNorm`.
        """
        raise NotImplementedError

    def _call(self, module: nn.Module, *inputs: Any) -> Tensor:
        """Call one of the gate's modules; if the gate is frozen, its parameters get gradients of 0."""
        if not self.frozen:
            return module(*inputs)
        return functional_call(module, {name: _ZeroGrad.apply(p) for name, p in module.named_parameters()}, inputs)


class SyntaxGate(Gate):
    """Weights of syntax experts, one a head and expert (Hou 2024, eq. 4-6).

    T = max of the input over the sentence's real positions; O = W2·LayerNorm(ReLU(W1·T + b1)) + b2. With k experts
    G = softmax over [0, BatchNorm(O)_1 … BatchNorm(O)_k], which for k = 1 is the paper's σ(BatchNorm(O)).

    Args:
        embed_dim: width of the input.
        hidden_dim: width of the hidden layer.
        num_heads: number of heads, each with gates of its own.
        num_masks: number of syntax experts.
        batch_norm: statistics that normalise the logits in training, ``running`` or ``batch``; ``None``: no batch
            normalisation.
        batch_norm_eps: added to the variance by :class:`GateBatchNorm`.
        output_bias: there is b2.
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
        output_bias: bool = True,
    ):
        super().__init__()
        self.num_heads = num_heads
        self.num_masks = num_masks
        self.fc1 = nn.Linear(embed_dim, hidden_dim)
        self.layer_norm = nn.LayerNorm(hidden_dim)
        self.fc2 = nn.Linear(hidden_dim, num_masks * num_heads, bias=output_bias)
        if batch_norm:
            self.batch_norm = GateBatchNorm(num_masks * num_heads, statistics=batch_norm, eps=batch_norm_eps)

    def forward(self, x: Tensor, padding_bias: Tensor | None, statistics: RunningStatistics | None = None) -> Tensor:
        """See :class:`Gate`; ``(batch, 1 + num_masks, num_heads)``."""
        if padding_bias is not None:
            x = x + padding_bias[:, 0, 0].t().unsqueeze(2)
        # The gradient of max is the faster one, and without gradients amax, which finds no indices.
        pooled = x.max(dim=0).values if torch.is_grad_enabled() else x.amax(dim=0)
        inner = self._call(self.layer_norm, F.relu(self._call(self.fc1, pooled)))
        weight, bias = self.fc2.weight, self.fc2.bias
        if self.frozen:
            weight, bias = _ZeroGrad.apply(weight), None if bias is None else _ZeroGrad.apply(bias)
        with no_autocast(x.device):  # batch normalisation divides by what is small beside the logits' own rounding
            wide = at_least_float32(inner), at_least_float32(weight)
            logits = F.linear(*wide, None if bias is None else at_least_float32(bias))
        if self.batch_norm is not None:
            logits = self._call(self.batch_norm, logits, statistics)
        return F.pad(logits.view(-1, self.num_masks, self.num_heads), (0, 0, 1, 0)).softmax(dim=1)


class TokenGate(Gate):
    """Weights of syntax experts, one a token and expert, the same for all heads (Li et al. 2021).

    With k experts G_i = softmax over [0, w_1·h_i + b_1 … w_k·h_i + b_k], for k = 1 σ(w·h_i + b); h is the
    attention's input.

    Args:
        embed_dim: width of the input.
        num_heads: number of heads that mix experts.
        num_masks: number of syntax experts.
    """

    def __init__(self, *, embed_dim: int, num_heads: int, num_masks: int):
        super().__init__()
        self.num_heads = num_heads
        self.linear = nn.Linear(embed_dim, num_masks)
        nn.init.normal_(self.linear.weight, std=0.02)
        nn.init.zeros_(self.linear.bias)

    def forward(self, x: Tensor, padding_bias: Tensor | None, statistics: RunningStatistics | None = None) -> Tensor:
        """See :class:`Gate`; ``(batch, 1 + num_masks, num_heads, n)``."""
        logits = at_least_float32(self._call(self.linear, x))
        of_tokens = F.pad(logits, (1, 0)).softmax(dim=2)
        return of_tokens.permute(1, 2, 0).unsqueeze(2).expand(-1, -1, self.num_heads, -1)


def uniform_weights(combination: str, *, masks: int, heads: int, like: Tensor) -> Tensor:
    """Return equal weights of all experts, ``(batch, experts, heads)``.

    Args:
        combination: one of :data:`COMBINATIONS`.
        masks: number of syntax experts; a product is one, and there may be none.
        heads: number of heads that mix experts.
        like: ``(n, batch, embed_dim)``, whose batch and device the weights take.
    """
    experts = masks + (combination in GLOBAL_COMBINATIONS)
    return torch.full((like.shape[1], experts, heads), 1.0 / max(1, experts), device=like.device)

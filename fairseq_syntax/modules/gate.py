"""The gate: how much each head listens to each syntax mask, sentence by sentence."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from fairseq.modules import LayerNorm
from torch import Tensor, nn


class GateBatchNorm(nn.Module):
    """Batch normalisation of gate logits (Hou 2024, eq. 6), made to survive every way fairseq trains.

    Differs from :class:`torch.nn.BatchNorm1d` in that a batch of one sentence is normalised by the running
    statistics, which stay float32 under ``--fp16``, move once a batch under activation checkpointing (which
    runs the forward pass twice, first without gradients), and are not accompanied by an integer counter. Under
    ``--update-freq`` N a step has N batches, and the statistics move with each.

    Args:
        num_features: the number of logits.
        momentum: weight of the newest batch in the running statistics.
        eps: added to the variance.
    """

    running_mean: Tensor
    running_var: Tensor

    def __init__(self, num_features: int, *, momentum: float = 0.1, eps: float = 1e-5):
        super().__init__()
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
        """Normalises logits of shape ``(batch, num_features)``; returns float32."""
        by_batch = self.training and len(logits) > 1
        moving = by_batch and torch.is_grad_enabled()
        return F.batch_norm(
            logits.float(),
            self.running_mean if moving or not by_batch else None,
            self.running_var if moving or not by_batch else None,
            self.weight.float(),
            self.bias.float(),
            training=by_batch,
            momentum=self.momentum,
            eps=self.eps,
        )


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
        batch_norm: whether the logits are batch-normalised.
    """

    def __init__(
        self,
        *,
        embed_dim: int,
        hidden_dim: int,
        num_heads: int,
        num_masks: int,
        batch_norm: bool = True,
    ):
        super().__init__()
        self.num_heads = num_heads
        self.num_masks = num_masks
        self.fc1 = nn.Linear(embed_dim, hidden_dim)
        self.layer_norm = LayerNorm(hidden_dim)
        self.fc2 = nn.Linear(hidden_dim, num_masks * num_heads)
        self.batch_norm = GateBatchNorm(num_masks * num_heads) if batch_norm else None
        #: During pre-warmup: the parameters get gradients of exactly 0 (not none, so that distributed data parallel
        #: sees them used); the input gets its own.
        self.frozen = False
        for parameter in self.parameters():
            parameter.register_hook(self._zero_if_frozen)

    def _zero_if_frozen(self, gradient: Tensor) -> Tensor | None:
        return torch.zeros_like(gradient) if self.frozen else None

    def forward(self, x: Tensor, padding_mask: Tensor | None) -> Tensor:
        """Computes the weights.

        Args:
            x: the attention's query input, ``(n, batch, embed_dim)``.
            padding_mask: true at padding, ``(batch, n)``; ``None`` where there is none.

        Returns:
            G, float32, ``(batch, num_masks, num_heads)``.
        """
        if padding_mask is not None:
            x = x.masked_fill(padding_mask.t().unsqueeze(2), -torch.inf)
        pooled = x.amax(dim=0)
        logits = self.fc2(self.layer_norm(F.relu(self.fc1(pooled)))).float()
        if self.batch_norm is not None:
            logits = self.batch_norm(logits)
        logits = logits.view(-1, self.num_masks, self.num_heads)
        return F.pad(logits, (0, 0, 1, 0)).softmax(dim=1)[:, 1:]

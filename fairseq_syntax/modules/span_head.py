"""Logits of the first and the last token of an answer, at each position."""

from __future__ import annotations

import logging
from typing import Any

import torch
from torch import Tensor, nn

logger = logging.getLogger(__name__)


class SpanHead(nn.Linear):
    """A linear layer from states, ``(batch, n, width)``, to logits, ``(batch, n, 2)``.

    Weights are drawn as BERT's. Where a checkpoint has none, they stay as they are.
    """

    def __init__(self, width: int):
        super().__init__(width, 2)
        nn.init.normal_(self.weight, std=0.02)
        nn.init.zeros_(self.bias)

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *args: Any, **kwargs: Any) -> None:
        if not any(name.startswith(prefix) for name in state_dict):
            logger.info("%s starts fresh: the checkpoint has none", prefix.rstrip("."))
            state_dict.update(self.state_dict(prefix=prefix))
        super()._load_from_state_dict(state_dict, prefix, *args, **kwargs)


class HeadOfPositions(nn.Module):
    """A classification head that reads the states of all positions.

    Its parameters are elsewhere in the model: fairseq expects others of classification heads in a checkpoint.
    """

    reads_positions = True

    def __init__(self, head: SpanHead):
        super().__init__()
        self._head = (head,)  # hidden from torch

    def forward(self, states: Tensor) -> Tensor:
        logits: Tensor = self._head[0](states)
        return logits


def add_span_head(model: Any, name: str) -> None:
    """Add a span head to a RoBERTa, as the classification head of this name."""
    head = SpanHead(model.args.encoder_embed_dim)
    model.span_heads = nn.ModuleDict({name: head})
    model.classification_heads[name] = HeadOfPositions(head)


def span_logits(logits: Tensor, passage: Tensor) -> Tensor:
    """Return logits, ``(batch, n, 2)``, with −∞ outside the passage and ``<s>``.

    Args:
        passage: the position of its first token, and that after its last, ``(batch, 2)``.
    """
    position = torch.arange(logits.shape[1], device=logits.device)
    inside = (position >= passage[:, :1]) & (position < passage[:, 1:])
    return logits.masked_fill(~(inside | (position == 0)).unsqueeze(2), -torch.inf)

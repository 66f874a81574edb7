"""Shifted positions, and variants of the buckets of paths, for depth: a ``--user-dir``.

Tried and not chosen (docs/results.md).
"""

from __future__ import annotations

import argparse
from typing import Any

import torch
import torch.nn.functional as F
from fairseq import utils
from fairseq.models import ARCH_CONFIG_REGISTRY, register_model, register_model_architecture
from fairseq.modules import SinusoidalPositionalEmbedding
from torch import Tensor

import fairseq_syntax  # noqa: F401  (the task and the models)
from fairseq_syntax.models.transformer import SyntaxTransformerModel
from fairseq_syntax.modules.biases import TreePath, register_syntax_bias


@register_syntax_bias("tree_path_8")
class LongPath(TreePath):
    """`tree_path` with up to 8 steps up and down; words of the grammar are at most 7 below the root."""

    max_steps = 8


@register_syntax_bias("tree_path_2")
class ShortPath(TreePath):
    """`tree_path` with up to 2 steps up and down, so that deep sentences need no bucket that shallow ones have not."""

    max_steps = 2


@register_model("position_variants")
class PositionVariants(SyntaxTransformerModel):
    """The syntax Transformer with shifted absolute positions."""

    @classmethod
    def add_args(cls, parser: argparse.ArgumentParser) -> None:
        super().add_args(parser)
        parser.add_argument("--shift-positions", type=int, default=0, help="largest random offset in training")

    @classmethod
    def build_model(cls, args: Any, task: Any) -> PositionVariants:
        model = super().build_model(args, task)
        if args.shift_positions:
            for part in (model.encoder, model.decoder):
                part.embed_positions = ShiftedPositions(part.embed_positions, args.shift_positions)
        return model


for size in ("", "_tiny"):
    defaults = ARCH_CONFIG_REGISTRY[f"tree_bias_transformer{size}"]
    register_model_architecture("position_variants", f"position_variants_transformer{size}")(defaults)


class ShiftedPositions(SinusoidalPositionalEmbedding):
    """Absolute positions that count from a random number in training (SHAPE, Kiyono et al. 2021), and from 0 after it.

    It is drawn for each sentence and side.
    """

    weights: Tensor

    def __init__(self, like: SinusoidalPositionalEmbedding, largest: int):
        super().__init__(like.embedding_dim, like.padding_idx)
        self.largest = largest

    def forward(self, input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        if not self.training:
            return super().forward(input, *args, **kwargs)
        pad = self.padding_idx
        positions = utils.make_positions(input, pad)
        offset = torch.randint(self.largest + 1, (len(input), 1), device=input.device)
        if (rows := pad + 1 + input.shape[1] + self.largest) > len(self.weights):
            self.weights = self.get_embedding(rows, self.embedding_dim, pad).to(self.weights)
        return F.embedding(torch.where(positions == pad, pad, positions + offset), self.weights)

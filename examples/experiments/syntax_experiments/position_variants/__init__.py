"""Variants of positions, and of the buckets of paths, for depth and multi30k_en_de_positions: a ``--user-dir``.

Tried and not chosen (docs/results.md).
"""

from __future__ import annotations

import argparse
from typing import Any

import torch
import torch.nn.functional as F
from fairseq import utils
from fairseq.models import ARCH_CONFIG_REGISTRY, register_model, register_model_architecture
from fairseq.modules import MultiheadAttention, SinusoidalPositionalEmbedding
from torch import Tensor, nn

import fairseq_syntax  # noqa: F401  (the task and the models)
from fairseq_syntax.models.transformer import SyntaxTransformerModel
from fairseq_syntax.modules.biases import RelativePosition, TreePath, register_syntax_bias


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
    """The syntax Transformer with absolute positions on one side alone or shifted, or relative ones in the decoder."""

    @classmethod
    def add_args(cls, parser: argparse.ArgumentParser) -> None:
        super().add_args(parser)
        sides = ("both", "encoder", "decoder", "none")
        add = parser.add_argument
        add("--absolute-positions", choices=sides, default="both", help="sides with sinusoidal positions")
        add("--shift-positions", type=int, default=0, help="largest random offset of positions in training")
        add("--decoder-position-bias", action="store_true", default=False, help="relative positions in the decoder")

    @classmethod
    def build_model(cls, args: Any, task: Any) -> PositionVariants:
        model = super().build_model(args, task)
        for side in ("encoder", "decoder"):
            part = getattr(model, side)
            if args.absolute_positions not in ("both", side):
                part.embed_positions = None
            elif args.shift_positions:
                part.embed_positions = ShiftedPositions(part.embed_positions, args.shift_positions)
        if args.decoder_position_bias:
            for layer in model.decoder.layers:
                layer.self_attn = PositionBiasAttention(layer.self_attn)
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


class PositionBiasAttention(MultiheadAttention):
    """The decoder's self-attention with a learned bias by relative position.

    Args:
        like: fairseq's, whose projections it has.
    """

    def __init__(self, like: MultiheadAttention):
        super().__init__(like.embed_dim, like.num_heads, self_attention=True)
        for name, module in like.named_children():
            setattr(self, name, module)
        sizes = {"heads": self.num_heads, "head_dim": self.head_dim, "embed_dim": self.embed_dim}
        self.position_bias: nn.Module = RelativePosition().build_layer_module(**sizes)

    def forward(
        self,
        query: Tensor,
        key: Tensor | None,
        value: Tensor | None,
        key_padding_mask: Tensor | None = None,
        incremental_state: dict[str, Any] | None = None,
        need_weights: bool = True,
        static_kv: bool = False,
        attn_mask: Tensor | None = None,
        before_softmax: bool = False,
        need_head_weights: bool = False,
    ) -> tuple[Tensor, None]:
        """As fairseq's, without weights; keys and values are those of `query`."""
        n, batch, _ = query.shape
        parts = (project(query) for project in (self.q_proj, self.k_proj, self.v_proj))
        q, k, v = (part.view(n, batch, self.num_heads, -1).permute(1, 2, 0, 3) for part in parts)
        if incremental_state is not None:
            if saved := self._get_input_buffer(incremental_state):
                k, v = torch.cat([saved["prev_key"], k], dim=2), torch.cat([saved["prev_value"], v], dim=2)
            self._set_input_buffer(incremental_state, {"prev_key": k, "prev_value": v})
        indices = torch.arange(k.shape[2], device=k.device).unsqueeze(0)
        mask = self.position_bias(RelativePosition().bias(indices)).bias[:, :, -n:]
        if attn_mask is not None:
            mask = mask + attn_mask
        if key_padding_mask is not None and incremental_state is None:  # a beam has no padding
            mask = mask.masked_fill(key_padding_mask[:, None, None], -torch.inf)
        dropout = self.dropout_module.p if self.training else 0.0
        output = F.scaled_dot_product_attention(q, k, v, mask.to(q), dropout_p=dropout)
        return self.out_proj(output.permute(2, 0, 1, 3).reshape(n, batch, self.embed_dim)), None

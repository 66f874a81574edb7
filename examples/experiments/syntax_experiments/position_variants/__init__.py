"""Other ways to tell positions, and other buckets of paths, for the recipe depth: a ``--user-dir``.

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


@register_syntax_bias("tree_path_16")
class WholePath(TreePath):
    """`tree_path` with a bucket for each number of steps up to 16, which no path here has more of."""

    max_steps = 16
    buckets = 2 * 17**2 + 2


@register_syntax_bias("tree_path_2")
class ShortPath(TreePath):
    """`tree_path` in which 2 steps and more share a bucket, so that deep sentences need no other than shallow ones."""

    max_steps = 2
    buckets = 2 * 3**2 + 2


@register_model("position_variants")
class PositionVariants(SyntaxTransformerModel):
    """The syntax Transformer with absolute positions on one side alone or shifted, or relative ones in the decoder."""

    @classmethod
    def add_args(cls, parser: argparse.ArgumentParser) -> None:
        super().add_args(parser)
        sides = ("both", "encoder", "decoder", "none")
        add = parser.add_argument
        add("--absolute-positions", choices=sides, default="both", help="the sides with absolute positions")
        add("--position-offset", type=int, default=0, help="in training a sentence's positions count from up to here")
        add("--decoder-position-bias", action="store_true", help="relative positions in the decoder's self-attention")

    @classmethod
    def build_model(cls, args: Any, task: Any) -> PositionVariants:
        model = super().build_model(args, task)
        for side in ("encoder", "decoder"):
            part = getattr(model, side)
            if args.absolute_positions not in ("both", side):
                part.embed_positions = None
            elif args.position_offset:
                part.embed_positions = ShiftedPositions(part.embed_positions, args.position_offset)
        if args.decoder_position_bias:
            for layer in model.decoder.layers:
                layer.self_attn.__class__ = PositionBiasAttention  # with the weights that it has
                layer.self_attn.add_table()
        return model


for _size in ("", "_tiny"):
    register_model_architecture("position_variants", f"position_variants{_size}")(
        ARCH_CONFIG_REGISTRY[f"tree_bias_transformer{_size}"]
    )


class ShiftedPositions(SinusoidalPositionalEmbedding):
    """In training a sentence's absolute positions count from a random number (Kiyono et al. 2021)."""

    def __init__(self, like: SinusoidalPositionalEmbedding, offset: int):
        super().__init__(like.embedding_dim, like.padding_idx)
        self.offset = offset

    def forward(self, input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        if not self.training:
            return super().forward(input, *args, **kwargs)
        pad = self.padding_idx
        positions = utils.make_positions(input, pad)
        shift = torch.randint(self.offset + 1, (len(input), 1), device=input.device)
        table = self.get_embedding(pad + 1 + input.shape[1] + self.offset, self.embedding_dim, pad)
        return F.embedding(torch.where(positions == pad, pad, positions + shift), table.to(self.weights))


class PositionBiasAttention(MultiheadAttention):
    """The decoder's self-attention with the encoder's learned bias by relative position."""

    def add_table(self) -> None:
        sizes = {"heads": self.num_heads, "head_dim": self.head_dim, "embed_dim": self.embed_dim}
        self.position_bias: nn.Module = RelativePosition().build_layer_module(**sizes)

    def forward(
        self,
        query: Tensor,
        *args: Any,
        key_padding_mask: Tensor | None = None,
        incremental_state: dict[str, Any] | None = None,
        attn_mask: Tensor | None = None,
        **kwargs: Any,
    ) -> tuple[Tensor, None]:
        n, batch, _ = query.shape
        parts = (project(query) for project in (self.q_proj, self.k_proj, self.v_proj))
        q, k, v = (part.view(n, batch, self.num_heads, -1).permute(1, 2, 0, 3) for part in parts)
        if incremental_state is not None:
            if saved := self._get_input_buffer(incremental_state):
                k, v = torch.cat([saved["prev_key"], k], dim=2), torch.cat([saved["prev_value"], v], dim=2)
            self._set_input_buffer(incremental_state, {"prev_key": k, "prev_value": v})
        indices = torch.arange(k.shape[2], device=k.device).unsqueeze(0)
        bias = self.position_bias(RelativePosition().bias(indices)).bias[:, :, -n:]
        bias = bias if attn_mask is None else bias + attn_mask
        if key_padding_mask is not None and incremental_state is None:
            bias = bias.masked_fill(key_padding_mask[:, None, None], -torch.inf)
        dropout = self.dropout_module.p if self.training else 0.0
        output = F.scaled_dot_product_attention(q, k, v, bias.to(q), dropout_p=dropout)
        return self.out_proj(output.permute(2, 0, 1, 3).reshape(n, batch, self.embed_dim)), None

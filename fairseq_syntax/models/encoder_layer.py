"""A Transformer encoder layer whose self-attention is guided by syntax."""

from __future__ import annotations

from typing import Any

from fairseq.modules.transformer_layer import TransformerEncoderLayerBase
from torch import Tensor

from fairseq_syntax.nn.calls import extra_arguments
from fairseq_syntax.nn.masks import SyntaxBias
from fairseq_syntax.nn.syntax_attention import SyntaxAttention


class SyntaxEncoderLayer(TransformerEncoderLayerBase):
    """fairseq's encoder layer with :class:`SyntaxAttention` in the place of its self-attention."""

    def build_self_attention(self, embed_dim: int, cfg: Any) -> SyntaxAttention:
        return SyntaxAttention(
            embed_dim,
            cfg.encoder.attention_heads,
            num_masks=len(cfg.syntax_mask_names),
            syntax_heads=(cfg.encoder.attention_heads if cfg.syntax_heads is None else cfg.syntax_heads),
            combination=cfg.syntax_combination,
            gate_hidden_dim=cfg.gate_hidden_dim or max(1, embed_dim // 8),
            gate_batch_norm=str(cfg.gate_batch_norm_statistics) if cfg.gate_batch_norm else None,
            gate_batch_norm_eps=cfg.gate_batch_norm_eps,
            syntax_dropout=cfg.syntax_dropout,
            implementation=str(cfg.syntax_attention),
            dropout=cfg.attention_dropout,
            q_noise=self.quant_noise,
            qn_block_size=self.quant_noise_block_size,
        )

    def forward(
        self,
        x: Tensor,
        encoder_padding_mask: Tensor | None,
        attn_mask: Tensor | None = None,
        *,
        syntax: SyntaxBias,
    ) -> Tensor:
        """As fairseq's layer, on ``(n, batch, embed_dim)``, with the batch's masks."""
        with extra_arguments([self.self_attn], syntax=syntax):
            return super().forward(x, encoder_padding_mask, attn_mask)

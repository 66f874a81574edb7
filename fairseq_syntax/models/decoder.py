"""fairseq's Transformer decoder, whose cross-attention has features of the source in its keys."""

from __future__ import annotations

from typing import Any

import torch
from fairseq.models.transformer import TransformerDecoderBase
from fairseq.modules.quant_noise import quant_noise
from fairseq.modules.transformer_layer import TransformerDecoderLayerBase
from torch import Tensor, nn

from fairseq_syntax.encoder.encoder import FEATURE_KEYS
from fairseq_syntax.encoder.layer import wrapped


class FeatureKeyDecoder(TransformerDecoderBase):
    """fairseq's decoder with cross-attention by K = W_K (H + W t) and V = W_V H.

    H is the encoder's output, t the embeddings of the source's features; W, shared by layers, is the encoder's and 0 at
    first. So the decoder can ask for a subject, and reads the same values as without. Parameters have fairseq's names.
    """

    def build_decoder_layer(self, cfg: Any, no_encoder_attn: bool = False) -> nn.Module:
        return wrapped(FeatureKeyDecoderLayer(cfg, no_encoder_attn), cfg)

    def extract_features(
        self,
        prev_output_tokens: Tensor,
        encoder_out: dict[str, Any] | None,
        incremental_state: dict[str, Any] | None = None,
        *args: Any,
        **kwargs: Any,
    ) -> Any:
        """As fairseq's; `encoder_out` is the encoder's under ``--feature-keys``."""
        assert encoder_out is not None
        if not incremental_state:  # later steps of generation have keys and values in it
            both = [*encoder_out["encoder_out"], *encoder_out[FEATURE_KEYS]]
            encoder_out = {**encoder_out, "encoder_out": [torch.cat(both, dim=2)]}
        return super().extract_features(prev_output_tokens, encoder_out, incremental_state, *args, **kwargs)


class FeatureKeyDecoderLayer(TransformerDecoderLayerBase):
    """fairseq's layer, whose cross-attention gets [H; W t], ``(n, batch, 2 * embed_dim)``."""

    def build_encoder_attention(self, embed_dim: int, cfg: Any) -> nn.Module:
        attention = super().build_encoder_attention(embed_dim, cfg)
        noise = self.quant_noise, self.quant_noise_block_size
        attention.k_proj = quant_noise(_OfSum(attention.kdim, embed_dim), *noise)
        attention.v_proj = quant_noise(_OfFirst(attention.vdim, embed_dim), *noise)
        attention.reset_parameters()
        return attention


class _OfSum(nn.Linear):
    """W (a + b) of [a; b]."""

    def forward(self, both: Tensor) -> Tensor:
        a, b = both.chunk(2, dim=-1)
        return super().forward(a + b)


class _OfFirst(nn.Linear):
    """W a of [a; b]."""

    def forward(self, both: Tensor) -> Tensor:
        return super().forward(both.chunk(2, dim=-1)[0])

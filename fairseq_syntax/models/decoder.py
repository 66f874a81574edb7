"""fairseq's Transformer decoder, whose cross-attention has features of the source in its keys, or walks its tree."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from fairseq.models.transformer import TransformerDecoderBase
from fairseq.modules.quant_noise import quant_noise
from fairseq.modules.transformer_layer import TransformerDecoderLayerBase
from torch import Tensor, nn

from fairseq_syntax.encoder.encoder import FEATURE_KEYS, WALKS
from fairseq_syntax.encoder.layer import wrapped
from fairseq_syntax.models.cross_attention import TreeCrossAttention, WindowAttention


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


class TreeDecoder(TransformerDecoderBase):
    """fairseq's decoder with :class:`TreeCrossAttention`, whose self-attention may see the last tokens alone.

    Walking heads of all layers read e_t + W e_{t-1}, of embeddings e of output tokens without positions.
    """

    def __init__(self, cfg: Any, dictionary: Any, embed_tokens: nn.Embedding, **kwargs: Any):
        super().__init__(cfg, dictionary, embed_tokens, **kwargs)
        self.window = cfg.syntax.decoder.window
        self.walk_before = nn.Linear(self.embed_dim, self.embed_dim, bias=False)

    def build_decoder_layer(self, cfg: Any, no_encoder_attn: bool = False) -> nn.Module:
        return wrapped(TreeDecoderLayer(cfg, no_encoder_attn), cfg)

    def extract_features(
        self,
        prev_output_tokens: Tensor,
        encoder_out: dict[str, Any] | None,
        incremental_state: dict[str, Any] | None = None,
        *args: Any,
        **kwargs: Any,
    ) -> Any:
        """As fairseq's; `encoder_out` is the encoder's under ``--tree-cross-attention-heads``.

        fairseq's loop hands what it finds as the encoder's output and padding to the cross-attention of each layer:
        here with embeddings of tokens, and walks.
        """
        assert encoder_out is not None
        (states,) = encoder_out["encoder_out"]
        if incremental_state is None:
            last_two = self._last_two(prev_output_tokens)
        else:
            last_two = self._last_two(prev_output_tokens[:, -2:])[-1:]
        keys = torch.cat([states, last_two.to(states.dtype)])
        encoder_out = {**encoder_out, "encoder_out": [keys], "encoder_padding_mask": encoder_out[WALKS]}
        return super().extract_features(prev_output_tokens, encoder_out, incremental_state, *args, **kwargs)

    def _last_two(self, tokens: Tensor) -> Tensor:
        """Return e_t + W e_{t-1} of ``(batch, m)`` tokens, ``(m, batch, embed_dim)``."""
        x = self.embed_scale * self.embed_tokens(tokens)
        if self.project_in_dim is not None:
            x = self.project_in_dim(x)
        x = self.dropout_module(x)
        return (x + F.pad(self.walk_before(x), (0, 0, 1, 0))[:, :-1]).transpose(0, 1)

    def buffered_future_mask(self, tensor: Tensor) -> Tensor:
        """As fairseq's, ``(m, m)``, -inf for tokens before the window, too."""
        mask = super().buffered_future_mask(tensor)
        if self.window is None:
            return mask
        return mask.masked_fill(torch.ones_like(mask, dtype=torch.bool).tril(-self.window), -torch.inf)


class TreeDecoderLayer(TransformerDecoderLayerBase):
    """fairseq's layer with :class:`TreeCrossAttention`, and self-attention to a window of tokens."""

    def build_self_attention(self, embed_dim: int, cfg: Any, **kwargs: Any) -> nn.Module:
        if cfg.syntax.decoder.window is None:
            return super().build_self_attention(embed_dim, cfg, **kwargs)
        return WindowAttention(
            embed_dim, cfg.decoder.attention_heads, window=cfg.syntax.decoder.window, **self._shared(cfg), **kwargs
        )

    def build_encoder_attention(self, embed_dim: int, cfg: Any) -> nn.Module:
        return TreeCrossAttention(
            embed_dim,
            cfg.decoder.attention_heads,
            walking_heads=cfg.syntax.decoder.walking_heads,
            **self._shared(cfg),
        )

    def _shared(self, cfg: Any) -> dict[str, Any]:
        noise = {"q_noise": self.quant_noise, "qn_block_size": self.quant_noise_block_size}
        return {"dropout": cfg.attention_dropout, **noise}

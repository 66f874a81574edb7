"""fairseq's Transformer decoder with relative positions, with features of the source in its keys, or a tree HMM."""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from fairseq.models.transformer import TransformerDecoderBase
from fairseq.modules.quant_noise import quant_noise
from fairseq.modules.transformer_layer import TransformerDecoderLayerBase
from torch import Tensor, nn

from fairseq_syntax.encoder.encoder import FEATURE_KEYS, PARENTS, WORDS
from fairseq_syntax.encoder.layer import wrapped
from fairseq_syntax.models.position_attention import PositionBiasAttention
from fairseq_syntax.models.tree_hmm import TreeHmm
from fairseq_syntax.modules.numerics import at_least_float32, no_autocast


class SyntaxDecoderLayer(TransformerDecoderLayerBase):
    """fairseq's layer; under ``--decoder-position-bias`` its self-attention is a :class:`PositionBiasAttention`."""

    def build_self_attention(self, embed_dim: int, cfg: Any, *args: Any, **kwargs: Any) -> nn.Module:
        if not cfg.syntax.decoder.position_bias:
            built: nn.Module = super().build_self_attention(embed_dim, cfg, *args, **kwargs)
            return built
        return PositionBiasAttention(
            embed_dim,
            cfg.decoder.attention_heads,
            scale=cfg.syntax.bias_table_scale,
            dropout=cfg.attention_dropout,
            q_noise=self.quant_noise,
            qn_block_size=self.quant_noise_block_size,
        )


class SyntaxDecoder(TransformerDecoderBase):
    """fairseq's decoder of layers of ours."""

    layer_type: ClassVar[type[SyntaxDecoderLayer]] = SyntaxDecoderLayer

    def build_decoder_layer(self, cfg: Any, no_encoder_attn: bool = False) -> nn.Module:
        return wrapped(self.layer_type(cfg, no_encoder_attn), cfg)


class FeatureKeyDecoderLayer(SyntaxDecoderLayer):
    """A layer whose cross-attention gets [H; W t], ``(n, batch, 2 * embed_dim)``."""

    def build_encoder_attention(self, embed_dim: int, cfg: Any) -> nn.Module:
        attention = super().build_encoder_attention(embed_dim, cfg)
        noise = self.quant_noise, self.quant_noise_block_size
        attention.k_proj = quant_noise(_OfSum(attention.kdim, embed_dim), *noise)
        attention.v_proj = quant_noise(_OfFirst(attention.vdim, embed_dim), *noise)
        attention.reset_parameters()
        return attention


class FeatureKeyDecoder(SyntaxDecoder):
    """fairseq's decoder with cross-attention by K = W_K (H + W t) and V = W_V H.

    H is the encoder's output, t the embeddings of the source's features; W, shared by layers, is the encoder's and 0 at
    first. So the decoder can ask for a subject, and reads the same values as without. Parameters have fairseq's names.
    """

    layer_type = FeatureKeyDecoderLayer

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


class _OfSum(nn.Linear):
    """W (a + b) of [a; b]."""

    def forward(self, both: Tensor) -> Tensor:
        a, b = both.chunk(2, dim=-1)
        return super().forward(a + b)


class _OfFirst(nn.Linear):
    """W a of [a; b]."""

    def forward(self, both: Tensor) -> Tensor:
        return super().forward(both.chunk(2, dim=-1)[0])


class TreeHmmDecoder(SyntaxDecoder):
    """fairseq's decoder, in a mixture with :class:`~fairseq_syntax.models.tree_hmm.TreeHmm`."""

    def __init__(self, cfg: Any, dictionary: Any, embed_tokens: nn.Embedding, **kwargs: Any):
        super().__init__(cfg, dictionary, embed_tokens, **kwargs)
        dims = cfg.encoder.embed_dim, embed_tokens.embedding_dim, self.output_embed_dim
        self.tree_hmm = TreeHmm(*dims, eos=dictionary.eos(), pad=dictionary.pad())

    def forward(
        self,
        prev_output_tokens: Tensor,
        encoder_out: dict[str, Any] | None = None,
        incremental_state: dict[str, Any] | None = None,
        features_only: bool = False,
        **kwargs: Any,
    ) -> Any:
        """As fairseq's; instead of scores it returns log-probabilities, which are scores, too.

        In training they have the gradients of log p and log q, too: take them by :meth:`get_normalized_probs`.
        """
        x, extra = super().forward(
            prev_output_tokens, encoder_out, incremental_state, features_only=features_only, **kwargs
        )
        if features_only:
            return x, extra
        assert encoder_out is not None
        (source,), (parent,), (word,) = (encoder_out[name] for name in ("encoder_embedding", PARENTS, WORDS))
        tokens = prev_output_tokens if incremental_state is None else prev_output_tokens[:, -1:]
        with no_autocast(source.device):
            embedded = self.embed_tokens(tokens)
            log_q = self.tree_hmm(tokens, embedded, source, parent, word, self.output_layer, incremental_state)
            return self.tree_hmm.log_mixture(x, log_q), extra

    def get_normalized_probs(self, net_output: tuple[Tensor, Any], log_probs: bool, sample: Any = None) -> Tensor:
        """As fairseq's; in training without its softmax, which would take the mixture's part off the added gradients.

        These are exact for criterions that are linear in log-probabilities; R-Drop's divergence is not.
        """
        if self.training:
            log = at_least_float32(net_output[0])
            return log if log_probs else log.exp()
        normalized: Tensor = super().get_normalized_probs(net_output, log_probs, sample)
        return normalized

"""Named architectures: rows of defaults."""

from __future__ import annotations

from typing import Any

from fairseq.models import register_model_architecture
from fairseq.models.transformer import base_architecture

from fairseq_syntax.models import gated_syntax_transformer  # noqa: F401  (the model that they are architectures of)
from fairseq_syntax.nn.masks import NO_MASKS


def architecture(name: str, **defaults: Any) -> None:
    """Registers an architecture: where the command line says nothing, `defaults` hold, then fairseq's."""

    @register_model_architecture("gated_syntax_transformer", name)
    def set_defaults(args: Any) -> None:
        for option, value in defaults.items():
            setattr(args, option, getattr(args, option, value))
        base_architecture(args)


#: fairseq's base sizes: 512/2048/8, 6+6 layers.
architecture("gated_syntax_transformer")

_TINY = {
    "encoder_embed_dim": 64,
    "encoder_ffn_embed_dim": 128,
    "encoder_attention_heads": 4,
    "encoder_layers": 2,
    "decoder_attention_heads": 4,
    "decoder_layers": 2,
}

#: For tests and first steps.
architecture("gated_syntax_transformer_tiny", **_TINY)

#: No syntax, no features: fairseq's Transformer with a learned bias by relative position. What masks give beyond it is
#: not that they tell where a word stands.
_NO_SYNTAX = {"syntax_masks": NO_MASKS, "position_bias": True}
architecture("relative_position_transformer", **_NO_SYNTAX)
architecture("relative_position_transformer_tiny", **_NO_SYNTAX, **_TINY)

#: The five data sets of Hou 2024: syntax dropout ("ignore rate") and pre-warmup ("locking epochs") of its Table 2.
_HOU_2024 = {
    "iwslt_de_en": (0.4, 80),
    "iwslt_en_de": (0.0, 50),
    "nc11_de_en": (0.2, 60),
    "nc11_en_de": (0.2, 80),
    "wmt18_en_tr": (0.1, 70),
}

# Sizes and dropout of §5.1; the gate's width and its missing bias follow from the counts of Table 8 (docs/hou-2024.md).
# As we advise, gates are normalised by running statistics: by the batch's, as in the paper's eq. (6), evaluation strays
# from training (docs/gate-evaluation.md). The names that end in _paper do as the paper does.
for _name, (_syntax_dropout, _gate_warmup_epochs) in _HOU_2024.items():
    for _suffix, _statistics in (("", "running"), ("_paper", "batch")):
        architecture(
            f"gated_syntax_transformer_{_name}{_suffix}",
            encoder_embed_dim=512,
            encoder_ffn_embed_dim=1024,
            encoder_attention_heads=4,
            encoder_layers=6,
            decoder_attention_heads=4,
            decoder_layers=6,
            dropout=0.3,
            attention_dropout=0.2,
            syntax_dropout=_syntax_dropout,
            gate_warmup_epochs=_gate_warmup_epochs,
            gate_hidden_dim=256,
            gate_output_bias=False,
            gate_batch_norm_statistics=_statistics,
        )

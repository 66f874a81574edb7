"""Named architectures: rows of defaults."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fairseq.models import register_model_architecture
from fairseq.models.roberta.model import base_architecture as roberta
from fairseq.models.roberta.model import roberta_large_architecture as roberta_large
from fairseq.models.transformer import base_architecture

# The models that they are architectures of.
from fairseq_syntax.models import roberta as syntax_roberta  # noqa: F401
from fairseq_syntax.models import transformer as gated_syntax_transformer  # noqa: F401


def architecture(
    name: str,
    model: str = "gated_syntax_transformer",
    base: Callable[[Any], None] = base_architecture,
    /,
    **defaults: Any,
) -> None:
    """Register an architecture of a model: `defaults`, and then those of fairseq's `base`, where none is given.

    A default that is a function computes one from the other options of the command line.
    """

    @register_model_architecture(model, name)
    def set_defaults(args: Any) -> None:
        for option, value in defaults.items():
            setattr(args, option, getattr(args, option, value(args) if callable(value) else value))
        base(args)


def _sizes(embed: int, ffn: int, heads: int, layers: int = 6) -> dict[str, int]:
    """Return as many layers on either side, of these widths and heads."""
    of_encoder = {"embed_dim": embed, "ffn_embed_dim": ffn, "attention_heads": heads, "layers": layers}
    of_decoder = {"attention_heads": heads, "layers": layers}
    return {**{f"encoder_{k}": v for k, v in of_encoder.items()}, **{f"decoder_{k}": v for k, v in of_decoder.items()}}


#: For tests and first steps.
_TINY = _sizes(64, 128, 4, layers=2)

# docs/systems.md describes the systems of papers, and differences from the papers. These defaults fit any size,
# fairseq's base sizes (512/2048/8, 6+6 layers) among them; the heads that a paper chose for a data set are in the rows
# of that set.
_SYSTEMS: dict[str, dict[str, Any]] = {
    #: Hou 2024: masks mixed with global attention by gates.
    "gated_syntax_transformer": {},
    #: No syntax, no features: fairseq's Transformer with a learned bias by relative position, a control.
    "relative_position_transformer": {"syntax_masks": "none", "position_bias": True},
    #: No syntax: learned biases by relative position and word boundaries, what flat trees tell, a control.
    "word_position_transformer": {
        "syntax_masks": "word",
        "syntax_combination": "product",
        "position_bias": True,
    },
    #: Learned biases by relative position and by the place in both trees, in all heads and layers (docs/results.md).
    "tree_bias_transformer": {
        "syntax_masks": "tree_path,tree_height",
        "syntax_combination": "product",
        "position_bias": True,
    },
    #: The same, and labels: on edges in scores and values, of a word and its head in embeddings and in the keys of
    #: cross-attention (docs/results.md).
    "tree_label_transformer": {
        "syntax_masks": "tree_path,tree_height,tree_edge",
        "syntax_combination": "product",
        "position_bias": True,
        "tree_edge_values": True,
        "feature_embeddings": "upos,deprel",
        "feature_merge": "sum",
        "supertags": True,
        "feature_keys": True,
    },
    #: Relative position, and a hidden Markov model over the tree beside the decoder.
    "tree_hmm_transformer": {"syntax_masks": "none", "position_bias": True, "tree_hmm": True},
    #: Hou et al. 2022: SLR instead of global attention, in layer 1.
    "distance_transformer": {"syntax_masks": "slr", "syntax_combination": "pure", "syntax_layers": "1"},
    #: PASCAL (Bugliarello and Okazaki 2020): scores scaled around the parent, in layer 1.
    "pascal_transformer": {"syntax_masks": "parent", "syntax_combination": "pure", "syntax_layers": "1"},
    #: Li et al. 2021: near words of the tree, mixed with global attention by a gate for each token.
    "sla_transformer": {"syntax_masks": "sla", "syntax_combination": "token-gate"},
    #: SG-Net (Zhang et al.): a layer on top, in which a word sees its ancestors.
    "sg_net_transformer": {"syntax_masks": "sdoi", "syntax_combination": "pure", "syntax_layers": "top"},
    #: Sundararaman et al.: embeddings of parts of speech, capitals and places in words.
    "syntax_infused_transformer": {"syntax_masks": "none", "feature_embeddings": "upos,case,position"},
    #: LISA (Strubell et al. 2018): one head of layer 1 is a parser.
    "lisa_transformer": {"syntax_masks": "lisa", "syntax_combination": "pure", "syntax_layers": "1", "syntax_heads": 1},
    #: SEPREM (Xu et al. 2021): descendants are mixed in before each layer; distances and heads are predicted.
    "seprem_transformer": {
        "syntax_masks": "none",
        "tree_mixing": True,
        "distance_prediction": True,
        "parent_prediction": True,
    },
}
for _name, _row in _SYSTEMS.items():
    architecture(_name, **_row)
    architecture(f"{_name}_tiny", **_TINY, **_row)


#: The five data sets of Hou 2024: syntax dropout ("ignore rate") and pre-warmup ("locking epochs") of its Table 2.
_HOU_2024 = {
    "iwslt_de_en": (0.4, 80),
    "iwslt_en_de": (0.0, 50),
    "nc11_de_en": (0.2, 60),
    "nc11_en_de": (0.2, 80),
    "wmt18_en_tr": (0.1, 70),
}

# Sizes and dropout of §5.1; the gate's width and its missing bias follow from the counts of Table 8 (docs/systems.md).
# The paper does not name ReLU dropout: it is the Distance Transformer's, as most settings are. Gates are normalised by
# running statistics: under the batch's, as in eq. (6), evaluation differs from training (docs/results.md).
# Names that end in _paper have the batch's.
for _name, (_syntax_dropout, _gate_warmup_epochs) in _HOU_2024.items():
    for _suffix, _statistics in (("", "running"), ("_paper", "batch")):
        architecture(
            f"gated_syntax_transformer_{_name}{_suffix}",
            **_sizes(512, 1024, 4),
            dropout=0.3,
            attention_dropout=0.2,
            activation_dropout=0.1,
            syntax_dropout=_syntax_dropout,
            gate_warmup_epochs=_gate_warmup_epochs,
            gate_hidden_dim=256,
            gate_output_bias=False,
            gate_batch_norm_statistics=_statistics,
        )

#: The six data sets of the Distance Transformer: heads of layer 1 that SLR has, of how many; width of the feed-forward
#: network; dropout and attention dropout; whether layers normalise before (its authors' scripts).
_HOU_2022 = {
    "iwslt_de_en": (4, 4, 1024, 0.3, 0.2, True),
    "iwslt_en_de": (3, 4, 1024, 0.3, 0.2, False),
    "nc11_de_en": (4, 4, 1024, 0.3, 0.2, False),
    "nc11_en_de": (3, 4, 1024, 0.3, 0.2, False),
    "aspec_zh_ja": (2, 8, 2048, 0.3, 0.1, False),
    "wmt14_en_de": (2, 8, 1024, 0.1, 0.1, True),
}
for _name, (_syntax_heads, _heads, _ffn, _dropout, _attention_dropout, _before) in _HOU_2022.items():
    architecture(
        f"distance_transformer_{_name}",
        **_SYSTEMS["distance_transformer"],
        **_sizes(512, _ffn, _heads),
        syntax_heads=_syntax_heads,
        dropout=_dropout,
        attention_dropout=_attention_dropout,
        activation_dropout=0.1,
        encoder_normalize_before=_before,
        decoder_normalize_before=_before,
    )

#: The six data sets of PASCAL, and of LISA as PASCAL's authors ran it: heads of layer 1 that PASCAL has, its parent
#: ignoring, dropout (their scripts).
_PASCAL = {
    "nc11_de_en": (8, 0.0, 0.3),
    "nc11_en_de": (2, 0.4, 0.3),
    "wmt18_en_tr": (7, 0.3, 0.3),
    "wmt16_en_de": (5, 0.0, 0.1),
    "wmt17_en_de": (7, 0.3, 0.1),
    "wat_en_ja": (7, 0.0, 0.1),
}
for _name, (_syntax_heads, _ignoring, _dropout) in _PASCAL.items():
    architecture(
        f"pascal_transformer_{_name}",
        **_SYSTEMS["pascal_transformer"],
        **_sizes(512, 2048, 8),
        syntax_heads=_syntax_heads,
        parent_ignoring=_ignoring,
        dropout=_dropout,
    )
    architecture(f"lisa_transformer_{_name}", **_SYSTEMS["lisa_transformer"], **_sizes(512, 2048, 8), dropout=_dropout)

#: The base sizes of SG-Net's and the syntax-infused Transformer's WMT14.
for _system in ("sg_net_transformer", "syntax_infused_transformer"):
    architecture(
        f"{_system}_wmt14_en_de", **_SYSTEMS[_system], **_sizes(512, 2048, 8), dropout=0.1, attention_dropout=0.1
    )


def _predicts(args: Any) -> bool:
    """Parses are predicted where masked LM is trained with losses for that."""
    return getattr(args, "criterion", None) == "masked_lm_with_syntax"


#: RoBERTa with the encoder of these systems.
_ROBERTAS: dict[str, dict[str, Any]] = {
    "gated_syntax_roberta": {},
    "relative_position_roberta": _SYSTEMS["relative_position_transformer"],
    "tree_bias_roberta": _SYSTEMS["tree_bias_transformer"],
    "sla_roberta": _SYSTEMS["sla_transformer"],
    #: Special tokens see themselves alone, as published; so heads read the mean of all words.
    "sg_net_roberta": {**_SYSTEMS["sg_net_transformer"], "special_tokens": "words", "pooling": "mean"},
    #: Sundararaman et al., syntax-infused BERT: parts of speech.
    "pos_roberta": {"syntax_masks": "none", "feature_embeddings": "upos"},
    "seprem_roberta": {
        **_SYSTEMS["seprem_transformer"],
        "distance_prediction": _predicts,
        "parent_prediction": _predicts,
    },
}
for _name, _row in _ROBERTAS.items():
    for _suffix, _base in (("", roberta), ("_base", roberta), ("_large", roberta_large)):
        architecture(f"{_name}{_suffix}", "syntax_roberta", _base, feature_merge="sum", **_row)
    _tiny = {option: size for option, size in _TINY.items() if option.startswith("encoder")}
    architecture(f"{_name}_tiny", "syntax_roberta", roberta, feature_merge="sum", **_row, **_tiny)

"""Options of RoBERTa with syntax: fairseq's, those of its encoder, and pooling."""

# No postponed annotations here: fairseq reads the types of a configuration's fields at run time.

import argparse
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from fairseq.models.roberta import RobertaModel

from fairseq_syntax.encoder.encoder_options import encoder_options
from fairseq_syntax.models import transformer_options
from fairseq_syntax.models.transformer_options import SyntaxTransformerConfig
from fairseq_syntax.modules.pooling import PoolingOptions
from fairseq_syntax.options import options_of


@dataclass
class SyntaxRobertaConfig(SyntaxTransformerConfig):
    """fairseq's options of a RoBERTa, :attr:`syntax` and :attr:`pooling`."""

    # No options of fairseq's, so without annotations. Set by from_namespace.
    pooling = PoolingOptions()
    untied = False
    layer_prefixes = {"encoder": "encoder.sentence_encoder.layers."}  # noqa: RUF012

    @classmethod
    def from_namespace(cls, args: Any) -> "SyntaxRobertaConfig":
        """See :meth:`SyntaxTransformerConfig.from_namespace`; the sides have no decoder."""
        if isinstance(args, cls):
            return args
        cfg: SyntaxRobertaConfig = super().from_namespace(args)  # type: ignore[assignment]
        given = ((o, getattr(args, o.key) if o.key in args else o.default) for o in options_of(PoolingOptions))
        cfg.pooling = PoolingOptions(**{o.field: o.checked(value) for o, value in given})
        cfg.untied = bool(getattr(args, "untie_weights_roberta", False))
        return cfg

    @classmethod
    def own_keys(cls) -> set[str]:
        return super().own_keys() | {o.key for o in options_of(PoolingOptions)}

    @classmethod
    def _refuse_unknown(cls, keys: Iterable[str]) -> None:
        super()._refuse_unknown(keys)
        if of_decoder := [key for key in keys if key.startswith("decoder_")]:
            raise ValueError(f"{of_decoder[0]}: expected options of an encoder; RoBERTa has no decoder")

    def _check_encoder(self) -> None:
        super()._check_encoder()
        if self.syntax.embeddings.names and self.syntax.embeddings.merge == "concatenate":
            raise ValueError(
                "--feature-merge concatenate: expected sum, since RoBERTa's masked LM shares the embeddings of tokens, "
                "which would be narrower"
            )
        if self.syntax.embeddings.keys:
            raise ValueError("--feature-keys: expected a translation model; RoBERTa has no cross-attention")
        if self.syntax.decoder.tree_hmm:
            raise ValueError("--tree-hmm: expected a translation model; RoBERTa has no decoder")

    @property
    def recorded_options(self) -> dict[str, Any]:
        return {
            **super().recorded_options,
            **{o.key: getattr(self.pooling, o.field) for o in options_of(PoolingOptions)},
        }

    @property
    def semantics(self) -> dict[str, Any]:
        of_heads = {"pooling": self.pooling.kind, "markers": ",".join(self.pooling.markers)}
        return {**super().semantics, **of_heads, "untie_weights_roberta": self.untied}


def option_names() -> list[str]:
    """Return the names of the options of all our models."""
    return [*transformer_options.option_names(), *(o.key for o in options_of(PoolingOptions)), *_ROBERTAS]


#: Options of RoBERTa, beside those of any Transformer, on which its computation depends.
_ROBERTAS = ("untie_weights_roberta", "pooler_activation_fn", "pooler_dropout", "max_positions")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add fairseq's options of RoBERTa and ours to a command line."""
    RobertaModel.add_args(parser)
    parser.add_argument(
        "--checkpoint-activations",
        action="store_true",
        help="compute activations of layers again in the backward pass, for less memory",
    )
    for o in (*encoder_options(), *options_of(PoolingOptions)):
        o.add_to(parser)

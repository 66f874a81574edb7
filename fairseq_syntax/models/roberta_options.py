"""Options of RoBERTa with syntax: fairseq's, those of its encoder, and pooling."""

# No postponed annotations here: fairseq reads the types of a configuration's fields at run time.

import argparse
from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import Any

from fairseq.models.roberta import RobertaModel
from fairseq.models.transformer import TransformerConfig

from fairseq_syntax.models.transformer_options import SyntaxTransformerConfig
from fairseq_syntax.modules.pooling import PoolingOptions
from fairseq_syntax.options import Option, options_of, read_options


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
        cfg.pooling = PoolingOptions(**read_options(options_of(PoolingOptions), args))
        cfg.untied = bool(getattr(args, "untie_weights_roberta", False))
        return cfg

    @classmethod
    def own_options(cls) -> list[Option]:
        return [*super().own_options(), *options_of(PoolingOptions)]

    @classmethod
    def _refuse_unknown(cls, keys: Iterable[str]) -> None:
        super()._refuse_unknown(keys)
        ours = {o.key for o in cls.own_options()}
        if of_decoder := [key for key in keys if key.startswith("decoder_") and key not in ours]:
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
        for flag, given in (
            ("--tree-hmm", self.syntax.decoder.tree_hmm),
            ("--decoder-position-bias", self.syntax.decoder.position_bias),
            ("--absolute-positions", self.syntax.decoder.absolute_positions != "both"),
        ):
            if given:
                raise ValueError(f"{flag}: expected a translation model; RoBERTa has no decoder")

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
    """Return the names of the options of all our models, those of fairseq that are of no side among them."""
    of_any = (field.name for field in fields(TransformerConfig))
    return [*of_any, *(o.key for o in SyntaxRobertaConfig.own_options()), *_ROBERTAS]


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
    for o in SyntaxRobertaConfig.own_options():
        o.add_to(parser)

"""Options of the translation model: fairseq's of a Transformer, and those of its encoder's syntax."""

# No postponed annotations here: fairseq reads the types of a configuration's fields at run time.

import argparse
from argparse import Namespace
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fairseq.dataclass.utils import gen_parser_from_dataclass
from fairseq.models.transformer import TransformerConfig
from omegaconf import OmegaConf

from fairseq_syntax.encoder.encoder_options import SyntaxEncoderOptions, encoder_options
from fairseq_syntax.modules.biases import bias_names
from fairseq_syntax.options import Option


@dataclass
class SyntaxTransformerConfig(TransformerConfig):
    """fairseq's options of a Transformer, and as :attr:`syntax` those of the syntax in its encoder."""

    # No options of fairseq's, so without annotations. The first is set by from_namespace.
    syntax = SyntaxEncoderOptions()
    #: Where the layers of each side are among the names of parameters.
    layer_prefixes = {"encoder": "encoder.layers.", "decoder": "decoder.layers."}  # noqa: RUF012

    @classmethod
    def from_namespace(cls, args: Any) -> "SyntaxTransformerConfig":
        """Read options from a command line's namespace, or from the keys of fairseq-hydra-train.

        A command line's namespace has the options of criterion, task and optimizer, too: no key of it is refused.

        Raises:
            ValueError: an option has an invalid value; names it. A key of fairseq-hydra-train is no option of the
                model.
        """
        if isinstance(args, cls):
            return args
        if OmegaConf.is_config(args):
            if "task" not in args:  # the model's keys alone, not a command line that was recorded
                cls._refuse_unknown(args)
        elif isinstance(args, Mapping):
            args = Namespace(**args)
        cfg: SyntaxTransformerConfig = super().from_namespace(args)
        for side, heads in (("decoder", cfg.decoder.attention_heads), ("encoder", cfg.encoder.attention_heads)):
            if not isinstance(heads, int) or heads < 1:
                raise ValueError(f"--{side}-attention-heads: expected an integer of at least 1, found {heads!r}")
        cfg.syntax = SyntaxEncoderOptions.read(args, encoder_layers=cfg.encoder.layers, encoder_heads=heads)
        cfg._check_encoder()
        return cfg

    @classmethod
    def own_options(cls) -> list[Option]:
        """The options that are not fairseq's."""
        return encoder_options()

    @classmethod
    def _refuse_unknown(cls, keys: Iterable[str]) -> None:
        """Raises :class:`ValueError` for a key that begins like an option of ours, and is none."""
        known = {o.key for o in cls.own_options()}
        ours = tuple({*(key.partition("_")[0] for key in known), *bias_names()} - {"decoder"})
        for key in keys:
            if key == "cpu_dropout":
                raise ValueError(
                    "cpu_dropout: expected as an option of the task (task.cpu_dropout), found as the model's"
                )
            if key.startswith(ours) and key not in known:
                raise ValueError(f"{key}: the model has no such option")

    def _check_encoder(self) -> None:
        """Raises :class:`ValueError` for options of a Transformer that exclude those of syntax."""
        if self.encoder.xformers_att_config is not None:
            raise ValueError("--encoder-xformers-att-config: syntax attention cannot be computed by xFormers")
        embeddings = self.syntax.embeddings
        for name in ("no_cross_attention", "cross_self_attention"):
            if embeddings.keys and getattr(self, name):
                raise ValueError(f"--feature-keys: expected without --{name.replace('_', '-')}")
        if self.syntax.decoder.position_bias:
            if self.cross_self_attention:
                raise ValueError("--decoder-position-bias: expected without --cross-self-attention")
            if self.decoder.xformers_att_config is not None:
                raise ValueError("--decoder-position-bias: expected without --decoder-xformers-att-config")
        if self.syntax.decoder.absolute_positions != "both" and self.no_token_positional_embeddings:
            raise ValueError("--absolute-positions: expected without --no-token-positional-embeddings")
        if self.syntax.decoder.tree_hmm:
            if embeddings.keys:
                raise ValueError("--tree-hmm: expected without --feature-keys")
            if self.adaptive_softmax_cutoff is not None:
                raise ValueError("--tree-hmm: expected without --adaptive-softmax-cutoff")
        if not embeddings.names or embeddings.merge != "concatenate":
            return
        if self.share_all_embeddings or self.merge_src_tgt_embed or self.encoder.embed_path:
            raise ValueError(
                "--feature-merge concatenate: expected without --share-all-embeddings and --encoder-embed-path, since "
                "the encoder's embeddings are narrower; use --feature-merge sum"
            )
        if embeddings.dim >= self.encoder.embed_dim:
            raise ValueError(
                f"--feature-embed-dim: expected fewer than --encoder-embed-dim {self.encoder.embed_dim}, found "
                f"{embeddings.dim}"
            )

    def fill_label_vocabulary(self, label_vocabulary: Callable[[str], Sequence[str]] | None) -> None:
        """Fills in the labels that weights depend on and that the options leave open.

        Args:
            label_vocabulary: gives those of a feature, from number 0; ``None``: nothing does.

        Raises:
            ValueError: a label has white space in it; or nothing gives labels.
        """
        missing = [name for name in self.syntax.labelled if name not in self.syntax.labels]
        if missing:
            if label_vocabulary is None:
                raise ValueError(
                    f"--{missing[0]}-labels: expected labels, or --task syntax_translation or another task that finds "
                    "them"
                )
            self.syntax = self.syntax.with_labels({name: label_vocabulary(name) for name in missing})

    @property
    def _sides(self) -> list[tuple[str, Any]]:
        """fairseq's options of encoder and decoder, by name."""
        return [(side, getattr(self, side)) for side in self.layer_prefixes]

    @property
    def recorded_options(self) -> dict[str, Any]:
        """Options that replace the user's, so that a checkpoint records what its weights are.

        A pruned model (``encoder_layers_to_keep``, counted from 0) is recorded as the smaller model that it is, with
        its syntax layers as they were trained.

        Raises:
            ValueError: pruning leaves no syntax layer.
        """
        found = self.syntax.recorded()
        if not (self.encoder.layers_to_keep or self.decoder.layers_to_keep):
            return found
        for name, side in self._sides:
            # A list, as fairseq's own command line makes it; none, where fairseq would lose all layers of this side.
            asked = str(side.layers_to_keep or list(range(side.layers))).strip("[]")
            found[f"{name}_layers_to_keep"] = asked
            kept = sorted(int(number) + 1 for number in asked.split(","))
            if len(kept) >= side.layers:  # nothing to leave out, or done before
                continue
            found[f"{name}_layers"] = len(kept)
            if name == "encoder":
                chosen = self.syntax.chosen_layers
                left = {new for new, old in enumerate(kept, start=1) if old in chosen}
                if not left and not self.syntax.has_top and self.syntax.syntax_layers:
                    raise ValueError(
                        f"--encoder-layers-to-keep: expected one of the layers that syntax enters (from 0, "
                        f"{', '.join(str(old - 1) for old in sorted(chosen))}), found {asked}"
                    )
                found["syntax_layers"] = self.syntax.spell_layers(left)
        return found

    @property
    def semantics(self) -> dict[str, Any]:
        """Options, by name, that give weights a meaning beyond their names and shapes, and have an effect."""
        named = {name: bool(getattr(self, name)) for name in _SEMANTICS}
        named["share_decoder_input_output_embed"] |= named["share_all_embeddings"]  # as fairseq sets it
        for side, part in self._sides:
            named[f"{side}_attention_heads"] = part.attention_heads
            named[f"{side}_normalize_before"] = part.normalize_before
        return {
            **self.syntax.semantics(str(self.activation_fn)),
            "syntax_layers": self.recorded_options["syntax_layers"],
            "activation_fn": str(self.activation_fn),
            **named,
        }


#: Switches of fairseq's Transformer that give weights a meaning beyond their names and shapes.
_SEMANTICS = (
    "no_scale_embedding", "no_token_positional_embeddings", "cross_self_attention", "share_all_embeddings",
    "share_decoder_input_output_embed", "merge_src_tgt_embed",
)  # fmt: skip


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add fairseq's options of a Transformer and ours to a command line, without defaults."""
    gen_parser_from_dataclass(parser, TransformerConfig(), delete_default=True, with_prefix="")
    for o in encoder_options():
        o.add_to(parser)

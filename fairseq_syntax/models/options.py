"""The options of a model with syntax, and what follows from them."""

# No postponed annotations here: fairseq reads the types of a configuration's fields at run time.

import argparse
import copy
import dataclasses
import re
from argparse import Namespace
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Optional

from fairseq.dataclass.utils import gen_parser_from_dataclass
from fairseq.models.transformer import TransformerConfig
from omegaconf import OmegaConf

from fairseq_syntax.modules.attention import CHOICES, DROPOUT_ON
from fairseq_syntax.modules.biases import SyntaxBias, bias_names, bias_options, bias_type
from fairseq_syntax.modules.embedding import FeatureEmbeddingOptions
from fairseq_syntax.modules.fusion import FusionOptions
from fairseq_syntax.modules.gates import COMBINATIONS, GATED
from fairseq_syntax.modules.heads import PredictionOptions
from fairseq_syntax.modules.tree_mixing import TreeMixingOptions
from fairseq_syntax.options import NONE, Option, check_names, names_in, option, options_of
from syntax_data.errors import short_repr

_NO_MASKS: tuple[SyntaxBias, ...] = ()

#: What ``--syntax-layers`` calls the layer above the encoder.
TOP = "top"


@dataclass
class SyntaxTransformerConfig(TransformerConfig):
    """fairseq's options of a Transformer, and those of syntax.

    Masks declare theirs (:attr:`masks`), and so do the other places where syntax enters: :data:`PARTS`.
    """

    syntax_masks: str = option(
        "slr", help="comma-separated syntax masks that are mixed with global attention; none, with --position-bias"
    )
    syntax_combination: str = option(
        "gate",
        choices=COMBINATIONS,
        help="gated sum of global and syntactic attention, by a gate for each head (Hou 2024 eq. 10) or for each token "
        "(token-gate, Li et al. 2021), their mean, the mean of the syntactic ones alone (Hou 2024 Table 6), or one "
        "attention under the product of all masks, that is the sum of their biases",
    )
    syntax_layers: Optional[str] = option(
        None,
        help="encoder layers that masks enter, counted from 1, such as 1-2 or 1,3-4 (Hou 2024 Table 5); top is one "
        "more layer, above the encoder, whose output joins the encoder's (SG-Net); default: all, without top",
    )
    syntax_heads: Optional[int] = option(
        None, help="number of heads that syntax enters, the first ones (Hou 2024 §5.3); default: all"
    )
    syntax_dropout: float = option(
        0.0,
        at_least=0,
        below=1,
        help="syntax ignoring: dropout probability of syntactic attention weights (Hou 2024 §4.5)",
    )
    syntax_attention_impl: str = option(
        "auto",
        choices=CHOICES,
        help="implementation of attention, all the same up to rounding: a softmax for each mask (reference), one for "
        "all (shared), torch's fused attention where no dropout acts on the sum of several (sdpa), or the one that is "
        "likely the fastest (auto)",
    )
    syntax_attention_dropout_on: str = option(
        "mixture",
        choices=DROPOUT_ON,
        help="what --attention-dropout acts on in layers that syntax enters: the sum of global and syntactic "
        "attention, once (mixture); or each of them, drawn apart (experts), a weaker dropout, under which training can "
        "use torch's fused attention",
    )
    position_bias: bool = option(
        False,
        help="a learned bias by relative position in the scores of all heads, global and syntactic attention alike, of "
        "the layers that syntax enters (the mask called position, as T5 has it)",
    )
    gate_hidden_dim: Optional[int] = option(
        None,
        at_least=1,
        help="hidden width of the gate network (d' of Hou 2024 eq. 5); default: encoder embed dim / 8",
    )
    gate_output_bias: bool = option(True, help="a bias in the gate network's second layer (b2 of Hou 2024 eq. 5)")
    gate_batch_norm: bool = option(True, help="batch normalisation of the gate's logits (Hou 2024 eq. 6)")
    gate_batch_norm_statistics: str = option(
        "running",
        choices=("running", "batch"),
        help="what batch normalisation of the gate's logits divides by in training: running statistics, as in "
        "evaluation, or the batch's, as usual",
    )
    gate_batch_norm_eps: float = option(1e-5, above=0, help="what it adds to the variance, a floor under it")
    gate_warmup_epochs: int = option(
        0,
        at_least=0,
        help="pre-warmup: the gate's parameters stay frozen for this many epochs (Hou 2024 §4.5), counted from "
        "fairseq's epoch 1",
    )
    # Set by :meth:`from_namespace`. No options, so without annotations.
    #: The masks, in the order of the gates.
    masks = _NO_MASKS
    #: Embeddings of features.
    embeddings = FeatureEmbeddingOptions()
    #: Mixtures that layers read.
    mixing = TreeMixingOptions()
    #: How the layer on top joins.
    fused = FusionOptions()
    #: What is predicted from the encoder's output.
    predicted = PredictionOptions()

    @property
    def syntax_mask_names(self) -> list[str]:
        """``syntax_masks``, split; in our order, not the user's. It is that of the gates."""
        return names_in(self.syntax_masks, bias_names())

    @property
    def gated(self) -> bool:
        """Whether the masks are mixed by gates."""
        return self.syntax_combination in GATED and bool(self.syntax_mask_names)

    @property
    def gated_by_head(self) -> bool:
        """Whether they are mixed by the gates that the options called gate are about."""
        return self.gated and self.syntax_combination == "gate"

    @property
    def has_top(self) -> bool:
        """Whether there is one more layer, above the encoder."""
        return TOP in self._layer_parts

    @property
    def _layer_parts(self) -> list[str]:
        written = self.syntax_layers or f"1-{self.encoder.layers}"
        return [part.strip() for part in str(written).split(",")]  # a number, if YAML says 2

    @property
    def syntax_layer_numbers(self) -> set[int]:
        """``syntax_layers``, spelled out: numbers from 1 to the number of encoder layers, before pruning."""
        layers: set[int] = set()
        for part in dict.fromkeys(self._layer_parts):
            if part == TOP:
                continue
            match = re.fullmatch(r"(\d+)(?:-(\d+))?", part)
            if not match:
                raise ValueError(f"--syntax-layers: expected numbers, ranges such as 3-4, and {TOP}, found {part!r}")
            first, last = int(match[1]), int(match[2] or match[1])
            if not 1 <= first <= last <= self.encoder.layers:
                raise ValueError(f"--syntax-layers: expected layers within 1-{self.encoder.layers}, found {part!r}")
            layers.update(range(first, last + 1))
        return layers

    @property
    def active_layer_numbers(self) -> set[int]:
        """Those of them in which something differs from fairseq's layer."""
        return self.syntax_layer_numbers if self.masks or self.position_bias else set()

    @property
    def of_top(self) -> "SyntaxTransformerConfig":
        """The same for the layer on top, which normalises after and has GELU, whatever the encoder does (SG-Net)."""
        cfg = copy.deepcopy(self)
        cfg.encoder.normalize_before = False
        cfg.activation_fn = "gelu"
        return cfg

    @property
    def built(self) -> dict[str, Any]:
        """Options, in the place of those that the user wrote, so that a checkpoint records what its weights are.

        Ours are there with their defaults, since a later version may have others; layers are spelled out, masks in our
        order. A pruned model (``encoder_layers_to_keep``, counted from 0) is the smaller one that it is, with its
        layers as guided as they were trained.

        Raises:
            ValueError: pruning leaves no layer that syntax enters.
        """
        options = [*_of_model(), *(o for mask in self.masks for o in bias_options(mask.name))]
        found: dict[str, Any] = {o.key: getattr(self, o.key) for o in options}
        found["syntax_masks"] = ",".join(self.syntax_mask_names) or NONE
        top = [TOP] if self.has_top else []
        numbers = self.syntax_layer_numbers
        found["syntax_layers"] = ",".join([*map(str, sorted(numbers)), *top])
        if not (self.encoder.layers_to_keep or self.decoder.layers_to_keep):
            return found
        for name, side in (("encoder", self.encoder), ("decoder", self.decoder)):
            # A list, as fairseq's own command line makes it; none, where fairseq would lose all layers of this side.
            asked = str(side.layers_to_keep or list(range(side.layers))).strip("[]")
            found[f"{name}_layers_to_keep"] = asked
            kept = sorted(int(number) + 1 for number in asked.split(","))
            if len(kept) >= side.layers:  # nothing to leave out, or done before
                continue
            found[f"{name}_layers"] = len(kept)
            if name == "encoder":
                guided = [str(new) for new, old in enumerate(kept, start=1) if old in numbers]
                if not guided and not top and self.active_layer_numbers:
                    raise ValueError(
                        f"--encoder-layers-to-keep: expected one of the layers that syntax enters (from 0, "
                        f"{', '.join(str(old - 1) for old in sorted(numbers))}), "
                        f"found {asked}"
                    )
                found["syntax_layers"] = ",".join([*guided, *top])
        return found

    @property
    def meaning(self) -> dict[str, Any]:
        """What weights mean beyond their names and shapes: the options that say so and have an effect, by name."""
        built = self.built
        found: dict[str, Any] = {
            "syntax_masks": built["syntax_masks"],
            "syntax_combination": self.syntax_combination,
            "position_bias": self.position_bias,
            "syntax_layers": built["syntax_layers"],
            "syntax_heads": "all" if self.syntax_heads in (None, self.encoder.attention_heads) else self.syntax_heads,
            "encoder_attention_heads": self.encoder.attention_heads,
            "decoder_attention_heads": self.decoder.attention_heads,
            "encoder_normalize_before": self.encoder.normalize_before,
            "decoder_normalize_before": self.decoder.normalize_before,
            "activation_fn": str(self.activation_fn),
            "no_scale_embedding": bool(self.no_scale_embedding),
            "no_token_positional_embeddings": bool(self.no_token_positional_embeddings),
            "cross_self_attention": bool(self.cross_self_attention),
            "share_all_embeddings": bool(self.share_all_embeddings),
            # fairseq sets it with the one above
            "share_decoder_input_output_embed": bool(
                self.share_decoder_input_output_embed or self.share_all_embeddings
            ),
            "merge_src_tgt_embed": bool(self.merge_src_tgt_embed),
        }
        for mask in self.masks:
            found.update(mask.effective_options())
        if self.has_top:
            found["fusion"] = self.fused.kind
            if self.fused.kind == "sum" and not self.fused.learned:
                found["fusion_weight"] = self.fused.weight
        found["feature_embeddings"] = ",".join(self.embeddings.names)
        if self.embeddings.names:
            found["feature_merge"] = self.embeddings.merge
            found |= {f"{name}_labels": " ".join(labels) for name, labels in self.embeddings.labels.items()}
        found["tree_mixing"] = self.mixing.on
        if self.mixing.on:
            found["tree_mixing_activation"] = self.mixing.activation or str(self.activation_fn)
        if self.gated_by_head and self.gate_batch_norm:
            found["gate_batch_norm_eps"] = self.gate_batch_norm_eps
        return found

    @classmethod
    def from_namespace(cls, args: Any) -> "SyntaxTransformerConfig":
        """From a command line's arguments, or from the keys that fairseq-hydra-train read.

        A command line's namespace has the options of criterion, task and optimizer, too: no key of it is refused.

        Raises:
            ValueError: an option cannot be meant; names it. A key of fairseq-hydra-train is no option of the model.
        """
        if isinstance(args, cls):
            return args
        if OmegaConf.is_config(args):
            if "task" not in args:  # the model's keys alone, not a command line that was recorded
                _refuse_unknown(args)
        elif isinstance(args, Mapping):
            args = Namespace(**args)
        cfg: SyntaxTransformerConfig = super().from_namespace(args)
        for o in all_options():
            setattr(cfg, o.key, getattr(args, o.key) if o.key in args else o.default)
        cfg.check()
        cfg.masks = tuple(cfg._mask(name) for name in cfg.syntax_mask_names)
        return cfg

    def fill_label_vocabulary(self, labels_of: Callable[[str], Sequence[str]] | None) -> None:
        """Fills in which labels embedded features number, where the options do not say it.

        Args:
            labels_of: gives those of a feature, from number 0; ``None``: nothing does.

        Raises:
            ValueError: a label has white space in it, which the option could not hold; or nothing gives labels.
        """
        for name in self.embeddings.names:
            if name in self.embeddings.labels:
                continue
            if labels_of is None:
                raise ValueError(f"--{name}-labels: expected labels, or --task syntax_translation, which finds them")
            labels = list(labels_of(name))
            if wrong := [label for label in labels if len(label.split()) != 1]:
                raise ValueError(f"--{name}-labels: expected labels without white space, found {wrong[0]!r}")
            setattr(self, f"{name}_labels", " ".join(labels))
            self.embeddings = _part(FeatureEmbeddingOptions, self)

    def _mask(self, name: str) -> SyntaxBias:
        return bias_type(name)(**{o.field: getattr(self, o.key) for o in bias_options(name)})

    def check(self) -> None:
        """Makes each option a plain value of its type.

        Raises:
            ValueError: a value cannot be meant; names the option.
        """
        for o in all_options():
            setattr(self, o.key, o.checked(getattr(self, o.key, o.default)))
        names, known = self.syntax_mask_names, bias_names()
        check_names("--syntax-masks", self.syntax_masks, known)
        for attribute, part in PARTS.items():
            setattr(self, attribute, _part(part, self))
        elsewhere = self.has_top or self.mixing.on or self.embeddings.names or self.predicted.parents
        if not names and not self.position_bias and not elsewhere:
            raise ValueError(
                f"--syntax-masks: expected some of {','.join(known)}, found none, which needs --position-bias, or "
                f"syntax in another place: --feature-embeddings, --tree-mixing, --parent-prediction, --syntax-layers "
                f"{TOP}"
            )
        if "lisa" in names and self.syntax_combination == "product":
            raise ValueError(
                "--syntax-combination product: expected without the mask lisa, which leaves no scores to bias"
            )
        if self.predicted.distances and not self.mixing.on:
            raise ValueError("--distance-prediction: expected with --tree-mixing, whose distances it hides")
        if self.embeddings.names and self.embeddings.merge == "concatenate":
            if self.share_all_embeddings or self.merge_src_tgt_embed:
                raise ValueError(
                    "--feature-merge concatenate: expected without --share-all-embeddings, since the encoder's "
                    "embeddings are narrower than the decoder's; --feature-merge sum has them alike"
                )
            if self.encoder.embed_path:
                raise ValueError(
                    "--feature-merge concatenate: expected without --encoder-embed-path, whose embeddings are wider; "
                    "--feature-merge sum takes them"
                )
            if self.embeddings.dim >= self.encoder.embed_dim:
                raise ValueError(
                    f"--feature-embed-dim: expected fewer than --encoder-embed-dim {self.encoder.embed_dim}, found "
                    f"{self.embeddings.dim}"
                )
        for side, heads in (("decoder", self.decoder.attention_heads), ("encoder", self.encoder.attention_heads)):
            if not isinstance(heads, int) or heads < 1:
                raise ValueError(
                    f"--{side}-attention-heads: expected a number of at least 1, found {short_repr(heads)}"
                )
        if self.syntax_heads is not None and not 1 <= self.syntax_heads <= heads:
            raise ValueError(
                f"--syntax-heads: expected 1 to {heads} (--encoder-attention-heads), found {self.syntax_heads}"
            )
        if self.encoder.xformers_att_config is not None:
            raise ValueError("--encoder-xformers-att-config: syntax attention cannot be computed by xFormers")
        _ = self.syntax_layer_numbers


#: Where else syntax enters, and what a configuration calls it: each declares its options.
PARTS: dict[str, type] = {
    "embeddings": FeatureEmbeddingOptions,
    "mixing": TreeMixingOptions,
    "fused": FusionOptions,
    "predicted": PredictionOptions,
}


def _part(part: type, values: Any) -> Any:
    return part(**{o.field: getattr(values, o.key) for o in options_of(part)})


def _of_model() -> list[Option]:
    """The options of the model and of its parts, without the masks'."""
    return [*options_of(SyntaxTransformerConfig), *(o for part in PARTS.values() for o in options_of(part))]


def all_options() -> list[Option]:
    """Our options: the model's, its parts', and each registered mask's."""
    of_model = _of_model()
    masks = "; ".join(f"{name}: {_summary(bias_type(name))}" for name in bias_names())
    choice = of_model[0]
    of_model[0] = dataclasses.replace(choice, about={**choice.about, "help": f"{choice.about['help']} ({masks})"})
    return [*of_model, *(o for name in bias_names() for o in bias_options(name))]


def _summary(mask: type[SyntaxBias]) -> str:
    """The first line of a mask's docstring, without its full stop."""
    return (mask.__doc__ or "").strip().partition("\n")[0].removesuffix(".")


def option_names() -> list[str]:
    """What our options and those of fairseq's that are not the encoder's or decoder's are called."""
    return [*(field.name for field in fields(SyntaxTransformerConfig)), *(o.key for o in all_options())]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds fairseq's options of a Transformer and ours to a command line, without defaults."""
    gen_parser_from_dataclass(parser, TransformerConfig(), delete_default=True, with_prefix="")
    for o in all_options():
        o.add_to(parser)


def _refuse_unknown(keys: Iterable[str]) -> None:
    """Raises :class:`ValueError` for a key that is called like an option of ours, and is none."""
    known = {o.key for o in all_options()}
    ours = tuple({*(key.partition("_")[0] for key in known), *bias_names()})
    for key in keys:
        if key == "cpu_dropout":
            raise ValueError("cpu_dropout: expected as an option of the task (task.cpu_dropout), found as the model's")
        if key.startswith(ours) and key not in known:
            raise ValueError(f"{key}: the model has no such option")

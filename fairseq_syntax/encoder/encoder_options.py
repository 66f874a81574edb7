"""Options of an encoder with syntax, apart from those of the model that it is part of."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from fairseq_syntax.modules.attention import CHOICES, DROPOUT_ON
from fairseq_syntax.modules.biases import SyntaxBias, TableBias, bias_names, bias_options, bias_type
from fairseq_syntax.modules.embedding import LABELLED, FeatureEmbeddingOptions
from fairseq_syntax.modules.fusion import FusionOptions
from fairseq_syntax.modules.gates import COMBINATIONS, GATED
from fairseq_syntax.modules.heads import PredictionOptions
from fairseq_syntax.modules.tree_mixing import TreeMixingOptions
from fairseq_syntax.options import NONE, Option, check_names, names_in, option, options_of, read_options

#: The name of the layer above the encoder in ``--syntax-layers``.
TOP = "top"


@dataclass(frozen=True)
class GateOptions:
    """Gates of the combination ``gate`` (Hou 2024), and their training."""

    hidden_dim: int | None = option(
        None,
        name="gate_hidden_dim",
        at_least=1,
        help="hidden width of the gate network (d' of Hou 2024 eq. 5); default: encoder embed dim / 8",
    )
    output_bias: bool = option(
        True, name="gate_output_bias", help="a bias in the gate network's second layer (b2 of Hou 2024 eq. 5)"
    )
    batch_norm: bool = option(
        True, name="gate_batch_norm", help="batch normalisation of the gate's logits (Hou 2024 eq. 6)"
    )
    statistics: str = option(
        "running",
        name="gate_batch_norm_statistics",
        choices=("running", "batch"),
        help="statistics by which batch normalisation of the gate's logits divides in training: running ones, as in "
        "evaluation, or the batch's",
    )
    eps: float = option(1e-5, name="gate_batch_norm_eps", above=0, help="constant added to the variance")
    warmup_epochs: int = option(
        0,
        name="gate_warmup_epochs",
        at_least=0,
        help="pre-warmup: the gate's parameters stay frozen for N epochs (Hou 2024 §4.5), counted from fairseq's "
        "epoch 1",
    )


@dataclass(frozen=True)
class DecoderOptions:
    """The source's tree and relative positions in the decoder of a translation model; absolute ones of either side."""

    tree_hmm: bool = option(
        False,
        help="mix the decoder's probabilities with those of a hidden Markov model whose transitions are moves in the "
        "source's dependency tree",
    )
    position_bias: bool = option(
        False,
        name="decoder_position_bias",
        help="a learned bias by relative position in the decoder, too, among the tokens that it has written",
    )
    absolute_positions: str = option(
        "both",
        choices=("both", "encoder", "decoder"),
        help="sides with absolute positions",
    )


@dataclass(frozen=True)
class SyntaxEncoderOptions:
    """Options of an encoder with syntax, apart from fairseq's of any model.

    Attributes:
        biases: the syntax masks, in the order of the gates; by default those of `masks`, with their default options.
            They get the labels that `embeddings` have of their features.
        gate, embeddings, mixing, fusion, predictions, decoder: options of gates, embeddings of features, mixtures that
            layers read, the join of the layer on top, predictions from the encoder's output, and what the decoder gets
            of the tree and of positions.
        encoder_layers: the number of the encoder's layers, before pruning.
        encoder_heads: the number of its attention heads.
    """

    masks: str = option(
        "slr",
        name="syntax_masks",
        help="comma-separated syntax masks that are mixed with global attention; none, with --position-bias",
    )
    combination: str = option(
        "gate",
        name="syntax_combination",
        choices=COMBINATIONS,
        help="sum of global and syntactic attention, by a gate for each head (Hou 2024 eq. 10) or token (token-gate, "
        "Li et al. 2021), their mean (average), the syntactic ones' mean (pure, Hou 2024 Table 6), or one attention by "
        "the sum of all biases (product)",
    )
    layers: str | None = option(
        None,
        name="syntax_layers",
        help="encoder layers with syntax masks, from 1, such as 1-2 or 1,3-4 (Hou 2024 Table 5); top is one more above "
        "the encoder, whose output joins the encoder's (SG-Net); default: all, without top",
    )
    heads: int | None = option(
        None,
        name="syntax_heads",
        help="number of heads with syntax masks, the first ones (Hou 2024 §5.3); default: all",
    )
    dropout: float = option(
        0.0,
        name="syntax_dropout",
        at_least=0,
        below=1,
        help="syntax ignoring: dropout probability of syntactic attention weights (Hou 2024 §4.5)",
    )
    implementation: str = option(
        "auto",
        name="syntax_attention_impl",
        choices=CHOICES,
        help="implementation of attention: a softmax for each mask (reference), one for all (shared), torch's fused "
        "attention where no dropout acts on a sum of several (sdpa), or what is likely the fastest (auto)",
    )
    dropout_on: str = option(
        "mixture",
        name="syntax_attention_dropout_on",
        choices=DROPOUT_ON,
        help="where --attention-dropout acts in layers with syntax: on the sum of global and syntactic attention, or "
        "on each (experts), a weaker dropout, which torch's fused attention has",
    )
    position_bias: bool = option(
        False,
        help="a learned bias by relative position in all scores of the layers with syntax (the mask called position, "
        "as in T5)",
    )
    bias_table_scale: float = option(
        1.0,
        above=0,
        help="factor S of tables of learned biases and values: a bias is S·θ, and under Adam its step about S times "
        "the learning rate, so that it moves in fine-tuning, too",
    )
    bias_tables_shared: bool = option(
        False,
        help="layers share tables of learned biases, as in T5",
    )
    special_tokens: str = option(
        "open",
        choices=("open", "words"),
        help="<s>, separators and </s> of RoBERTa's examples under syntax masks: they see all and are seen by all "
        "(open), or are words of their own under the mask's law (words)",
    )
    biases: tuple[SyntaxBias, ...] = ()
    gate: GateOptions = field(default_factory=GateOptions)
    embeddings: FeatureEmbeddingOptions = field(default_factory=FeatureEmbeddingOptions)
    mixing: TreeMixingOptions = field(default_factory=TreeMixingOptions)
    fusion: FusionOptions = field(default_factory=FusionOptions)
    predictions: PredictionOptions = field(default_factory=PredictionOptions)
    decoder: DecoderOptions = field(default_factory=DecoderOptions)
    encoder_layers: int = 1
    encoder_heads: int = 1

    @classmethod
    def read(cls, values: Any, *, encoder_layers: int, encoder_heads: int) -> SyntaxEncoderOptions:
        """Read the options from a command line's namespace, or from the keys of fairseq-hydra-train.

        Args:
            values: holds options by their keys; a missing one has its default.
            encoder_layers, encoder_heads: see above.

        Raises:
            ValueError: an option has an invalid value; names it.
        """
        own = read_options(options_of(cls), values)
        # Checked also where not chosen.
        of_masks = {name: read_options(bias_options(name), values) for name in bias_names()}
        chosen = [name for name in names_in(own["masks"], bias_names()) if name in of_masks]
        options = cls(
            **own,
            **{name: part(**read_options(options_of(part), values)) for name, part in PARTS.items()},
            biases=tuple(bias_type(name)(**of_masks[name]) for name in chosen),
            encoder_layers=encoder_layers,
            encoder_heads=encoder_heads,
        )
        options._check()
        return options

    def __post_init__(self) -> None:
        if not self.biases:
            names = names_in(self.masks, bias_names())
            object.__setattr__(self, "biases", tuple(bias_type(name)() for name in names if name in bias_names()))
        labels = self.labels
        object.__setattr__(self, "biases", tuple(bias.with_labels(labels) for bias in self.biases))

    def _check(self) -> None:
        """Raises :class:`ValueError` for options that exclude each other, or do not fit the encoder."""
        check_names("--syntax-masks", self.masks, bias_names())
        in_encoder = self.has_top or self.mixing.on or self.embeddings.names or self.predictions.parents
        elsewhere = in_encoder or self.decoder.tree_hmm
        if not self.biases and not self.position_bias and not elsewhere:
            raise ValueError(
                f"--syntax-masks: expected some of {','.join(bias_names())}, found none, which needs --position-bias, "
                f"or syntax in another place: --feature-embeddings, --tree-mixing, --parent-prediction, "
                f"--tree-hmm, --syntax-layers {TOP}"
            )
        if "lisa" in self.mask_names and self.combination == "product":
            raise ValueError(
                "--syntax-combination product: expected without the mask lisa, which leaves no scores to bias"
            )
        if self.predictions.distances and not self.mixing.on:
            raise ValueError("--distance-prediction: expected with --tree-mixing, whose distances it hides")
        if self.heads is not None and not 1 <= self.heads <= self.encoder_heads:
            raise ValueError(
                f"--syntax-heads: expected 1 to {self.encoder_heads} (--encoder-attention-heads), found {self.heads}"
            )
        _ = self.chosen_layers

    @property
    def mask_names(self) -> list[str]:
        """Names of the syntax masks, in the order of the gates, which is not the user's."""
        return [bias.name for bias in self.biases]

    @property
    def labelled(self) -> tuple[str, ...]:
        """Features on whose labels weights depend: of embeddings, and of biases."""
        of_biases = (name for bias in self.biases for name in bias.features if name in LABELLED)
        return tuple(dict.fromkeys((*self.embeddings.names, *of_biases)))

    @property
    def labels(self) -> dict[str, tuple[str, ...]]:
        """The labels of :attr:`labelled` that are known, in the order of the model's numbers."""
        return self.embeddings.labels_of(self.labelled)

    @property
    def gated(self) -> bool:
        """Masks are mixed by gates."""
        return self.combination in GATED and bool(self.biases)

    @property
    def gated_by_head(self) -> bool:
        """Masks are mixed by gates that :class:`GateOptions` apply to."""
        return self.gated and self.combination == "gate"

    @property
    def has_top(self) -> bool:
        """There is one more layer, above the encoder."""
        return TOP in self._layer_parts

    @property
    def _layer_parts(self) -> list[str]:
        written = self.layers or f"1-{self.encoder_layers}"
        return [part.strip() for part in str(written).split(",")]  # a number, if YAML says 2

    @property
    def chosen_layers(self) -> set[int]:
        """``--syntax-layers`` spelled out: numbers from 1 to the number of encoder layers, before pruning."""
        layers: set[int] = set()
        for part in dict.fromkeys(self._layer_parts):
            if part == TOP:
                continue
            match = re.fullmatch(r"(\d+)(?:-(\d+))?", part)
            if not match:
                raise ValueError(f"--syntax-layers: expected numbers, ranges such as 3-4, and {TOP}, found {part!r}")
            first, last = int(match[1]), int(match[2] or match[1])
            if not 1 <= first <= last <= self.encoder_layers:
                raise ValueError(f"--syntax-layers: expected layers within 1-{self.encoder_layers}, found {part!r}")
            layers.update(range(first, last + 1))
        return layers

    @property
    def syntax_layers(self) -> set[int]:
        """Numbers, from 1, of the layers with attention biases; none where there are no biases."""
        return self.chosen_layers if self.biases or self.position_bias else set()

    def with_labels(self, labels: Mapping[str, Sequence[str]]) -> SyntaxEncoderOptions:
        """Return the options with the labels, from number 0, of features.

        Raises:
            ValueError: a label has white space in it, which the option could not hold.
        """
        for name, known in labels.items():
            if wrong := [label for label in known if len(label.split()) != 1]:
                raise ValueError(f"--{name}-labels: expected labels without white space, found {wrong[0]!r}")
        return replace(self, embeddings=self.embeddings.with_labels(labels))

    def recorded(self) -> dict[str, Any]:
        """Return all options by their keys, as a checkpoint records them: also defaults, which may change."""
        parts = [self, *(getattr(self, name) for name in PARTS)]
        found = {o.key: getattr(part, o.field) for part in parts for o in options_of(type(part))}
        found |= {o.key: getattr(bias, o.field) for bias in self.biases for o in bias_options(bias.name)}
        found["syntax_masks"] = ",".join(self.mask_names) or NONE
        found["syntax_layers"] = self.spell_layers(self.chosen_layers)
        return found

    def spell_layers(self, numbers: set[int]) -> str:
        """Write ``--syntax-layers`` for layers of these numbers, and for that on top, if there is one."""
        return ",".join([*map(str, sorted(numbers)), *([TOP] if self.has_top else [])])

    @property
    def has_tables(self) -> bool:
        """There are tables of learned biases."""
        return (
            self.position_bias or self.decoder.position_bias or any(isinstance(bias, TableBias) for bias in self.biases)
        )

    def semantics(self, activation: str) -> dict[str, Any]:
        """Return the options in effect that give weights a meaning beyond their shapes.

        Args:
            activation: that of the feed-forward networks.
        """
        found: dict[str, Any] = {
            "syntax_masks": ",".join(self.mask_names) or NONE,
            "syntax_combination": self.combination,
            "position_bias": self.position_bias,
            "syntax_layers": self.spell_layers(self.chosen_layers),
            "syntax_heads": "all" if self.heads in (None, self.encoder_heads) else self.heads,
            "feature_embeddings": ",".join(self.embeddings.names),
            "tree_mixing": self.mixing.on,
        }
        if any(bias.features for bias in self.biases):
            found["special_tokens"] = self.special_tokens
        if self.has_tables:
            found |= {"bias_table_scale": self.bias_table_scale, "bias_tables_shared": self.bias_tables_shared}
        for bias in self.biases:
            found |= bias.effective_options()
        if self.has_top:
            found["fusion"] = self.fusion.kind
            if self.fusion.kind == "sum" and not self.fusion.learned:
                found["fusion_weight"] = self.fusion.weight
        if self.embeddings.names:
            found["feature_merge"] = self.embeddings.merge
            found["feature_weight_learned"] = self.embeddings.weight_learned
        found |= self.embeddings.write_labels(self.labels)
        if self.mixing.on:
            found["tree_mixing_activation"] = self.mixing.activation or activation
            found["tree_mixing_plain"] = self.mixing.plain
        if self.decoder.tree_hmm:
            found["tree_hmm"] = True
        if self.decoder.position_bias:
            found["decoder_position_bias"] = True
        if self.decoder.absolute_positions != "both":
            found["absolute_positions"] = self.decoder.absolute_positions
        if self.gated_by_head and self.gate.batch_norm:
            found["gate_batch_norm_eps"] = self.gate.eps
        return found


#: Places where syntax enters beside attention: attributes of :class:`SyntaxEncoderOptions` that declare options.
PARTS: dict[str, type] = {
    "gate": GateOptions,
    "embeddings": FeatureEmbeddingOptions,
    "mixing": TreeMixingOptions,
    "fusion": FusionOptions,
    "predictions": PredictionOptions,
    "decoder": DecoderOptions,
}


def encoder_options() -> list[Option]:
    """Return all options: the encoder's, its parts', and each registered mask's."""
    summaries = {name: (bias_type(name).__doc__ or "").strip().partition("\n")[0] for name in bias_names()}
    masks = "; ".join(f"{name}: {summary.removesuffix('.')}" for name, summary in summaries.items())
    choice, *others = options_of(SyntaxEncoderOptions)
    choice = replace(choice, about={**choice.about, "help": f"{choice.about['help']} ({masks})"})
    of_parts = [o for part in PARTS.values() for o in options_of(part)]
    return [choice, *others, *of_parts, *(o for name in bias_names() for o in bias_options(name))]

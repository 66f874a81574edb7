"""The gated syntax Transformer (Hou 2024): configuration, encoder, model and named architectures."""

# No postponed annotations here: fairseq reads the types of a configuration's fields at run time.

import argparse
import itertools
import logging
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, fields
from enum import EnumType
from typing import Any, Optional

from fairseq import hub_utils
from fairseq.checkpoint_utils import prune_state_dict
from fairseq.dataclass import ChoiceEnum
from fairseq.dataclass.utils import gen_parser_from_dataclass
from fairseq.distributed import fsdp_wrap
from fairseq.models import register_model, register_model_architecture
from fairseq.models.transformer import (
    TransformerConfig,
    TransformerEncoderBase,
    TransformerModelBase,
    base_architecture,
)
from fairseq.modules.checkpoint_activations import checkpoint_wrapper
from fairseq.tasks import TASK_REGISTRY
from omegaconf import OmegaConf, open_dict
from torch import Tensor, nn

from fairseq_syntax.compat.safe_loading import weights_of
from fairseq_syntax.inference.hub import SyntaxHubInterface, check_options, find_checkpoints
from fairseq_syntax.inference.reader import NEW_TEXT_OPTIONS
from fairseq_syntax.models.encoder_layer import SyntaxEncoderLayer
from fairseq_syntax.nn.calls import extra_arguments, one_thread
from fairseq_syntax.nn.gate import SyntaxGate
from fairseq_syntax.nn.masks import MASK_FEATURES, SyntaxMasks
from fairseq_syntax.nn.syntax_attention import SyntaxAttention
from fairseq_syntax.tasks.cpu_dropout import use_fast_dropout
from syntax_preprocess.errors import InputError, shown

logger = logging.getLogger(__name__)


@dataclass
class _SyntaxOptions(TransformerConfig):
    """Those of our options whose command line fairseq can write by itself."""

    syntax_masks: str = field(
        default="slr",
        metadata={
            "help": "comma-separated syntax masks that are mixed with global attention: slr (syntactic local range "
            "of constituency trees, Hou 2024 §3.2), sdoi (dependency ancestors, SG-Net); default: slr"
        },
    )
    slr: ChoiceEnum(["soft", "hard", "strict"]) = field(  # type: ignore[valid-type]
        default="soft",
        metadata={
            "help": "soft range (Hou 2024 eq. 3), hard range (its §3.2: ties are inside), or its eq. 1 to the letter "
            "(strict: ties are outside); default: soft"
        },
    )
    slr_temperature: float = field(
        default=10.0,
        metadata={"help": "temperature of the soft range (Hou 2024 §5.3); default: 10"},
    )
    sdoi_subwords: ChoiceEnum(["share", "first"]) = field(  # type: ignore[valid-type]
        default="share",
        metadata={
            "help": "subwords under sdoi (SG-Net): share their word's row and column, or the first one is the parent "
            "of the others; default: share"
        },
    )
    syntax_combination: ChoiceEnum(["gate", "average", "pure"]) = field(  # type: ignore[valid-type]
        default="gate",
        metadata={
            "help": "gated sum of global and syntactic attention (Hou 2024 eq. 10), their mean, or the mean of the "
            "syntactic ones alone (its Table 6); default: gate"
        },
    )
    syntax_layers: Optional[str] = field(
        default=None,
        metadata={
            "help": "encoder layers that syntax enters, counted from 1, such as 1-2 or 1,3-4 (Hou 2024 Table 5); "
            "default: all"
        },
    )
    syntax_heads: Optional[int] = field(
        default=None,
        metadata={"help": "number of heads that syntax enters, the first ones (Hou 2024 §5.3); default: all"},
    )
    gate_hidden_dim: Optional[int] = field(
        default=None,
        metadata={"help": "hidden width of the gate network (d' of Hou 2024 eq. 5); default: encoder embed dim / 8"},
    )
    syntax_attention: ChoiceEnum(["auto", "plain", "shared", "fused"]) = field(  # type: ignore[valid-type]
        default="auto",
        metadata={
            "help": "how attention is computed, the same up to rounding: a softmax for each mask (plain), one for all "
            "(shared), torch's fused attention where no dropout acts on its weights (fused), or by what is likely the "
            "fastest (auto); default: auto"
        },
    )
    cpu_dropout: ChoiceEnum(["fast", "torch"]) = field(  # type: ignore[valid-type]
        default="fast",
        metadata={
            "help": "how the model's dropout modules draw on a CPU: 16 random bits an entry, their probabilities "
            "rounded to multiples of 2^-16 (fast), or as torch does, 64 bits an entry (torch); attention that fairseq "
            "leaves to torch has torch's; default: fast"
        },
    )
    gate_batch_norm_statistics: ChoiceEnum(["running", "batch"]) = field(  # type: ignore[valid-type]
        default="running",
        metadata={
            "help": "what batch normalisation of the gate's logits divides by in training: running statistics, as in "
            "evaluation, or the batch's, as usual; default: running"
        },
    )
    gate_batch_norm_eps: float = field(
        default=1e-5,
        metadata={"help": "what it adds to the variance, a floor under it; default: 1e-5"},
    )
    gate_warmup_epochs: int = field(
        default=0,
        metadata={
            "help": "pre-warmup: the gate's parameters stay frozen for this many epochs (Hou 2024 §4.5), "
            "counted from fairseq's epoch 1; default: 0"
        },
    )
    syntax_dropout: float = field(
        default=0.0,
        metadata={
            "help": "syntax ignoring: dropout probability of syntactic attention weights (Hou 2024 §4.5); default: 0"
        },
    )


@dataclass
class GatedSyntaxTransformerConfig(_SyntaxOptions):
    """Configuration of :class:`GatedSyntaxTransformerModel`: fairseq's Transformer's and the syntax options."""

    gate_batch_norm: bool = field(
        default=True,
        metadata={"help": "batch normalisation of the gate's logits (Hou 2024 eq. 6); default: on"},
    )

    @property
    def syntax_mask_names(self) -> list[str]:
        """``syntax_masks``, split; in the order of :data:`MASK_FEATURES`, not the user's. It is that of the gates."""
        known = list(MASK_FEATURES)
        names = [name.strip() for name in self.syntax_masks.split(",")]
        return sorted(names, key=lambda name: known.index(name) if name in known else len(known))

    @property
    def gated(self) -> bool:
        """Whether the masks are mixed by gates."""
        return str(self.syntax_combination) == "gate"

    @property
    def syntax_layer_numbers(self) -> set[int]:
        """``syntax_layers``, spelled out: numbers from 1 to the number of encoder layers, before pruning."""
        layers: set[int] = set()
        for part in str(self.syntax_layers or f"1-{self.encoder.layers}").split(","):  # a number, if YAML says 2
            match = re.fullmatch(r"(\d+)(?:-(\d+))?", part.strip())
            if not match:
                raise ValueError(f"--syntax-layers: expected numbers and ranges such as 1,3-4, found {part!r}")
            first, last = int(match[1]), int(match[2] or match[1])
            if not 1 <= first <= last <= self.encoder.layers:
                raise ValueError(f"--syntax-layers: expected layers within 1-{self.encoder.layers}, found {part!r}")
            layers.update(range(first, last + 1))
        return layers

    @property
    def built(self) -> dict[str, Any]:
        """Options, in the place of those that the user wrote, so that a checkpoint records what its weights are.

        Masks have our order. A pruned model (``encoder_layers_to_keep``, counted from 0) is the smaller one that it is,
        with its layers as guided as they were trained.

        Raises:
            ValueError: pruning leaves no layer that syntax enters.
        """
        found: dict[str, Any] = {"syntax_masks": ",".join(self.syntax_mask_names)}
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
                guided = [str(new) for new, old in enumerate(kept, start=1) if old in self.syntax_layer_numbers]
                if not guided:
                    raise ValueError(
                        f"--encoder-layers-to-keep: expected one of the layers that syntax enters (from 0, "
                        f"{', '.join(str(old - 1) for old in sorted(self.syntax_layer_numbers))}), "
                        f"found {asked}"
                    )
                found["syntax_layers"] = ",".join(guided)
        return found

    @property
    def meaning(self) -> dict[str, Any]:
        """What weights mean beyond their names and shapes: the options that say so and have an effect, by name."""
        built = self.built
        found: dict[str, Any] = {
            "syntax_masks": built["syntax_masks"],
            "syntax_combination": str(self.syntax_combination),
            "syntax_layers": built.get("syntax_layers", ",".join(map(str, sorted(self.syntax_layer_numbers)))),
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
        if "slr" in self.syntax_mask_names:
            found["slr"] = str(self.slr)
            if found["slr"] == "soft":
                found["slr_temperature"] = float(self.slr_temperature)
        if "sdoi" in self.syntax_mask_names:
            found["sdoi_subwords"] = str(self.sdoi_subwords)
        if self.gated and self.gate_batch_norm:
            found["gate_batch_norm_eps"] = float(self.gate_batch_norm_eps)
        return found

    @classmethod
    def from_namespace(cls, args: Any) -> "GatedSyntaxTransformerConfig":
        """From a command line's arguments, or from the keys that fairseq-hydra-train read.

        Raises:
            ValueError: a key is called like an option of ours, and is none.
        """
        known = {option.name for option in fields(cls)}
        for key in vars(args) if isinstance(args, (argparse.Namespace, cls)) else args:
            if key.startswith(("gate_", "slr", "sdoi", "syntax_", "cpu_dropout")) and key not in known:
                raise ValueError(f"{key}: gated_syntax_transformer has no such option")
        cfg: GatedSyntaxTransformerConfig = super().from_namespace(args)
        return cfg

    def check(self) -> None:
        """Raises :class:`ValueError`, naming the option, for a value that cannot be meant."""
        for name, kind in _SyntaxOptions.__annotations__.items():
            if isinstance(kind, EnumType) and str(getattr(self, name)) not in map(str, kind):
                option, found = name.replace("_", "-"), getattr(self, name)
                raise ValueError(f"--{option}: expected one of {', '.join(map(str, kind))}, found {found!r}")
        names = self.syntax_mask_names
        if len(set(names)) < len(names) or not set(names) <= set(MASK_FEATURES):
            raise ValueError(
                f"--syntax-masks: expected some of {','.join(MASK_FEATURES)}, each once, found {self.syntax_masks!r}"
            )
        for side, heads in (("decoder", self.decoder.attention_heads), ("encoder", self.encoder.attention_heads)):
            if not isinstance(heads, int) or heads < 1:
                raise ValueError(f"--{side}-attention-heads: expected a number of at least 1, found {shown(heads)}")
        if self.syntax_heads is not None and not 1 <= self.syntax_heads <= heads:
            raise ValueError(
                f"--syntax-heads: expected 1 to {heads} (--encoder-attention-heads), found {self.syntax_heads}"
            )
        if self.gate_hidden_dim is not None and self.gate_hidden_dim < 1:
            raise ValueError(f"--gate-hidden-dim: expected at least 1, found {self.gate_hidden_dim}")
        if not self.gate_batch_norm_eps > 0:
            raise ValueError(f"--gate-batch-norm-eps: expected a number above 0, found {self.gate_batch_norm_eps}")
        if self.gate_warmup_epochs < 0:
            raise ValueError(f"--gate-warmup-epochs: expected at least 0, found {self.gate_warmup_epochs}")
        if not self.slr_temperature > 0:
            raise ValueError(f"--slr-temperature: expected a number above 0, found {self.slr_temperature}")
        if not 0 <= self.syntax_dropout < 1:
            raise ValueError(f"--syntax-dropout: expected a probability in [0, 1), found {self.syntax_dropout}")
        if self.encoder.xformers_att_config is not None:
            raise ValueError("--encoder-xformers-att-config: syntax attention cannot be computed by xFormers")
        _ = self.syntax_layer_numbers


class GatedSyntaxTransformerEncoder(TransformerEncoderBase):
    """fairseq's Transformer encoder with syntax in the self-attention of the chosen layers.

    The batch's masks are built once, on the device of its features, and shared by all layers.
    """

    def __init__(self, cfg: GatedSyntaxTransformerConfig, dictionary: Any, embed_tokens: nn.Embedding, **kwargs: Any):
        self._numbers = itertools.count(1)  # of the layers, in the order in which super() builds them
        super().__init__(cfg, dictionary, embed_tokens, **kwargs)
        del self._numbers
        self.masks = SyntaxMasks(
            names=cfg.syntax_mask_names,
            slr=cfg.slr,
            slr_temperature=cfg.slr_temperature,
            sdoi_subwords=cfg.sdoi_subwords,
        )

    def __prepare_scriptable__(self) -> nn.Module:  # torch.jit.script calls it of a module and all within
        raise NotImplementedError(
            "TorchScript cannot express how an encoder layer gets the syntax features of a batch: "
            "use torch.compile of the encoder, or the model as it is"
        )

    def build_encoder_layer(self, cfg: GatedSyntaxTransformerConfig) -> nn.Module:
        if next(self._numbers) not in cfg.syntax_layer_numbers:
            return super().build_encoder_layer(cfg)
        layer: nn.Module = SyntaxEncoderLayer(cfg, return_fc=self.return_fc)
        if cfg.checkpoint_activations:
            layer = checkpoint_wrapper(layer, offload_to_cpu=cfg.offload_activations)
        return fsdp_wrap(layer, min_num_params=0 if cfg.checkpoint_activations else cfg.min_params_to_wrap)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        with one_thread:  # else the pass of another thread would add its syntax to this one
            return super().__call__(*args, **kwargs)

    def forward(
        self,
        src_tokens: Tensor,
        src_lengths: Tensor | None = None,
        return_all_hiddens: bool = False,
        token_embeddings: Tensor | None = None,
        src_syntax: Mapping[str, Tensor] | None = None,
    ) -> dict[str, list[Tensor]]:
        """As fairseq's encoder, on ``(batch, n)`` tokens, guided by `src_syntax`.

        Args:
            src_syntax: the features of the masks, each ``(batch, n)``; see :mod:`fairseq_syntax.nn.masks`.

        Raises:
            ValueError: a feature is missing. The model never runs without syntax by accident.
        """
        missing = [name for name in self.masks.features if name not in (src_syntax or {})]
        if src_syntax is None or missing:
            raise ValueError(
                f"the model's syntax masks ({', '.join(self.masks.names)}) need net_input['src_syntax'] to hold "
                f"{', '.join(self.masks.features)}; missing: {', '.join(missing)}. Does the data come from "
                "--task syntax_translation?"
            )
        # Not by iterating over self.layers: under layer drop, that draws which layers run.
        guided = [module for module in self.layers.modules() if isinstance(module, SyntaxEncoderLayer)]
        with extra_arguments(guided, syntax=self.masks(src_syntax)):
            return super().forward(src_tokens, src_lengths, return_all_hiddens, token_embeddings)


@register_model("gated_syntax_transformer")
class GatedSyntaxTransformerModel(TransformerModelBase):
    """Transformer whose encoder self-attention is guided by the source sentence's parse (Hou 2024).

    Registered without a dataclass: fairseq's registration of subclasses of ``TransformerConfig`` ignores their
    options, so the command line is written here and read back by the configuration's ``from_namespace``.
    """

    @classmethod
    def add_args(cls, parser: argparse.ArgumentParser) -> None:
        gen_parser_from_dataclass(parser, _SyntaxOptions(), delete_default=True, with_prefix="")
        parser.add_argument(
            "--gate-batch-norm",
            action=argparse.BooleanOptionalAction,
            help=GatedSyntaxTransformerConfig.__dataclass_fields__["gate_batch_norm"].metadata["help"],
        )

    @classmethod
    def build_model(cls, args: Any, task: Any) -> "GatedSyntaxTransformerModel":
        cfg = GatedSyntaxTransformerConfig.from_namespace(args)
        cfg.check()
        with open_dict(args) if OmegaConf.is_config(args) else nullcontext():
            for name, value in cfg.built.items():
                setattr(cfg, name, value)
                setattr(args, name, value)
        model = super().build_model(cfg, task)
        model.args = args  # as of fairseq's legacy models, for code that asks them for their options
        if str(cfg.cpu_dropout) == "fast":
            use_fast_dropout(model)
        return model

    @classmethod
    def build_encoder(
        cls, cfg: GatedSyntaxTransformerConfig, src_dict: Any, embed_tokens: nn.Embedding
    ) -> GatedSyntaxTransformerEncoder:
        return GatedSyntaxTransformerEncoder(cfg, src_dict, embed_tokens)

    @classmethod
    def from_pretrained(
        cls,
        model_name_or_path: str,
        checkpoint_file: str = "model.pt",
        data_name_or_path: str = ".",
        **kwargs: Any,
    ) -> SyntaxHubInterface:
        """Loads a trained model to translate raw text with.

        Args:
            model_name_or_path: folder of checkpoints.
            checkpoint_file: its name there; several, with ``:`` between them, are an ensemble.
            data_name_or_path: folder of the dictionaries and the features' signature, that is a data-bin.
            **kwargs: options of the checkpoint's configuration to change, such as ``tokenizer="moses"``,
                ``bpe="subword_nmt"``, ``bpe_codes=...``, ``parser``, ``stanza_dir``, ``parser_device``. A tokenizer is
                by default that of the model's languages.

        Raises:
            InputError: there is no such folder, checkpoint or data-bin, or it is of other languages.
            TypeError: nothing has such an option.
            ValueError: there is no such tokenizer or bpe.
        """
        paths = find_checkpoints(model_name_or_path, checkpoint_file, data_name_or_path)
        check_options(kwargs, paths, of_model=[option.name for option in fields(GatedSyntaxTransformerConfig)])
        with weights_of(checkpoint_file, f"the model's configuration and the dictionaries of {data_name_or_path}"):
            loaded = hub_utils.from_pretrained(model_name_or_path, checkpoint_file, data_name_or_path, **kwargs)
        cfg, task = loaded["args"], loaded["task"]
        if not isinstance(task, TASK_REGISTRY["syntax_translation"]):
            raise InputError(
                paths[0], None, f"expected a model of --task syntax_translation, found one of {type(task).__name__}"
            )
        task.for_new_text = True
        with open_dict(cfg):
            # fairseq changes only what the checkpoint's configuration has; an older one lacks some of these.
            for name in NEW_TEXT_OPTIONS:
                setattr(task.cfg, name, kwargs.get(name, getattr(task.cfg, name)))
            for name in ("source_lang", "target_lang"):
                if name in (cfg.tokenizer or {}) and name not in kwargs:
                    cfg.tokenizer[name] = getattr(task.cfg, name)
            # fairseq prefers files of certain names beside the checkpoint to those that are given.
            for name in kwargs.keys() & set(cfg.bpe or ()):
                cfg.bpe[name] = kwargs[name]
        return SyntaxHubInterface(cfg, task, loaded["models"])

    @property
    def syntax_features(self) -> tuple[str, ...]:
        """The features that the model's batches must have."""
        return self.encoder.masks.features

    def set_epoch(self, epoch: int) -> None:
        """Freezes the gates while pre-warmup lasts.

        `epoch` is fairseq's, counted from 1: resuming goes on counting, ``--reset-dataloader`` starts again.
        """
        frozen = epoch <= self.cfg.gate_warmup_epochs
        for gate in self.gates.values():
            gate.frozen = frozen
        if frozen:
            logger.info(
                "pre-warmup: the gates are frozen in epoch %d, up to epoch %d", epoch, self.cfg.gate_warmup_epochs
            )

    def frozen_parameters(self) -> list[nn.Parameter]:
        """The parameters that optimizer steps must not move at present."""
        return [p for gate in self.gates.values() if gate.frozen for p in gate.parameters()]

    @property
    def guided(self) -> dict[int, SyntaxAttention]:
        """The syntax-guided self-attentions by the number, from 1, of their encoder layer."""
        layers = self.encoder.layers  # by index: under layer drop, iterating draws random numbers
        modules = ((i + 1, module) for i in range(len(layers)) for module in layers[i].modules())
        return {number: module for number, module in modules if isinstance(module, SyntaxAttention)}

    @property
    def gates(self) -> dict[int, SyntaxGate]:
        """Their gates; none unless the masks are mixed by gates."""
        return {number: module.gate for number, module in self.guided.items() if module.gate is not None}

    @property
    def gate_names(self) -> list[str]:
        """What the log calls the gates' outputs, in the order layers, masks, heads."""
        return [
            f"gate_{mask}_l{layer}_h{head + 1}"
            for layer, gate in self.gates.items()
            for mask in self.encoder.masks.names
            for head in range(gate.num_heads)
        ]

    def load_state_dict(
        self, state_dict: dict[str, Tensor], strict: bool = True, model_cfg: Any = None, args: Any = None
    ) -> Any:
        """As fairseq's, which would look for our gates before it has pruned (``encoder_layers_to_keep``)."""
        if model_cfg is not None:
            state_dict = prune_state_dict(state_dict, model_cfg)
        return super().load_state_dict(state_dict, strict, model_cfg, args)

    def upgrade_state_dict(self, state_dict: dict[str, Tensor]) -> None:
        """As fairseq's. A stock Transformer's state (``--finetune-from-model``) has no gates: they start fresh."""
        super().upgrade_state_dict(state_dict)
        names = {module: name for name, module in self.named_modules()}
        fresh = {f"{names[g]}.{key}": value for g in self.gates.values() for key, value in g.state_dict().items()}
        if fresh and fresh.keys().isdisjoint(state_dict):
            logger.info("the checkpoint has no gates; these start fresh: %s", ", ".join(fresh))
            state_dict.update(fresh)

    def make_generation_fast_(
        self, *, retain_dropout_modules: str | Sequence[str] | None = None, **kwargs: Any
    ) -> None:
        """As fairseq's. A name in `retain_dropout_modules` stands for the class of that name, with or without fairseq's
        ``Base``, and for those made from it: ``TransformerEncoderLayer`` for all layers of the encoder."""
        if retain_dropout_modules is not None:
            if isinstance(retain_dropout_modules, str):  # as fairseq's command line hands it on
                retain_dropout_modules = re.findall(r"\w+", retain_dropout_modules)
            kinds = {type(module) for module in self.modules()}
            found = {name: {kind for kind in kinds if name in _names(kind)} for name in retain_dropout_modules}
            for name in (name for name, matching in found.items() if not matching):
                logger.warning("--retain-dropout-modules: the model has no module %s", name)
            matching = set().union(*found.values())
            called = {kind.__name__ for kind in matching} | {kind.__name__.removesuffix("Base") for kind in matching}
            kwargs["retain_dropout_modules"] = sorted(called)
        super().make_generation_fast_(**kwargs)

    def forward(
        self,
        src_tokens: Tensor,
        src_lengths: Tensor,
        prev_output_tokens: Tensor,
        src_syntax: Mapping[str, Tensor] | None = None,
        **kwargs: Any,
    ) -> Any:
        """As fairseq's Transformer, with the source's features for the encoder."""
        with extra_arguments([self.encoder], src_syntax=src_syntax):
            return super().forward(src_tokens, src_lengths, prev_output_tokens, **kwargs)

    def extract_features(
        self,
        src_tokens: Tensor,
        src_lengths: Tensor,
        prev_output_tokens: Tensor,
        src_syntax: Mapping[str, Tensor] | None = None,
        **kwargs: Any,
    ) -> Any:
        """As fairseq's Transformer, with the source's features for the encoder."""
        with extra_arguments([self.encoder], src_syntax=src_syntax):
            return super().extract_features(src_tokens, src_lengths, prev_output_tokens, **kwargs)


def _names(kind: type) -> set[str]:
    """What a class, and those that it is made from, are called."""
    names = {base.__name__ for base in kind.__mro__}
    return names | {name.removesuffix("Base") for name in names}


def _architecture(name: str, **defaults: Any) -> Callable[[Any], None]:
    """Registers an architecture: where the command line says nothing, `defaults` hold, then fairseq's."""

    @register_model_architecture("gated_syntax_transformer", name)
    def set_defaults(args: Any) -> None:
        for option, value in defaults.items():
            setattr(args, option, getattr(args, option, value))
        base_architecture(args)

    return set_defaults


#: fairseq's base sizes: 512/2048/8, 6+6 layers.
_architecture("gated_syntax_transformer")

#: The five data sets of Hou 2024: sizes and dropout of §5.1; ignore rates and locking epochs of Table 2.
for _name, _syntax_dropout, _gate_warmup_epochs in (
    ("iwslt_de_en", 0.4, 80),
    ("iwslt_en_de", 0.0, 50),
    ("nc11_de_en", 0.2, 60),
    ("nc11_en_de", 0.2, 80),
    ("wmt18_en_tr", 0.1, 70),
):
    _architecture(
        f"gated_syntax_transformer_{_name}",
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
    )

#: For tests and first steps.
_architecture(
    "gated_syntax_transformer_tiny",
    encoder_embed_dim=64,
    encoder_ffn_embed_dim=128,
    encoder_attention_heads=4,
    encoder_layers=2,
    decoder_attention_heads=4,
    decoder_layers=2,
)

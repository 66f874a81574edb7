"""The Transformer whose encoder is guided by syntax: how its parts are put together."""

# No postponed annotations here: fairseq reads types at run time.

import argparse
import logging
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import Any

import torch
from fairseq.checkpoint_utils import prune_state_dict
from fairseq.distributed import utils as distributed_utils
from fairseq.models import register_model
from fairseq.models.transformer import TransformerModelBase
from fairseq.tasks import TASK_REGISTRY
from omegaconf import OmegaConf, open_dict
from torch import Tensor, nn

from fairseq_syntax.encoder.attention import SyntaxAttention
from fairseq_syntax.encoder.encoder import SyntaxTransformerEncoder
from fairseq_syntax.models.options import SyntaxTransformerConfig, add_arguments
from fairseq_syntax.models.syntax_model import SyntaxModel
from fairseq_syntax.modules.embedding import InfusedEmbedding
from fairseq_syntax.modules.gates import Gate
from fairseq_syntax.modules.trace import SyntaxTrace

logger = logging.getLogger(__name__)

#: What syntax adds to a Transformer's encoder or to its layers, by the beginning of its parameters' names.
_ADDED = (
    *(rf"self_attn\.{part}" for part in ("gate", "experts", "position_bias")),
    *("tree_mixing", "top", "fusion", "predictor", r"embed_tokens\.tables"),
)


@register_model("gated_syntax_transformer")
class SyntaxTransformerModel(SyntaxModel, TransformerModelBase):
    """Transformer whose encoder self-attention is guided by the source sentence's parse (Hou 2024).

    Registered without a dataclass: fairseq's registration of subclasses of ``TransformerConfig`` ignores their
    options, so the command line is written here and read back by the configuration's ``from_namespace``.
    """

    encoder: SyntaxTransformerEncoder

    @classmethod
    def add_args(cls, parser: argparse.ArgumentParser) -> None:
        add_arguments(parser)

    @classmethod
    def build_model(cls, args: Any, task: Any) -> "SyntaxTransformerModel":
        cfg = SyntaxTransformerConfig.from_namespace(args)
        cfg.fill_label_vocabulary(getattr(task, "labels_of", None))
        with open_dict(args) if OmegaConf.is_config(args) else nullcontext():
            for name, value in cfg.built.items():
                setattr(cfg, name, value)
                setattr(args, name, value)
        model = super().build_model(cfg, task)
        model.args = args  # as of fairseq's legacy models, for code that asks them for their options
        return model

    @classmethod
    def build_encoder(
        cls, cfg: SyntaxTransformerConfig, src_dict: Any, embed_tokens: nn.Embedding
    ) -> SyntaxTransformerEncoder:
        options = cfg.embeddings
        if options.names:
            embed_dim = cfg.encoder.embed_dim
            if options.merge == "concatenate":
                embed_tokens = cls.build_embedding(cfg, src_dict, embed_dim - options.dim)
                nn.init.normal_(embed_tokens.weight, std=embed_dim**-0.5)  # as if features were part of it
                nn.init.zeros_(embed_tokens.weight[embed_tokens.padding_idx])
            embed_tokens = InfusedEmbedding(
                embed_tokens, labels=options.labels, embed_dim=embed_dim, merge=options.merge
            )
        return SyntaxTransformerEncoder(cfg, src_dict, embed_tokens)

    def forward(
        self,
        src_tokens: Tensor,
        src_lengths: Tensor,
        prev_output_tokens: Tensor,
        src_syntax: Mapping[str, Tensor] | None = None,
        return_all_hiddens: bool = True,
        trace: SyntaxTrace | None = None,
        predictions: bool = False,
        **kwargs: Any,
    ) -> Any:
        """As fairseq's Transformer, with the source's features for the encoder.

        Args:
            src_syntax: the features of the masks, each ``(batch, n)``; see :mod:`fairseq_syntax.modules.biases`.
            trace: is filled with what the encoder's guided layers do.
            predictions: whether the second of what is returned also has ``syntax_predictions``, for auxiliary losses:
                see :meth:`SyntaxTransformerEncoder.forward`.
            **kwargs: for the decoder.
        """
        encoder_out = self.encoder(
            src_tokens,
            src_lengths=src_lengths,
            return_all_hiddens=return_all_hiddens,
            src_syntax=src_syntax,
            trace=trace,
            predictions=predictions,
        )
        x, extra = self.decoder(
            prev_output_tokens,
            encoder_out=encoder_out,
            src_lengths=src_lengths,
            return_all_hiddens=return_all_hiddens,
            **kwargs,
        )
        if "syntax_predictions" in encoder_out:
            extra = {**extra, "syntax_predictions": encoder_out["syntax_predictions"]}
        return x, extra

    def extract_features(
        self,
        src_tokens: Tensor,
        src_lengths: Tensor,
        prev_output_tokens: Tensor,
        src_syntax: Mapping[str, Tensor] | None = None,
        **kwargs: Any,
    ) -> Any:
        """As :meth:`forward`, before the projection to the dictionary."""
        return self(src_tokens, src_lengths, prev_output_tokens, src_syntax, features_only=True, **kwargs)

    @property
    def syntax_attentions(self) -> dict[int, SyntaxAttention]:
        """The syntax-guided self-attentions by the number, from 1, of their encoder layer."""
        return {number: layer.self_attn for number, layer in self.encoder.syntax_layers.items()}

    @property
    def gates(self) -> dict[int, Gate]:
        """Their gates; none unless the masks are mixed by gates."""
        return {number: module.gate for number, module in self.syntax_attentions.items() if module.gate is not None}

    @property
    def learned_biases(self) -> tuple[str, ...]:
        """The tables of biases that each guided layer has: masks' names, and ``position_bias``."""
        return next((tuple(attention.tables) for attention in self.syntax_attentions.values()), ())

    @property
    def syntax_features(self) -> tuple[str, ...]:
        """The features that the model's batches must have."""
        return self.encoder.syntax_features

    @property
    def label_features(self) -> tuple[str, ...]:
        """The features that its auxiliary losses need."""
        return self.encoder.label_features

    @property
    def feature_labels(self) -> dict[str, tuple[str, ...]]:
        """What the model's numbers of embedded features number."""
        embedding = self.encoder.embed_tokens
        return embedding.labels if isinstance(embedding, InfusedEmbedding) else {}

    def set_label_vocabulary(self, labels: Mapping[str, Sequence[str]]) -> None:
        """Says what features number in the batches to come."""
        if isinstance(self.encoder.embed_tokens, InfusedEmbedding):
            self.encoder.embed_tokens.set_label_vocabulary(labels)

    def check_backend(self, ddp_backend: str) -> None:
        """Raises :class:`ValueError`: under ``fully_sharded`` there is no pre-warmup."""
        if ddp_backend == "fully_sharded" and self.gates and self.cfg.gate_warmup_epochs:
            raise ValueError(
                "--ddp-backend fully_sharded makes one parameter of all of a layer's, of which pre-warmup cannot keep "
                "the gate's still: give --gate-warmup-epochs 0, or another backend"
            )

    def begin_epoch(self, epoch: int) -> None:
        """Freezes the gates while pre-warmup lasts.

        `epoch` is fairseq's, counted from 1: resuming goes on counting, ``--reset-dataloader`` starts again.
        """
        frozen = epoch <= self.cfg.gate_warmup_epochs
        for gate in self.gates.values():
            gate.frozen = frozen
        if frozen and self.gates:
            logger.info(
                "pre-warmup: the gates are frozen in epoch %d, up to epoch %d", epoch, self.cfg.gate_warmup_epochs
            )

    def frozen_parameters(self) -> list[nn.Parameter]:
        """The parameters of frozen gates."""
        return [p for gate in self.gates.values() if gate.frozen for p in gate.parameters()]

    @contextmanager
    def pass_of_step(self, *, counts: bool) -> Iterator[None]:
        """Hold back the gates' running statistics until :meth:`end_step`.

        They go with the gradients: as long as no parameter has one, what passes have left before was thrown away (loss
        scaling skipped the step, or the device ran out of memory).
        """
        statistics = self.encoder.gate_statistics
        if all(parameter.grad is None for parameter in self.parameters()):
            statistics.clear()
        with statistics.within_step(counts=counts):
            yield

    def end_step(self, *, stepped: bool) -> None:
        """Move the gates' running statistics, by all passes and processes of the step.

        That takes one small all-reduce.

        They are the same in all processes, since they begin so: in evaluation, in checkpoints, and in a step that
        normalises by them.
        """
        statistics = self.encoder.gate_statistics
        if not stepped:
            statistics.clear()
        elif distributed_utils.get_data_parallel_world_size() == 1:
            statistics.move()
        else:
            group = distributed_utils.get_data_parallel_group()
            statistics.move(partial(distributed_utils.all_reduce, group=group))

    def validation_trace(self) -> SyntaxTrace | None:
        """The gates, if there are some."""
        return SyntaxTrace(("gates",)) if self.gates else None

    def validation_sums(self, trace: SyntaxTrace) -> tuple[dict[str, float], int]:
        """Of each mask's gates in a layer the mean over heads, ``gate_MASK_lLAYER``; and each, ``_gate_…_hHEAD``."""
        gates = trace.stacked("gates")  # (batch, layers, masks, heads)
        means = torch.cat([gates.mean(dim=3, keepdim=True), gates], dim=3).double().sum(dim=0)
        names = [
            f"gate_{mask}_l{layer}" if head == 0 else f"_gate_{mask}_l{layer}_h{head}"
            for layer in sorted(trace.layers)
            for mask in self.encoder.bias_builder.names
            for head in range(gates.shape[3] + 1)
        ]
        return dict(zip(names, means.flatten().tolist(), strict=True)), len(gates)

    @classmethod
    def from_pretrained(
        cls,
        model_name_or_path: str,
        checkpoint_file: str = "model.pt",
        data_name_or_path: str = ".",
        **kwargs: Any,
    ) -> Any:
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

        Returns:
            a :class:`~fairseq_syntax.inference.hub.SyntaxHubInterface`.
        """
        task = TASK_REGISTRY["syntax_translation"]  # which knows of models, and not they of it
        return task.from_pretrained(model_name_or_path, checkpoint_file, data_name_or_path, **kwargs)

    def load_state_dict(
        self, state_dict: dict[str, Tensor], strict: bool = True, model_cfg: Any = None, args: Any = None
    ) -> Any:
        """As fairseq's, which would look for our gates before it has pruned (``encoder_layers_to_keep``)."""
        if model_cfg is not None:
            state_dict = prune_state_dict(state_dict, model_cfg)
        return super().load_state_dict(state_dict, strict, model_cfg, args)

    def upgrade_state_dict(self, state_dict: dict[str, Tensor]) -> None:
        """As fairseq's. A stock Transformer's state (``--finetune-from-model``) has none of what syntax adds: it starts
        fresh."""
        super().upgrade_state_dict(state_dict)
        for part in _ADDED:
            of_part = re.compile(rf"encoder\.(layers\.\d+\.(module\.)*)?{part}\.")
            fresh = {name: value for name, value in self.state_dict().items() if of_part.match(name)}
            if fresh and fresh.keys().isdisjoint(state_dict):
                what = part.replace("\\", "").removeprefix("self_attn.")
                logger.info("the checkpoint has no %s; these start fresh: %s", what, ", ".join(fresh))
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


def _names(kind: type) -> set[str]:
    """What a class, and those that it is made from, are called."""
    names = {base.__name__ for base in kind.__mro__}
    return names | {name.removesuffix("Base") for name in names}

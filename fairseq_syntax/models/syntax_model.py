"""Models with a syntax encoder, as tasks see them."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import Any, ClassVar

import torch
from fairseq.checkpoint_utils import prune_state_dict
from fairseq.distributed import utils as distributed_utils
from fairseq.models import BaseFairseqModel
from omegaconf import OmegaConf, open_dict
from torch import Tensor, nn

from fairseq_syntax.encoder.attention import SyntaxAttention
from fairseq_syntax.encoder.encoder import SyntaxTransformerEncoder
from fairseq_syntax.models.transformer_options import SyntaxTransformerConfig
from fairseq_syntax.modules.gates import Gate
from fairseq_syntax.modules.trace import SyntaxTrace

logger = logging.getLogger(__name__)


#: Beginnings of the names of parameters that syntax adds to an encoder or decoder, or to its layers: what they are, and
#: the options that a model has them by.
_PARTS = {
    r"self_attn\.gate": ("gate", "--syntax-masks, --syntax-layers and --syntax-combination"),
    r"self_attn\.experts": ("experts", "--syntax-masks and --syntax-layers"),
    r"self_attn\.position_bias": ("position_bias", "--position-bias and --syntax-layers"),
    "tree_mixing": ("tree_mixing", "--tree-mixing"),
    "top": ("top", "--syntax-layers"),
    "fusion": ("fusion", "--fusion and --syntax-layers"),
    "predictor": ("predictor", "--parent-prediction and --distance-prediction"),
    r"embed_tokens\.tables": ("embed_tokens.tables", "--feature-embeddings"),
    r"embed_tokens\.supertags": ("embed_tokens.supertags", "--supertags"),
    r"embed_tokens\.feature_weight": ("embed_tokens.feature_weight", "--feature-weight-learned"),
    "feature_keys": ("feature_keys", "--feature-keys"),
    "tree_hmm": ("tree_hmm", "--tree-hmm"),
    r"self_attn\.relative_position": ("relative_position", "--decoder-position-bias"),
}


class SyntaxModel(BaseFairseqModel):
    """Base of models with a syntax encoder, as tasks see them."""

    #: Reads the options, and says which of them the weights depend on.
    config_type: ClassVar[type[SyntaxTransformerConfig]] = SyntaxTransformerConfig
    #: Where the syntax encoder is among the names of parameters.
    encoder_prefix: ClassVar[str] = "encoder."

    @property
    def syntax_encoder(self) -> SyntaxTransformerEncoder:
        """The encoder with syntax."""
        encoder: SyntaxTransformerEncoder = self.get_submodule(self.encoder_prefix[:-1])  # type: ignore[assignment]
        return encoder

    @classmethod
    def settled_options(cls, args: Any, task: Any) -> SyntaxTransformerConfig:
        """Read the options of a new model, and replace those in `args` that a checkpoint has to record.

        Args:
            task: may have a method ``label_vocabulary``, which gives the labels of a feature.
        """
        cfg = cls.config_type.from_namespace(args)
        cfg.fill_label_vocabulary(getattr(task, "label_vocabulary", None))
        with open_dict(args) if OmegaConf.is_config(args) else nullcontext():
            for name, value in cfg.recorded_options.items():
                setattr(args, name, value)
        return cls.config_type.from_namespace(args)

    @property
    def syntax_attentions(self) -> dict[int, SyntaxAttention]:
        """Self-attentions of the syntax layers, by the layer's number, from 1."""
        return {number: layer.self_attn for number, layer in self.syntax_encoder.syntax_layers.items()}

    @property
    def gates(self) -> dict[int, Gate]:
        """Gates of the syntax layers, by the layer's number; none unless gates mix the masks."""
        return {number: module.gate for number, module in self.syntax_attentions.items() if module.gate is not None}

    @property
    def learned_biases(self) -> tuple[str, ...]:
        """Tables of biases that each syntax layer has: masks' names, and ``position_bias``."""
        return next((tuple(attention.tables) for attention in self.syntax_attentions.values()), ())

    @property
    def syntax_features(self) -> tuple[str, ...]:
        """Features that the model's batches must have."""
        return self.syntax_encoder.syntax_features

    @property
    def label_features(self) -> tuple[str, ...]:
        """Features that its auxiliary losses need, in training and validation alone."""
        return self.syntax_encoder.label_features

    @property
    def feature_labels(self) -> Mapping[str, Sequence[str]]:
        """Labels that the model knows, of features whose labels it reads, in the order of its numbers."""
        return self.syntax_encoder.label_vocabulary.labels

    def set_label_vocabulary(self, labels: Mapping[str, Sequence[str]]) -> None:
        """Sets the labels that features number in the batches to come, which may come from other data."""
        self.syntax_encoder.label_vocabulary.set_order(labels)

    @property
    def _warmup_epochs(self) -> int:
        return self.syntax_encoder.options.gate.warmup_epochs if self.gates else 0

    def check_backend(self, ddp_backend: str) -> None:
        """Refuse pre-warmup under fairseq's ``--ddp-backend fully_sharded``."""
        if ddp_backend == "fully_sharded" and self._warmup_epochs:
            raise ValueError(
                "--ddp-backend fully_sharded makes one parameter of all of a layer's, of which pre-warmup cannot "
                "freeze the gate's: give --gate-warmup-epochs 0, or another backend"
            )

    def begin_epoch(self, epoch: int) -> None:
        """Freezes the gates while pre-warmup lasts; called before each epoch, after resuming, too.

        `epoch` is fairseq's, counted from 1: resuming goes on counting, ``--reset-dataloader`` starts again.
        """
        frozen = epoch <= self._warmup_epochs
        for gate in self.gates.values():
            gate.frozen = frozen
        if frozen:
            logger.info("pre-warmup: the gates are frozen in epoch %d, up to epoch %d", epoch, self._warmup_epochs)

    def frozen_parameters(self) -> Sequence[nn.Parameter]:
        """Return the parameters that optimizer steps must not move at present: those of frozen gates."""
        return [p for gate in self.gates.values() if gate.frozen for p in gate.parameters()]

    @contextmanager
    def pass_of_step(self, *, counts: bool) -> Iterator[None]:
        """Context of a training pass, one of perhaps several in an optimizer step.

        It holds back the gates' running statistics until :meth:`end_step`. While no parameter has a gradient, those of
        earlier passes were thrown away (loss scaling skipped the step, or the device ran out of memory).

        Args:
            counts: false for a dummy batch of a process that has none left, which must change nothing.
        """
        statistics = self.syntax_encoder.gate_statistics
        if all(parameter.grad is None for parameter in self.parameters()):
            statistics.clear()
        with statistics.within_step(counts=counts):
            yield

    def end_step(self, *, stepped: bool) -> None:
        """Moves the gates' running statistics, by all passes and processes of an optimizer step.

        Called by all processes, which takes one small all-reduce: their statistics stay the same.

        Args:
            stepped: false if loss scaling skipped the step.
        """
        statistics = self.syntax_encoder.gate_statistics
        if not stepped:
            statistics.clear()
        elif distributed_utils.get_data_parallel_world_size() == 1:
            statistics.move()
        else:
            group = distributed_utils.get_data_parallel_group()
            statistics.move(partial(distributed_utils.all_reduce, group=group))

    def load_state_dict(
        self, state_dict: dict[str, Tensor], strict: bool = True, model_cfg: Any = None, args: Any = None
    ) -> Any:
        """As fairseq's, which would look for our gates before it prunes (``encoder_layers_to_keep``)."""
        if model_cfg is not None:
            state_dict = prune_state_dict(state_dict, model_cfg)
        return super().load_state_dict(state_dict, strict, model_cfg, args)

    def upgrade_state_dict(self, state_dict: dict[str, Tensor]) -> None:
        """As fairseq's; parts that the state lacks start fresh, and a predictor that the model lacks is left out.

        Raises:
            ValueError: the state has another part that the model lacks.
        """
        super().upgrade_state_dict(state_dict)
        own = self.state_dict()
        for part, (name, option) in _PARTS.items():
            of_part = re.compile(
                rf"({re.escape(self.encoder_prefix)}|decoder\.)(layers\.\d+\.(module\.)*)?{part}(\.|$)"
            )
            fresh = {key: value for key, value in own.items() if of_part.match(key)}
            given = [key for key in state_dict if of_part.match(key)]
            if fresh and not given:
                shown = dict.fromkeys(re.sub(r"\.\d+\.", ".*.", key) for key in fresh)
                logger.info("the checkpoint has no %s; these start fresh: %s", name, ", ".join(shown))
                state_dict.update(fresh)
            elif given and not fresh and name == "predictor":  # for losses alone
                for key in given:
                    del state_dict[key]
            elif given and not fresh:
                raise ValueError(f"the checkpoint has a {name}, which the model lacks: give {option} as it was trained")

    def validation_trace(self) -> SyntaxTrace | None:
        """Return a trace that validation fills: of the gates; ``None`` where there are none."""
        return SyntaxTrace(("gates",)) if self.gates else None

    def validation_sums(self, trace: SyntaxTrace) -> tuple[Mapping[str, float], int]:
        """Return sums over a batch's sentences, by name, for validation, and their number.

        Of each mask's gates in a layer the mean over heads, ``gate_MASK_lLAYER``; and each, ``_gate_…_hHEAD``.
        """
        gates = trace.stacked("gates")  # (batch, layers, masks, heads)
        means = torch.cat([gates.mean(dim=3, keepdim=True), gates], dim=3).double().sum(dim=0)
        names = [
            f"gate_{mask}_l{layer}" if head == 0 else f"_gate_{mask}_l{layer}_h{head}"
            for layer in sorted(trace.layers)
            for mask in self.syntax_encoder.bias_builder.names
            for head in range(gates.shape[3] + 1)
        ]
        return dict(zip(names, means.flatten().tolist(), strict=True)), len(gates)


def syntax_of(model: nn.Module) -> SyntaxModel | None:
    """Return the model within wrappers of data parallel training; ``None``: a stock one."""
    while not isinstance(model, SyntaxModel):
        wrapped = getattr(model, "module", None)
        if not isinstance(wrapped, nn.Module):
            return None
        model = wrapped
    return model

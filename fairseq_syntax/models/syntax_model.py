"""Models with a syntax encoder, as tasks see them."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial

import torch
from fairseq.distributed import utils as distributed_utils
from fairseq.models import BaseFairseqModel
from torch import nn

from fairseq_syntax.encoder.attention import SyntaxAttention
from fairseq_syntax.encoder.encoder import SyntaxTransformerEncoder
from fairseq_syntax.modules.embedding import InfusedEmbedding
from fairseq_syntax.modules.gates import Gate
from fairseq_syntax.modules.trace import SyntaxTrace

logger = logging.getLogger(__name__)


class SyntaxModel(BaseFairseqModel):
    """Base of models with a syntax encoder, as tasks see them."""

    encoder: SyntaxTransformerEncoder

    @property
    def syntax_attentions(self) -> dict[int, SyntaxAttention]:
        """Self-attentions of the syntax layers, by the layer's number, from 1."""
        return {number: layer.self_attn for number, layer in self.encoder.syntax_layers.items()}

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
        return self.encoder.syntax_features

    @property
    def label_features(self) -> tuple[str, ...]:
        """Features that its auxiliary losses need, in training and validation alone."""
        return self.encoder.label_features

    @property
    def feature_labels(self) -> Mapping[str, Sequence[str]]:
        """Labels that the model knows, of features with embeddings, in the order of its numbers."""
        embedding = self.encoder.embed_tokens
        return embedding.labels if isinstance(embedding, InfusedEmbedding) else {}

    def set_label_vocabulary(self, labels: Mapping[str, Sequence[str]]) -> None:
        """Sets the labels that features number in the batches to come, which may come from other data."""
        if isinstance(self.encoder.embed_tokens, InfusedEmbedding):
            self.encoder.embed_tokens.set_label_vocabulary(labels)

    @property
    def _warmup_epochs(self) -> int:
        return self.encoder.options.gate.warmup_epochs if self.gates else 0

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
        statistics = self.encoder.gate_statistics
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
        statistics = self.encoder.gate_statistics
        if not stepped:
            statistics.clear()
        elif distributed_utils.get_data_parallel_world_size() == 1:
            statistics.move()
        else:
            group = distributed_utils.get_data_parallel_group()
            statistics.move(partial(distributed_utils.all_reduce, group=group))

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
            for mask in self.encoder.bias_builder.names
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

"""What lies between the task and the models that it trains."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from torch import nn

from fairseq_syntax.modules.trace import SyntaxTrace


class SyntaxModel:
    """What the task asks of a model: a base class, whose answers are those of a model that knows nothing of syntax."""

    @property
    def syntax_features(self) -> tuple[str, ...]:
        """The features that the model's batches must have."""
        return ()

    @property
    def label_features(self) -> tuple[str, ...]:
        """The features that its auxiliary losses need, in training and validation alone."""
        return ()

    @property
    def feature_labels(self) -> Mapping[str, Sequence[str]]:
        """Of features that are labels, which ones the model knows, in the order of its numbers."""
        return {}

    def set_label_vocabulary(self, labels: Mapping[str, Sequence[str]]) -> None:
        """Says what features that are labels number in the batches to come, which may come from other data."""

    def check_backend(self, ddp_backend: str) -> None:
        """Raises :class:`ValueError` if the model cannot be trained under fairseq's ``--ddp-backend``."""

    def begin_epoch(self, epoch: int) -> None:
        """Called before each of fairseq's epochs, counted from 1; after resuming, too."""

    def frozen_parameters(self) -> Sequence[nn.Parameter]:
        """The parameters that optimizer steps must not move at present."""
        return ()

    @contextmanager
    def pass_of_step(self, *, counts: bool) -> Iterator[None]:
        """Context of a training pass, one of perhaps several in an optimizer step.

        Args:
            counts: false for a batch that stands in where a process of several has none left: nothing may stay of it.
        """
        yield

    def end_step(self, *, stepped: bool) -> None:
        """End an optimizer step; called by all processes.

        Args:
            stepped: false if loss scaling skipped the step.
        """

    def validation_trace(self) -> SyntaxTrace | None:
        """What validation is to keep of a forward pass; ``None``: nothing."""
        return None

    def validation_sums(self, trace: SyntaxTrace) -> tuple[Mapping[str, float], int]:
        """What validation logs of a batch: sums over its sentences, by name, and the number of sentences.

        Names of single heads are ``_NAME_hHEAD``, in the order of the heads: they come into a line of their own.
        """
        return {}, 0


_WITHOUT_SYNTAX = SyntaxModel()


def syntax_of(model: nn.Module) -> SyntaxModel:
    """The model itself, or that within what data parallel training wraps around it; a stock model has no syntax."""
    while not isinstance(model, SyntaxModel):
        wrapped = getattr(model, "module", None)
        if not isinstance(wrapped, nn.Module):
            return _WITHOUT_SYNTAX
        model = wrapped
    return model

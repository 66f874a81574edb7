"""What lies between the task and the models that it trains: one protocol."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol, runtime_checkable

from torch import nn

from fairseq_syntax.nn.trace import SyntaxTrace


@runtime_checkable
class SyntaxModel(Protocol):
    """What the task asks of a model that uses syntax."""

    #: The features that the model's batches must have.
    syntax_features: tuple[str, ...]

    def check_backend(self, ddp_backend: str) -> None:
        """Raises :class:`ValueError` if the model cannot be trained under fairseq's ``--ddp-backend``."""

    def begin_epoch(self, epoch: int) -> None:
        """Called before each of fairseq's epochs, counted from 1; after resuming, too."""

    def frozen_parameters(self) -> Sequence[nn.Parameter]:
        """The parameters that optimizer steps must not move at present."""

    def teaching_nothing(self) -> AbstractContextManager[None]:
        """Around a training batch that stands in where a process of several has none left: nothing may stay of it."""

    def synchronize(self) -> None:
        """Makes what the processes of a training keep beside parameters the same in all; after each step."""

    def validation_trace(self) -> SyntaxTrace | None:
        """What validation is to keep of a forward pass; ``None``: nothing."""

    def validation_sums(self, trace: SyntaxTrace) -> tuple[Mapping[str, float], int]:
        """What validation logs of a batch: sums over its sentences, by name, and the number of sentences.

        fairseq shows no name that begins with ``_``: these go to tensorboard alone.
        """


class NoSyntax:
    """Any other model: there is nothing to do."""

    syntax_features: tuple[str, ...] = ()

    def check_backend(self, ddp_backend: str) -> None: ...

    def begin_epoch(self, epoch: int) -> None: ...

    def frozen_parameters(self) -> Sequence[nn.Parameter]:
        return ()

    @contextmanager
    def teaching_nothing(self) -> Iterator[None]:
        yield

    def synchronize(self) -> None: ...

    def validation_trace(self) -> SyntaxTrace | None:
        return None

    def validation_sums(self, trace: SyntaxTrace) -> tuple[Mapping[str, float], int]:
        return {}, 0


_NO_SYNTAX = NoSyntax()


def syntax_of(model: nn.Module) -> SyntaxModel:
    """The model itself, or within what data parallel training wraps around it; :class:`NoSyntax` for a stock model."""
    while not isinstance(model, SyntaxModel):
        wrapped = getattr(model, "module", None)  # fairseq's wrappers hand on attributes, but not those of protocols
        if not isinstance(wrapped, nn.Module):
            return _NO_SYNTAX
        model = wrapped
    return model

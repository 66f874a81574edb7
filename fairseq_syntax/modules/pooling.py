"""Pooling: the vector of a sequence of states that a head reads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from fairseq_syntax.modules import numerics
from fairseq_syntax.options import option


@dataclass(frozen=True)
class PoolingOptions:
    """Options of pooling."""

    kind: str = option(
        "first",
        name="pooling",
        choices=("first", "mean", "markers"),
        help="what classification heads read: the state of <s> (first), the mean of the subwords' states (mean), or "
        "the states of the first occurrence of each of --markers, concatenated (markers)",
    )
    written_markers: str | None = option(
        None,
        name="markers",
        help="one or two symbols of the dictionary, with a comma between, that mark entities, for --pooling markers",
    )

    def __post_init__(self) -> None:
        found = self.markers
        if (self.kind == "markers" or found) and (len(found) not in (1, 2) or len(set(found)) < len(found)):
            raise ValueError(f"--markers: expected one or two different symbols, found {self.written_markers!r}")

    @property
    def markers(self) -> tuple[str, ...]:
        """The symbols that mark entities."""
        return tuple(symbol.strip() for symbol in (self.written_markers or "").split(",") if symbol.strip())

    @property
    def width(self) -> int:
        """The number of states that a pooled vector has side by side."""
        return len(self.markers) if self.kind == "markers" else 1


def mean_state(x: Tensor, chosen: Tensor) -> Tensor:
    """Return the mean of chosen states, ``(batch, dim)``; 0 where none is.

    Args:
        x: ``(batch, n, dim)``.
        chosen: true at chosen positions, ``(batch, n)``.
    """
    weights = chosen.to(x.dtype) / chosen.sum(dim=1, keepdim=True).clamp(min=1)
    return torch.bmm(weights.to(x.dtype).unsqueeze(1), x).squeeze(1)


def marker_states(x: Tensor, tokens: Tensor, markers: Sequence[int]) -> Tensor:
    """Return the states of the markers' first occurrences, ``(batch, markers · dim)``.

    Args:
        x: ``(batch, n, dim)``.
        tokens: ``(batch, n)``.
        markers: the markers' numbers in the dictionary.

    Raises:
        ValueError: an example lacks a marker; names both. On a GPU an assertion of the device fails instead.
    """
    at = tokens.unsqueeze(1) == torch.stack([torch.full_like(tokens[0, 0], marker) for marker in markers])[:, None]
    found = at.any(dim=2)
    if numerics.is_asynchronous(tokens.device):
        torch._assert_async(found.all(), "--pooling markers: expected each marker in each example")
    elif not found.all():
        row, marker = (~found).nonzero()[0].tolist()
        raise ValueError(
            f"--pooling markers: expected marker {marker + 1} of {len(markers)} in each example, found none in example "
            f"{row} of the batch (counted from 0); was it cut off?"
        )
    first = at.int().argmax(dim=2)  # (batch, markers)
    return x.gather(1, first.unsqueeze(2).expand(-1, -1, x.shape[2])).flatten(1)

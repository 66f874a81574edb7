"""Intermediate results of the syntax layers in one forward pass, on request."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

#: Contents of a trace.
#:
#: - ``gates``: weights of the syntax experts (Hou 2024, eq. 6), ``(batch, experts, heads)``; none without gates.
#:   Of weights of each query, the mean over the sentence's real positions.
#: - ``attention``: the mixed attention A (eq. 10) before attention dropout, ``(batch, heads, n, n)``.
#: - ``scores``: x = q·kᵀ/√d before biases and padding, ``(batch, heads, n, n)``.
#: - ``prediction``: scores of words to be the head, of an expert that is a parser (``lisa``), ``(batch, 1, n, n)``.
CONTENTS = ("gates", "attention", "scores", "prediction")


class SyntaxTrace:
    """Intermediate results of a pass: the argument ``trace`` of a model or encoder.

    Tensors are in the graph of the pass. A second pass with the same trace replaces the first one's results.

    Args:
        contents: which of :data:`CONTENTS` to keep. ``attention`` and ``scores`` take the time and memory of the
            reference implementation.

    Attributes:
        layers: for each syntax layer that ran, by its number from 1, its tensors by name.
    """

    def __init__(self, contents: Sequence[str] = ("gates",)):
        if unknown := [name for name in contents if name not in CONTENTS]:
            raise ValueError(f"expected some of {', '.join(CONTENTS)}, found {', '.join(unknown)}")
        self.contents = tuple(contents)
        self.layers: dict[int, dict[str, Tensor]] = {}

    def add(self, layer: int, seen: Sequence[Tensor | None]) -> None:
        """Keep a layer's results, in the order of :attr:`contents`."""
        named = zip(self.contents, seen, strict=True)
        self.layers[layer] = {name: tensor for name, tensor in named if tensor is not None}

    def stacked(self, name: str) -> Tensor:
        """One of :data:`CONTENTS` of all syntax layers that ran, layers the second axis.

        Raises:
            ValueError: the trace has none of it.
        """
        if not self.layers or any(name not in seen for seen in self.layers.values()):
            raise ValueError(f"the trace has no {name}")
        return torch.stack([seen[name] for _, seen in sorted(self.layers.items())], dim=1)

"""What the guided layers of one forward pass did: asked for by the caller, filled by the pass."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

#: What a trace can hold.
#:
#: - ``gates``: weights of the masks (Hou 2024, eq. 6), ``(batch, masks, heads)``; none where no gates mix them.
#:   Of weights that queries have of their own, the mean over the sentence's real positions.
#: - ``attention``: the mixed attention A (eq. 10) before attention dropout, ``(batch, heads, n, n)``.
#: - ``scores``: x = q·kᵀ/√d before masks and padding, ``(batch, heads, n, n)``.
#: - ``prediction``: scores of words to be the head, of an expert that is a parser (``lisa``), ``(batch, 1, n, n)``.
CONTENTS = ("gates", "attention", "scores", "prediction")


class SyntaxTrace:
    """Give it to a model's or an encoder's forward pass, as ``trace``; then it has what that pass did.

    Tensors are in the graph of the pass: whoever wants no gradients runs it without, or detaches them. A second pass
    with the same trace replaces what the first one left.

    Args:
        contents: which of :data:`CONTENTS` to keep. ``attention`` and ``scores`` take the time and memory of
            plain attention.

    Attributes:
        layers: for each guided layer that ran, by its number from 1, its tensors by name.
    """

    def __init__(self, contents: Sequence[str] = ("gates",)):
        if unknown := [name for name in contents if name not in CONTENTS]:
            raise ValueError(f"expected some of {', '.join(CONTENTS)}, found {', '.join(unknown)}")
        self.contents = tuple(contents)
        self.layers: dict[int, dict[str, Tensor]] = {}

    def add(self, layer: int, seen: Sequence[Tensor | None]) -> None:
        """Keeps what a layer returns of :attr:`contents`, in their order."""
        named = zip(self.contents, seen, strict=True)
        self.layers[layer] = {name: tensor for name, tensor in named if tensor is not None}

    def stacked(self, name: str) -> Tensor:
        """One of the contents, of all guided layers that ran: as in :data:`CONTENTS`, layers being the second axis.

        Raises:
            ValueError: the pass left none of it.
        """
        if not self.layers or any(name not in seen for seen in self.layers.values()):
            raise ValueError(f"the trace has no {name}")
        return torch.stack([seen[name] for _, seen in sorted(self.layers.items())], dim=1)

"""Relative position, learned: no syntax."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from fairseq_syntax.modules.biases.base import Buckets, SyntaxBias, register_syntax_bias
from fairseq_syntax.modules.biases.table import BiasTable

#: Where buckets begin of distances that have none of their own: the least d with 2·log2(d/16) ≥ k for k = 0 … 5, half
#: octaves, but that 16 has its own. The last one holds all from 91 on.
_WIDE = (17, 23, 32, 46, 64, 91)

#: The largest distance that has a bucket of its own.
_OWN = _WIDE[0] - 1

_FARTHEST = _OWN + len(_WIDE)

#: How many numbers a head has.
POSITIONS = 2 * _FARTHEST + 1


@register_syntax_bias("position")
class RelativePosition(SyntaxBias):
    """A learned bias by distance in subwords and its side, no syntax (as T5, Raffel et al. 2020, §2.1).

    Shaw et al. 2018 is its kin. Every guided layer has a table; it knows nothing of syntax, so what a parse gives must
    beat it. A sentence without a parse has it as well.
    """

    def bias(self, *features: Tensor, **labels: Tensor) -> Buckets:
        (place,) = features
        return position_buckets(place)

    def build_layer_module(self, *, heads: int, head_dim: int, embed_dim: int) -> nn.Module:
        return BiasTable(heads=heads, buckets=POSITIONS)


def position_buckets(place: Tensor) -> Buckets:
    """The buckets of j - i: 22 of them to the left, itself (number 22), 22 to the right, in their order.

    On each side, distances 1 to 16 have one each; those from 17 on share six, of half an octave each up to 128: 17-22,
    23-31, 32-45, 46-63, 64-90, 91 and more.

    Args:
        place: the numbers of positions, ``(1, n)``.

    Returns:
        ``(1, n, n)``; rows are queries.
    """
    offset = place.unsqueeze(1) - place.unsqueeze(2)
    distance = offset.abs()
    wide = torch.stack([distance >= least for least in _WIDE]).sum(dim=0)  # nothing is sent to a GPU
    near = distance.clamp(max=_OWN)
    return Buckets(_FARTHEST + offset.sign() * (near + wide))

"""The height of the smallest common constituent, learned."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from fairseq_syntax.modules.biases.base import Buckets, SyntaxBias, register_syntax_bias
from fairseq_syntax.modules.biases.table import BiasTable
from syntax_data.features import INFINITE

#: Distances are told apart to here.
_HIGHEST = 10

#: Of each side: 0 to the highest, and infinite.
_OF_SIDE = _HIGHEST + 2

#: How many numbers a head has.
TREE_HEIGHTS = 2 * _OF_SIDE + 1


@register_syntax_bias("tree_height")
class TreeHeight(SyntaxBias):
    """A learned bias by the height of the smallest constituent that two words have in common, and its side.

    Every guided layer has a table. The height is the greatest syntactic distance (Hou 2024, §3.1) between them.
    """

    features = ("distance",)

    def bias(self, *features: Tensor, **labels: Tensor) -> Buckets:
        (distance,) = features
        return height_buckets(distance)

    def build_layer_module(self, *, heads: int, head_dim: int, embed_dim: int) -> nn.Module:
        return BiasTable(heads=heads, buckets=TREE_HEIGHTS)


def height_buckets(distance: Tensor) -> Buckets:
    """The buckets of the greatest distance between two positions, and side.

    Args:
        distance: syntactic distances, ``(batch, n)``, as in :mod:`syntax_data.features`.

    Returns:
        ``(batch, n, n)``; rows are queries. 12 is the position itself. To the right of it, 13 + h for a greatest
        distance h, which is 0 within a word and 10 for 10 and more; 24 where one is infinite: before ``</s>``, and in
        another sentence of the line. To the left the same, 12 less as much.
    """
    n = distance.shape[1]
    level = distance.clamp(min=0, max=_HIGHEST).masked_fill(distance == INFINITE, _HIGHEST + 1)
    ahead = level.unsqueeze(1).expand(-1, n, n).triu()  # [i, t] = level of boundary t ≥ i
    highest = ahead.cummax(dim=2).values  # [i, t] = the highest of boundaries i … t
    right = torch.zeros_like(highest)
    right[:, :, 1:] = highest[:, :, :-1] + 1
    right = right.triu(1)
    return Buckets(_OF_SIDE + right - right.transpose(1, 2))

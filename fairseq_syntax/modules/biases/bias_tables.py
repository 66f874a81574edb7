"""Learned biases: a table with one number for each head and bucket of pairs of positions.

Buckets are of relative positions and word boundaries (no syntax), paths in the dependency tree, and heights of common
constituents.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fairseq_syntax.modules import numerics
from fairseq_syntax.modules.biases.bias import AttentionBias, Buckets
from fairseq_syntax.modules.biases.registry import SyntaxBias, register_syntax_bias
from fairseq_syntax.modules.dependency import ancestors, common_ancestors, is_eos
from fairseq_syntax.modules.numerics import at_least_float32
from syntax_data.features import INFINITE

#: First distances of the wide buckets: the least d with 2·log2(d/16) ≥ k for k = 0 … 5, half octaves, except that 16
#: has a bucket of its own. The last bucket holds all distances from 91 on.
_WIDE = (17, 23, 32, 46, 64, 91)
_LARGEST_OWN = _WIDE[0] - 1  # the largest distance that has a bucket of its own
_FARTHEST = _LARGEST_OWN + len(_WIDE)

_MAX_HEIGHT = 10  # greater heights share a bucket
_HEIGHTS = _MAX_HEIGHT + 2  # of one side: 0 to the largest, and infinite


class BiasTable(nn.Module):
    """b_h[i, j] = S·θ_h[bucket(i, j)]: a bias of attention scores by buckets of pairs of positions.

    All θ are 0 at first: attention begins as it would be without. An update of Adam moves θ by about the learning rate
    η, so b by about S·η, and an attention weight, before normalisation, by a factor exp(S·η). Under the small η of
    fine-tuning a table with S = 1 stays near 0.

    Args:
        heads: number of heads, each with biases of its own.
        buckets: number of buckets.
    """

    def __init__(self, *, heads: int, buckets: int):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(heads, buckets))
        #: S; not part of the state, but an option of the model.
        self.scale = 1.0

    def scaled(self, parameter: Tensor) -> Tensor:
        """Return S·θ of a parameter θ, θ itself under S = 1."""
        return parameter if self.scale == 1 else self.scale * parameter

    def forward(self, buckets: Buckets, query: Tensor | None = None) -> AttentionBias:
        """The bias, ``(batch or 1, heads, n, n)`` in float32 at least, 0 where there is no bucket."""
        return sum_of_tables([self], columns_of_sums([self], [buckets]))


def sum_of_tables(tables: Sequence[BiasTable], columns: Tensor) -> AttentionBias:
    """Return the sum of the biases of several tables, which one lookup finds.

    Tables of a and b buckets become one of (a + 1)·(b + 1) sums, far fewer than a batch has pairs of positions.

    Args:
        columns: of :func:`columns_of_sums`.
    """
    scaled = (table.scaled(at_least_float32(table.weight)) for table in tables)
    sums, *others = (F.pad(of_buckets, (1, 0)) for of_buckets in scaled)  # column 0: there is no bucket
    for other in others:
        sums = (sums.unsqueeze(2) + other.unsqueeze(1)).flatten(1)
    return AttentionBias(bias=columns_of(sums, columns))


def columns_of_sums(tables: Sequence[BiasTable], buckets: Sequence[Buckets]) -> Tensor:
    """Return the columns of :func:`sum_of_tables` for buckets of each table, ``(batch, n, n)``."""
    columns, *others = (of_table.numbers + 1 for of_table in buckets)
    for table, more in zip(tables[1:], others, strict=True):
        columns = columns * (table.weight.shape[1] + 1) + more
    return columns


def columns_of(table: Tensor, numbers: Tensor) -> Tensor:
    """Return columns of a table, ``(batch, heads, n, n)``, by their numbers, ``(batch, n, n)``."""
    # On a CPU this has a faster gradient than F.embedding or one-hot vectors.
    many = numerics.is_asynchronous(table.device) and numbers.numel() >= _SelectColumns.PAIRS
    select = _SelectColumns.apply if many else torch.index_select
    return select(table, 1, numbers.flatten()).view(len(table), *numbers.shape).transpose(0, 1)


class _SelectColumns(torch.autograd.Function):
    """``index_select`` of columns whose gradient a GPU sums fast.

    Many pairs of positions share few columns, whose sums would wait for each other: each such column gets several.
    """

    PAIRS = 2**18  # from here on it is faster, on an H100
    SUMS = 4096  # of a row, at least

    @staticmethod
    def forward(ctx: Any, table: Tensor, dim: int, numbers: Tensor) -> Tensor:
        ctx.save_for_backward(numbers)
        ctx.columns = table.shape[1]
        return table.index_select(dim, numbers)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:
        (numbers,) = ctx.saved_tensors
        parts = max(1, _SelectColumns.SUMS // ctx.columns)
        apart = numbers * parts + torch.arange(len(numbers), device=numbers.device) % parts
        sums = gradient.new_zeros(len(gradient), ctx.columns * parts).index_add_(1, apart, gradient)
        return sums.view(len(gradient), ctx.columns, parts).sum(dim=2), None, None


class TableBias(SyntaxBias):
    """Base class of biases by a table in each syntax layer; :meth:`bias` gives buckets."""

    #: The number of buckets; a subclass with its own :meth:`build_layer_module` needs none.
    buckets: ClassVar[int]

    def build_layer_module(self, *, heads: int, head_dim: int, embed_dim: int) -> BiasTable:
        return BiasTable(heads=heads, buckets=self.buckets)


@register_syntax_bias("position")
class RelativePosition(TableBias):
    """A learned bias by distance in subwords and its side, no syntax (as T5, Raffel et al. 2020, §2.1).

    Shaw et al. 2018 is similar. It is a control, which a parse must be better than. A sentence without a parse has it
    as well. Buckets of j - i: 22 of them to the left, itself (number 22), 22 to the right, in their order. On each
    side, distances 1 to 16 have one each; those from 17 on share six, of half an octave each up to 128: 17-22, 23-31,
    32-45, 46-63, 64-90, 91 and more.
    """

    buckets = 2 * _FARTHEST + 1

    def bias(self, *features: Tensor, **labels: Tensor) -> Buckets:
        (position,) = features
        position = position.int()
        return Buckets(self.numbers(position.unsqueeze(1) - position.unsqueeze(2)))

    @staticmethod
    def numbers(offset: Tensor) -> Tensor:
        """Return the buckets' numbers of j - i, integers of any shape."""
        distance = offset.abs()
        beyond = torch.stack([distance >= least for least in _WIDE])  # nothing is sent to a GPU
        wide = beyond.sum(dim=0, dtype=torch.int)
        return _FARTHEST + offset.sign() * (distance.clamp(max=_LARGEST_OWN) + wide)


@register_syntax_bias("word")
class WordBoundary(TableBias):
    """A learned bias by word boundaries and the side, no syntax.

    It has what the biases of flat trees tell (``--control flat``), and needs no parse: a control, which a parse must be
    better than. Buckets of a j to the left: 0 in the same word; 1 in the sentence's first word; 2 in another word; 3 of
    ``</s>``, as i. To the right 4 more: 5 if i is in the first word, 7 if j is ``</s>``. 8 is the position itself.
    """

    features = ("word",)
    buckets = 9

    def bias(self, *features: Tensor, **labels: Tensor) -> Buckets:
        (word,) = features
        n = word.shape[1]
        of_first, of_eos = (at.unsqueeze(2) | at.unsqueeze(1) for at in (word == 0, is_eos(word)))
        kind = torch.where(of_first, 1, 2).masked_fill_(of_eos, 3)
        kind.masked_fill_(word.unsqueeze(2) == word.unsqueeze(1), 0)
        number = kind + 4 * torch.ones(n, n, dtype=torch.long, device=word.device).triu(1)
        number.diagonal(dim1=1, dim2=2).fill_(8)
        return Buckets(number)


@register_syntax_bias("tree_path")
class TreePath(TableBias):
    """A learned bias by the path from word to word in the dependency tree, and its side.

    A path is the number of steps up from i's word to the lowest common ancestor, and down from there to j's; Graphormer
    (Ying et al. 2021, §3.1.2) has a bias for the length of a path. Buckets of u steps up and v down, both 4 for 4 and
    more: 5u + v for a j to the left, 25 + 5u + v to the right; 50 is the position itself, 51 no path: ``</s>`` to all
    others and back, and another sentence of the line. A cycle of heads raises :class:`ValueError`.
    """

    features = ("word", "head")
    max_steps: ClassVar[int] = 4  # more steps up, or down, share a bucket

    def build_layer_module(self, *, heads: int, head_dim: int, embed_dim: int) -> BiasTable:
        return BiasTable(heads=heads, buckets=2 * (self.max_steps + 1) ** 2 + 2)

    def bias(self, *features: Tensor, **labels: Tensor) -> Buckets:
        # The depth of the lowest common ancestor is the number of ancestors that two words have in common, themselves
        # included, less one: so one matrix product finds all of them.
        common = common_ancestors(ancestors(*features))
        depth = common.diagonal(dim1=1, dim2=2)
        up = (depth.unsqueeze(2) - common).clamp_(max=self.max_steps)
        down = (depth.unsqueeze(1) - common).clamp_(max=self.max_steps)
        to_the_right = common.new_ones(common.shape[1:]).triu(1)
        of_a_side = (self.max_steps + 1) ** 2
        path = up * (self.max_steps + 1) + down + of_a_side * to_the_right
        path.masked_fill_(common == 0, 2 * of_a_side + 1)
        path.diagonal(dim1=1, dim2=2).fill_(2 * of_a_side)
        return Buckets(path)


@register_syntax_bias("tree_height")
class TreeHeight(TableBias):
    """A learned bias by the height of the smallest constituent that two words have in common, and its side.

    The height is the greatest syntactic distance (Hou 2024, §3.1) between them. Bucket 12 is the position itself. To
    the right of it, 13 + h for a greatest distance h, which is 0 within a word and 10 for 10 and more; 24 where one is
    infinite: before ``</s>``, and in another sentence of the line. To the left the same, 12 less as much.
    """

    features = ("distance",)
    buckets = 2 * _HEIGHTS + 1

    def bias(self, *features: Tensor, **labels: Tensor) -> Buckets:
        (distance,) = features
        n = distance.shape[1]
        level = distance.clamp(min=0, max=_MAX_HEIGHT).masked_fill_(distance == INFINITE, _MAX_HEIGHT + 1).int()
        ahead = level.unsqueeze(1).expand(-1, n, n).triu()  # [i, t] = level of boundary t ≥ i
        highest = ahead.cummax(dim=2).values  # [i, t] = the highest of boundaries i … t
        right = torch.zeros_like(highest)
        right[:, :, 1:] = highest[:, :, :-1] + 1
        right = right.triu(1)
        return Buckets(_HEIGHTS + right - right.transpose(1, 2))

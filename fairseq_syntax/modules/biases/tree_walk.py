"""Learned biases by the walk along the dependency tree from word to word."""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from fairseq_syntax.modules.biases.bias import AttentionBias, Buckets
from fairseq_syntax.modules.biases.bias_tables import BiasTable, TableBias, columns_of
from fairseq_syntax.modules.biases.registry import register_syntax_bias
from fairseq_syntax.modules.dependency import (
    common_ancestors,
    first_subwords,
    is_eos,
    is_word_start,
    paths_to_root,
    word_starts,
    words_on,
)
from fairseq_syntax.modules.numerics import at_least_float32

_ITSELF, _NEXT, _SAME_WORD = range(3)
_OF_ONE_WORD = 3
_MAX_STEPS = 2  # more steps up, or down, share a bucket
_UPS = (_MAX_STEPS + 1) * 2**4
_DOWNS = (_MAX_STEPS + 1) * 2 + 1
_LATER = _DOWNS - 1  # down to a subword that does not begin its word


@register_syntax_bias("tree_walk")
class TreeWalk(TableBias):
    """A learned bias by the walk along the dependency tree from word to word, and what it passes by.

    Like ``tree_path``, it counts steps up to the lowest common ancestor, and down. By the dependents that the walk
    passes by, it also tells the next word in a traversal of the tree from others. ``</s>`` is taken as the head of all
    roots, so a walk joins all words, and an empty translation is at the root.

    The bias is T_h[up, down] = U_h[up] + D_h[down]. A walk turns at the common ancestor, from one of its dependents to
    another, or begins or ends there, and uses one dependent. `up` is the steps up, 2 for 2 and more, the side of j, and

    - near: no dependent of the ancestor is between the two, or between the one and the ancestor;
    - outer: the two are on the same side of the ancestor; or the one is the outermost on its side;
    - last: no word that the walk leaves, before the ancestor's dependent, is on the right of its head with another
      dependent of the head on its right.

    `down` is the steps down, and first: no word that the walk enters, after the ancestor's dependent at which it turns,
    is on the right of its head with another dependent between them. It is the same for all subwords that do not begin
    their word. Within a word, T_h is by itself, the next subword, and others.

    Buckets: 0, 1 and 2 are those within a word; then 3 + 7·up + down, with up = (((steps·2 + right)·2 + near)·2 +
    outer)·2 + last, and down = steps·2 + first; 6 where j does not begin its word. A cycle of heads raises
    :class:`ValueError`.
    """

    features = ("word", "head")
    buckets = _OF_ONE_WORD + _UPS * _DOWNS

    def bias(self, *features: Tensor, **labels: Tensor) -> Buckets:
        word, head = features
        end = word.max(dim=1, keepdim=True).values + 1  # the number of </s>
        head = torch.where((head == 0) & ~is_eos(word), end, head)
        paths = paths_to_root(word, head)
        common = common_ancestors(words_on(paths))
        up = common.diagonal(dim1=1, dim2=2).unsqueeze(2) - common
        down = up.mT
        place = _Places.of(word, head).along(paths, word)
        rank, left, nearest, outermost = (_after(facts, up - 1) for facts in place[:4])
        turns, ends_below = (up > 0) & (down > 0), down > 0

        def of_one(fact: Tensor) -> Tensor:
            return torch.where(ends_below, fact.mT, fact)

        near = torch.where(turns, (rank - rank.mT).abs() == 1, of_one(nearest))
        outer = torch.where(turns, left == left.mT, of_one(outermost))
        last = _after(place.right_of_it.cumsum(dim=2) - place.right_of_it, up - 1) == 0
        first = (_after(place.between.cumsum(dim=2) - place.between, up - (down > 0).int()) == 0).mT
        right = torch.ones_like(up[0], dtype=torch.bool).triu(1)
        number = up.clamp(max=_MAX_STEPS)
        for fact in (right, near, outer, last):
            number = number * 2 + fact
        later = ~is_word_start(word).unsqueeze(1)
        number = number * _DOWNS + torch.where(later, _LATER, down.clamp(max=_MAX_STEPS) * 2 + first)
        number = number + _OF_ONE_WORD
        number.masked_fill_(word.unsqueeze(2) == word.unsqueeze(1), _SAME_WORD)
        number.diagonal(dim1=1, dim2=2).fill_(_ITSELF)
        number.diagonal(1, dim1=1, dim2=2).masked_fill_(word[:, 1:] == word[:, :-1], _NEXT)
        return Buckets(number)

    def build_layer_module(self, *, heads: int, head_dim: int, embed_dim: int) -> BiasTable:
        return WalkTable(heads=heads)


class _Places(NamedTuple):
    """Places of words among the dependents of their heads, each of one shape; facts are 1 or 0.

    Attributes:
        rank: the number of dependents of the head before the word.
        left: the word is on the left of its head.
        nearest, outermost: no dependent on its side is nearer to the head, or farther from it.
        right_of_it: the word is on the right of its head, and another dependent on its own right.
        between: the word is on the right of its head, and another dependent between them.
    """

    rank: Tensor
    left: Tensor
    nearest: Tensor
    outermost: Tensor
    right_of_it: Tensor
    between: Tensor

    @classmethod
    def of(cls, word: Tensor, head: Tensor) -> _Places:
        """Return places of each position's word, ``(batch, n)``."""
        left = word + 1 < head
        siblings = (head.unsqueeze(2) == head.unsqueeze(1)) & (head > 0).unsqueeze(2) & is_word_start(word).unsqueeze(1)
        of_side = siblings & (left.unsqueeze(2) == left.unsqueeze(1))
        before = word.unsqueeze(2) > word.unsqueeze(1)
        after = word.unsqueeze(2) < word.unsqueeze(1)
        has_before, has_after = ((of_side & where).any(dim=2) for where in (before, after))
        facts = (
            left,
            ~torch.where(left, has_after, has_before),
            ~torch.where(left, has_before, has_after),
            ~left & has_after,
            ~left & has_before,
        )
        return cls((siblings & before).sum(dim=2), *(fact.long() for fact in facts))

    def along(self, paths: Tensor, word: Tensor) -> _Places:
        """Return places of the words on paths of :func:`paths_to_root`, in their shape; 0 where there is none."""
        begin = word_starts(word, first_subwords(word)).gather(1, paths.flatten(1))
        return _Places(*(F.pad(of_words, (0, 1)).gather(1, begin).view_as(paths) for of_words in self))


def _after(facts: Tensor, steps: Tensor) -> Tensor:
    """Return facts along paths, ``(batch, n, longest)``, after numbers of steps, ``(batch, n, n)``."""
    return facts.gather(2, steps.long().clamp(min=0, max=facts.shape[2] - 1))


class WalkTable(BiasTable):
    """T of :class:`TreeWalk`, from U, D and the three biases within a word, all 0 at first.

    Args:
        heads: number of heads, each with biases of its own.
    """

    def __init__(self, *, heads: int):
        super().__init__(heads=heads, buckets=_OF_ONE_WORD + _UPS + _DOWNS)

    def forward(self, buckets: Buckets, query: Tensor | None = None) -> AttentionBias:
        """The bias, ``(batch, heads, n, n)`` in float32 at least, 0 where there is no bucket."""
        of_one_word, up, down = at_least_float32(self.weight).split([_OF_ONE_WORD, _UPS, _DOWNS], dim=1)
        table = torch.cat([of_one_word, (up.unsqueeze(2) + down.unsqueeze(1)).flatten(1)], dim=1)
        return AttentionBias(bias=columns_of(F.pad(table, (1, 0)), buckets.numbers.int() + 1))

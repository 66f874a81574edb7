"""Dependency trees as matrices: who is an ancestor of whom, how far apart two words are, where a parent stands.

A tree comes as two features of each position, both ``(batch, n)``, as :mod:`syntax_data.features` defines them:
``word``, the index of the subword's word, and ``head``, 0 or 1 + the index of the word that its word hangs on. ``</s>``
is a root of its own. Steps over words that were cut off, or have no subword, do not count. At positions without
features, and in a sentence without a parse, what these functions return means nothing.

All follow from the ancestors A of :func:`ancestors`: with a = A·1, the number of a word's ancestors and itself, and
C = A·Aᵀ, the number that two words have in common, the path between two words is a_i + a_j - 2·C[i, j] steps long.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from fairseq_syntax.modules import numerics
from fairseq_syntax.modules.numerics import UNKNOWN, no_autocast

_EXPECTED = "expected heads that lead to a root, found a cycle"
_REMEDY = "; fairseq-syntax-binarize --verify finds it in a data-bin"


def first_subwords(word: Tensor) -> Tensor:
    """Where each position's word begins, ``(batch, n)``."""
    position = torch.arange(word.shape[1], device=word.device)
    return (position * starts(word)).cummax(dim=1).values


def starts(word: Tensor) -> Tensor:
    """Whether a position begins a word, ``(batch, n)``."""
    return word != F.pad(word, (1, 0), value=UNKNOWN)[:, :-1]


def words(word: Tensor, first: Tensor) -> Tensor:
    """Where words begin, ``(batch, n + 2)``: that of number w, counted from 1 as in ``head``; n where none has it.

    Args:
        first: of :func:`first_subwords`.
    """
    batch, n = word.shape
    begin = torch.full((batch, n + 2), n, device=word.device)
    begin.scatter_(1, word + 1, first)
    begin[:, 0] = n  # above the roots; and what has no word
    return begin


def ends(word: Tensor) -> Tensor:
    """Whether a position is ``</s>``, which is a word of its own, the last, ``(batch, n)``."""
    return word == word.max(dim=1, keepdim=True).values


def parents(word: Tensor, head: Tensor, first: Tensor) -> Tensor:
    """Where the head of each position's word begins, ``(batch, n)``; for a root, where its own word does.

    Args:
        first: of :func:`first_subwords`.
    """
    place = words(word, first).gather(1, head.clamp(min=0))
    return torch.where(place < word.shape[1], place, first)


def ancestors(word: Tensor, head: Tensor, *, yes: float = True, no: float = False) -> Tensor:
    """A: whether a word is i's word or an ancestor of it.

    Args:
        word, head: see above.
        yes, no: what says so; of one type, which the matrix gets.

    Returns:
        ``(batch, n, n)``; rows are positions, columns are words, from 0.

    Raises:
        ValueError: the heads of a sentence lead into a cycle; names it. On a GPU, where one would have to wait to know,
            an assertion of the device fails instead.
    """
    batch, n = word.shape
    numbered = torch.full((batch, n, 1 + n), no, device=word.device).scatter_(2, _paths(word, head), yes)
    return numbered[:, :, 1:]


def of_positions(of_words: Tensor, word: Tensor) -> Tensor:
    """A matrix whose columns are words, with their positions as columns, ``(batch, n, n)`` both."""
    return of_words.gather(2, word.clamp(min=0).unsqueeze(1).expand_as(of_words))


def _paths(word: Tensor, head: Tensor) -> Tensor:
    """The number of each position's word, of its head, of that word's head, up to a root, and then zeros,
    ``(batch, n, steps)``; numbers are those of ``head``.

    Each turn doubles the length of the paths, so that few turns are enough for any tree. On a GPU there are as many
    steps as subwords, or up to twice as many.
    """
    batch, n = word.shape
    number = word + 1
    up = head.new_zeros(batch, 1 + n)  # from a number, as many steps as paths are long
    up.scatter_(1, number, head.clamp(min=0))
    up[:, 0] = 0  # roots, and what has no word
    paths = number.unsqueeze(2)
    asynchronous = numerics.is_asynchronous(word.device)
    for _ in range((n - 1).bit_length()):
        if not asynchronous and not up.any():
            return paths
        paths = torch.cat([paths, up.gather(1, paths.flatten(1)).view_as(paths)], dim=2)
        up = up.gather(1, up)
    if asynchronous:
        torch._assert_async(~up.any(), f"{_EXPECTED}{_REMEDY}")
    elif up.any():
        raise _cycle(word, up)
    return paths


def common_ancestors(above: Tensor) -> Tensor:
    """C: how many ancestors two positions' words have in common, themselves included; 0: no path leads from one to the
    other.

    Args:
        above: A of :func:`ancestors`.

    Returns:
        ``(batch, n, n)``, whole numbers.
    """
    counted = above.float()
    with no_autocast(above.device):  # numbers above 256 would be rounded
        return (counted @ counted.transpose(1, 2)).long()


def tree_distances(word: Tensor, head: Tensor) -> Tensor:
    """T: how many steps lead from i's word to j's, up and down, ``(batch, n, n)``; a number above n where none do.

    Raises:
        ValueError: the heads of a sentence lead into a cycle; see :func:`~fairseq_syntax.modules.dependency.ancestors`.
    """
    common = common_ancestors(ancestors(word, head))
    of_itself = common.diagonal(dim1=1, dim2=2)
    steps = of_itself.unsqueeze(2) + of_itself.unsqueeze(1) - 2 * common
    return steps.masked_fill(common == 0, 2 * word.shape[1] + 1)


def _cycle(word: Tensor, up: Tensor) -> ValueError:
    """What is wrong where n steps lead up from a number of a word to another than 0: `up`, ``(batch, 1 + n)``."""
    row, number = up.nonzero()[0].tolist()
    there = int(up[row, number]) - 1
    position = int((word[row] == there).nonzero()[0])
    return ValueError(
        f"{_EXPECTED} through position {position}, word {there}, of sentence {row} of the batch (counted from 0)"
        + _REMEDY
    )

"""Dependency trees as matrices: ancestors, distances between words, and positions of heads.

A tree comes as two features of each position, both ``(batch, n)``, as :mod:`syntax_data.features` defines them:
``word``, the index of the subword's word, and ``head``, 0 or 1 + the index of its word's head. ``</s>`` is a root of
its own. Steps over words that were cut off, or have no subword, do not count. Results are undefined at positions
without features, and in a sentence without a parse.

All follow from the ancestors A of :func:`ancestors`: with a = A·1, the number of a word's ancestors and itself, and
C = A·Aᵀ, the number that two words have in common, the path between two words is a_i + a_j - 2·C[i, j] steps long.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from fairseq_syntax.modules import numerics
from fairseq_syntax.modules.numerics import UNKNOWN, no_autocast

_CYCLE = "expected heads that lead to a root, found a cycle"
_REMEDY = "; fairseq-syntax-binarize --verify finds it in a data-bin"


def is_word_start(word: Tensor) -> Tensor:
    """True at positions that begin a word, ``(batch, n)``."""
    return word != F.pad(word, (1, 0), value=UNKNOWN)[:, :-1]


def is_eos(word: Tensor) -> Tensor:
    """True at ``</s>`` of a sentence, which is a word of its own, the last, ``(batch, n)``."""
    return word == word.max(dim=1, keepdim=True).values


def first_subwords(word: Tensor) -> Tensor:
    """Return the position of the first subword of each position's word, ``(batch, n)``."""
    position = torch.arange(word.shape[1], device=word.device)
    return (position * is_word_start(word)).cummax(dim=1).values


def word_starts(word: Tensor, first: Tensor) -> Tensor:
    """Return the first position of each word, ``(batch, n + 2)``, by number, from 1.

    It is n for a number that no word has; `first` is of :func:`first_subwords`.
    """
    batch, n = word.shape
    begin = torch.full((batch, n + 2), n, device=word.device)
    begin.scatter_(1, word + 1, first)
    begin[:, 0] = n  # of roots' heads, and where there is no word
    return begin


def head_positions(word: Tensor, head: Tensor, first: Tensor) -> Tensor:
    """Return the first position of each word's head, ``(batch, n)``; of a root its own."""
    position = word_starts(word, first).gather(1, head.clamp(min=0))
    return torch.where(position < word.shape[1], position, first)


def roots(word: Tensor, head: Tensor) -> Tensor:
    """Return the number, from 1, of the root above each position's word, ``(batch, n)``: one number a tree."""
    batch, n = word.shape
    number = word + 1
    up = number.new_zeros(batch, 1 + n)
    up.scatter_(1, number, torch.where(head > 0, head, number))
    for _ in range((n - 1).bit_length()):  # each doubles the number of steps
        up = up.gather(1, up)
    return up.gather(1, number)


def ancestors(word: Tensor, head: Tensor, *, yes: float = True, no: float = False) -> Tensor:
    """Return A: `yes` where a word is i's word or an ancestor of it, else `no`.

    Returns:
        ``(batch, n, n)``; rows are positions, columns are words, from 0.

    Raises:
        ValueError: the heads of a sentence form a cycle; names it. On a GPU, where one would have to wait to know, an
            assertion of the device fails instead.
    """
    batch, n = word.shape
    return torch.full((batch, n, 1 + n), no, device=word.device).scatter_(2, paths_to_root(word, head), yes)[:, :, 1:]


def columns_of_positions(of_words: Tensor, word: Tensor) -> Tensor:
    """Turn columns of words into columns of positions, ``(batch, n, n)`` both."""
    return of_words.gather(2, word.clamp(min=0).unsqueeze(1).expand_as(of_words))


def paths_to_root(word: Tensor, head: Tensor) -> Tensor:
    """Return the numbers of each position's word and its ancestors, upwards, and then zeros.

    Each iteration doubles the length of the paths, so that few are enough for any tree. Numbers are those of ``head``,
    ``(batch, n, steps)``. On a GPU there are as many steps as subwords, or up to twice as many.
    """
    batch, n = word.shape
    number = word + 1
    up = head.new_zeros(batch, 1 + n)  # from a number, as many steps as paths are long
    up.scatter_(1, number, head.clamp(min=0))
    up[:, 0] = 0  # from roots, and where there is no word
    paths = number.unsqueeze(2)
    asynchronous = numerics.is_asynchronous(word.device)
    for _ in range((n - 1).bit_length()):
        if not asynchronous and not up.any():
            return paths
        paths = torch.cat([paths, up.gather(1, paths.flatten(1)).view_as(paths)], dim=2)
        up = up.gather(1, up)
    if asynchronous:
        torch._assert_async(~up.any(), f"{_CYCLE}{_REMEDY}")
    elif up.any():  # n steps up from a word end at a number that is not 0
        row, number = up.nonzero()[0].tolist()
        at = int((word[row] == up[row, number] - 1).nonzero()[0])
        where = f"through position {at}, word {int(word[row, at])}, of sentence {row} of the batch (counted from 0)"
        raise ValueError(f"{_CYCLE} {where}{_REMEDY}")
    return paths


def common_ancestors(above: Tensor) -> Tensor:
    """Return C: the number of ancestors, themselves included, that two words share.

    From `above`, A of :func:`ancestors`; ``(batch, n, n)``, integers; 0: no path joins the words.
    """
    counted = above.float()
    with no_autocast(above.device):  # numbers above 256 would be rounded
        return (counted @ counted.transpose(1, 2)).int()


def tree_distances(word: Tensor, head: Tensor) -> Tensor:
    """Return T: the number of steps from i's word to j's, up and down.

    ``(batch, n, n)``; above n where no path is.

    Raises:
        ValueError: the heads of a sentence form a cycle; see :func:`ancestors`.
    """
    common = common_ancestors(ancestors(word, head))
    depth = common.diagonal(dim1=1, dim2=2)
    steps = depth.unsqueeze(2) + depth.unsqueeze(1) - 2 * common
    return steps.masked_fill(common == 0, 2 * word.shape[1] + 1)

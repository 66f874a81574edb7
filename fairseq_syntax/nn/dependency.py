"""Dependency trees as matrices: who is an ancestor of whom, how far apart two words are, where a parent stands.

A tree comes as two features of each position, both ``(batch, n)``, as :mod:`syntax_preprocess.features` defines them:
``word``, the index of the subword's word, and ``head``, 0 or 1 + the index of the word that its word hangs on. ``</s>``
is a root of its own. Steps over words that were cut off, or have no subword, do not count. At positions without
features, and in a sentence without a parse, what these functions return means nothing.

All follow from the ancestors A of :func:`ancestors`: with a = A·1, the number of a word's ancestors and itself, and
C = A·Aᵀ, the number that two words have in common, the path between two words is a_i + a_j - 2·C[i, j] steps long.
"""

from __future__ import annotations

import itertools

import torch
import torch.nn.functional as F
from torch import Tensor

from fairseq_syntax.nn.numerics import UNKNOWN, no_autocast

#: How many ancestors :func:`ancestors` finds at a time; after each time a GPU is waited for.
_LEVELS = 8


def first_subwords(word: Tensor) -> Tensor:
    """Where each position's word begins, ``(batch, n)``."""
    position = torch.arange(word.shape[1], device=word.device)
    starts_word = word != F.pad(word, (1, 0), value=UNKNOWN)[:, :-1]
    return (position * starts_word).cummax(dim=1).values


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
    place = _heads(word, head, first)
    return torch.where(place < word.shape[1], place, first)


def _heads(word: Tensor, head: Tensor, first: Tensor) -> Tensor:
    """As :func:`parents`; n for a root."""
    return words(word, first).gather(1, head.clamp(min=0))


def ancestors(word: Tensor, head: Tensor) -> tuple[Tensor, Tensor]:
    """Words and their ancestors.

    Returns:
        A: whether the word that begins at j is i's word or an ancestor of it, ``(batch, n, n)``; and where i's word
        begins, ``(batch, n)``.

    Raises:
        ValueError: the heads of a sentence lead into a cycle; names it.
    """
    batch, n = word.shape
    first = first_subwords(word)
    parent = F.pad(_heads(word, head, first), (0, 1), value=n)
    visible = torch.zeros(batch, n, n + 1, dtype=torch.bool, device=word.device)
    ancestor = first
    for level in itertools.count(_LEVELS, _LEVELS):
        path = [ancestor]
        for _ in range(_LEVELS):
            path.append(parent.gather(1, path[-1]))
        ancestor = path.pop()
        visible.scatter_(2, torch.stack(path, dim=2), True)
        if not bool((ancestor < n).any()):
            break
        if level >= n:
            raise _cycle(word, ancestor)
    return visible[:, :, :n], first


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
        ValueError: the heads of a sentence lead into a cycle; names it.
    """
    common = common_ancestors(ancestors(word, head)[0])
    of_itself = common.diagonal(dim1=1, dim2=2)
    steps = of_itself.unsqueeze(2) + of_itself.unsqueeze(1) - 2 * common
    return steps.masked_fill(common == 0, 2 * word.shape[1] + 1)


def _cycle(word: Tensor, ancestor: Tensor) -> ValueError:
    """What is wrong where the n-th ancestor of a position, ``(batch, n)``, is no number above the root."""
    row, position = (ancestor < ancestor.size(1)).nonzero()[0].tolist()
    there = int(ancestor[row, position])
    return ValueError(
        f"expected heads that lead to a root, found a cycle through position {there}, word {int(word[row, there])}, of "
        f"sentence {row} of the batch (counted from 0); fairseq-syntax-binarize --verify finds it in a data-bin"
    )

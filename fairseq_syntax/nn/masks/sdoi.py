"""Syntactic dependency of interest: dependency trees (SG-Net)."""

from __future__ import annotations

import itertools

import torch
import torch.nn.functional as F
from torch import Tensor

from fairseq_syntax.nn.masks.base import UNKNOWN, SyntaxMask, register_syntax_mask
from fairseq_syntax.options import option


@register_syntax_mask("sdoi")
class SyntacticDependencyOfInterest(SyntaxMask):
    """A word sees itself and its ancestors in the dependency tree (SG-Net, Zhang et al., eq. 1)."""

    features = ("word", "head")

    subwords: str = option(
        "share",
        choices=("share", "first"),
        help="subwords under sdoi (SG-Net): share their word's row and column, or the first one is the parent of the "
        "others",
    )

    def log_mask(self, *features: Tensor) -> Tensor:
        word, head = features
        return sdoi(word, head, subwords=self.subwords)


def sdoi(word: Tensor, head: Tensor, *, subwords: str = "share") -> Tensor:
    """Syntactic dependency of interest (SG-Net, Zhang et al. 2020, eq. 1): M[i, j] = 1 iff j's word is i's word
    or one of its ancestors in the dependency tree.

    SG-Net's eq. (7) multiplies the scores by M before the softmax, which leaves a hidden key with score 0 and
    so with weight exp(0); its released code adds -10000 to them instead. This mask hides, as the code does.

    Args:
        word: index of each position's word, ``(batch, n)``.
        head: 0 or 1 + index of the head's word, ``(batch, n)``; see :mod:`syntax_preprocess.features`.
        subwords: ``share``: subwords take their word's row and column. ``first``: the word's later subwords
            become children of its first.

    Returns:
        the mask's logarithm, ``(batch, n, n)``, 0 or -inf.

    Raises:
        ValueError: the heads of a sentence lead into a cycle; names it.
    """
    batch, n = word.shape
    visible, first = ancestors(word, head)
    if subwords == "share":
        visible = visible.gather(2, first.unsqueeze(1).expand(batch, n, n))
    else:
        visible = visible | torch.eye(n, dtype=torch.bool, device=word.device)
    return torch.zeros(batch, n, n, device=word.device).masked_fill_(~visible, -torch.inf)


def ancestors(word: Tensor, head: Tensor) -> tuple[Tensor, Tensor]:
    """Words and their ancestors in the dependency tree; `word` and `head` are those of :func:`sdoi`.

    Returns:
        whether the word that begins at j is i's word or an ancestor of it, ``(batch, n, n)``; and where i's word
        begins, ``(batch, n)``.

    Raises:
        ValueError: the heads of a sentence lead into a cycle; names it.
    """
    batch, n = word.shape
    position = torch.arange(n, device=word.device).expand(batch, n)
    starts_word = word != F.pad(word, (1, 0), value=UNKNOWN)[:, :-1]
    first = position.masked_fill(~starts_word, 0).cummax(dim=1).values  # first subword of one's own word

    # Words are numbered from 1 here as in `head`; number 0, above the root, lives at position n.
    first_of_word = torch.full((batch, n + 1), n, device=word.device)
    first_of_word.scatter_(1, word + 1, first)
    first_of_word[:, 0] = n
    parent = first_of_word.gather(1, head.clamp(min=0))
    parent = F.pad(parent, (0, 1), value=n)

    visible = torch.zeros(batch, n, n + 1, dtype=torch.bool, device=word.device)
    ancestor = first
    for level in itertools.count(1):
        visible.scatter_(2, ancestor.unsqueeze(2), True)
        ancestor = parent.gather(1, ancestor)
        if level % 8 == 0:  # not at each level: a GPU is waited for
            if not bool((ancestor < n).any()):
                break
            if level >= n:
                raise _cycle(word, ancestor)
    return visible[:, :, :n], first


def _cycle(word: Tensor, ancestor: Tensor) -> ValueError:
    """What is wrong where the n-th ancestor of a position, ``(batch, n)``, is no number above the root."""
    row, position = (ancestor < ancestor.size(1)).nonzero()[0].tolist()
    there = int(ancestor[row, position])
    return ValueError(
        f"expected heads that lead to a root, found a cycle through position {there}, word {int(word[row, there])}, of "
        f"sentence {row} of the batch (counted from 0); fairseq-syntax-binarize --verify finds it in a data-bin"
    )

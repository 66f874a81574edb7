"""Probabilities of moves from word to word of a dependency tree."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fairseq_syntax.modules.dependency import first_subwords, head_positions, is_word_start, paths_to_root
from fairseq_syntax.modules.numerics import UNKNOWN, at_least_float32

#: Kinds of steps, the first of each: into a dependent, on the left or right of its head, after `down` and after `emit`;
#: into another dependent after `up` from s, on its left or right, three each: on the other side, later on s's, next on
#: s's; to emit after `down`; then, from the left or right of the head, up after `emit`, to emit and up after `up`; and
#: to emit again.
_DOWN_DOWN, _EMIT_DOWN, _UP_DOWN, _DOWN_EMIT, _EMIT_UP, _UP_EMIT, _UP_UP, _EMIT_EMIT, _KINDS = (
    0, 2, 4, 10, 11, 13, 15, 17, 18
)  # fmt: skip


def parent_positions(word: Tensor, head: Tensor, padding: Tensor) -> Tensor:
    """Return the position that each depends on, ``(batch, n)``; ``</s>``, the last token, is its own.

    A word's first subword depends on its head's, a root's on ``</s>``, a later subword on the one before. Without a
    parse, all words are roots. At padding it is :data:`~fairseq_syntax.modules.numerics.UNKNOWN`.

    Args:
        word, head: features, ``(batch, n)``.
        padding: true at padding, ``(batch, n)``.

    Raises:
        ValueError: the heads of a sentence form a cycle; see :func:`~fairseq_syntax.modules.dependency.ancestors`.
    """
    paths_to_root(word, head)
    position = torch.arange(word.shape[1], device=word.device)
    end = (position * ~padding).amax(dim=1, keepdim=True)
    of_head = head_positions(word, head, first_subwords(word))  # of a root its own
    of_head = torch.where((of_head == position) | (word < 0), end, of_head)
    parent = torch.where(is_word_start(word) | (word < 0), of_head, (position - 1).clamp(min=0))
    return torch.where(position == end, position, parent).masked_fill(padding, UNKNOWN)


class _Tree(NamedTuple):
    """Relations in a batch's trees; those of two positions are true from the first to the second.

    Attributes:
        parent: the head's position, of a root its own, 0 at padding, ``(batch, n)``.
        real: false at padding, ``(batch, n)``.
        is_root: ``(batch, n)``.
        right: 1 on the right of the head, 0 on its left, ``(batch, n)``.
        dependents: ``(batch, n, n)``.
        siblings: two dependents of one head, ``(batch, n, n)``.
        same_side: on the same side of their heads, ``(batch, n, n)``.
        after: the second comes after the first, ``(n, n)``.
        follows: a sibling that is the next on its side, ``(batch, n, n)``.
    """

    parent: Tensor
    real: Tensor
    is_root: Tensor
    right: Tensor
    dependents: Tensor
    siblings: Tensor
    same_side: Tensor
    after: Tensor
    follows: Tensor

    @classmethod
    def of(cls, parent: Tensor, *, backward: bool) -> _Tree:
        """The relations under heads of :func:`parent_positions`, in one of the two orders of dependents."""
        position = torch.arange(parent.shape[1], device=parent.device)
        real = parent != UNKNOWN
        parent = parent.clamp(min=0)
        is_root = (parent == position) & real
        right = (position > parent).long()
        depends = (real & ~is_root).unsqueeze(2)
        edges = (parent.unsqueeze(2) == position) & depends
        siblings = (parent.unsqueeze(2) == parent.unsqueeze(1)) & depends & depends.mT
        siblings = siblings & (position.unsqueeze(1) != position)
        same_side = right.unsqueeze(2) == right.unsqueeze(1)
        after = position.unsqueeze(1) < position
        after = after.mT if backward else after
        rank = (siblings & same_side & after).sum(dim=1)
        follows = siblings & same_side & (rank.unsqueeze(1) == rank.unsqueeze(2) + 1)
        return cls(parent, real, is_root, right, edges.mT, siblings, same_side, after, follows)


class TreeMoves(nn.Module):
    """Probabilities that a walker, who emits one word after another, goes from word i to word j of a tree.

    Between two words that it emits, the walker goes along edges of the tree by silent steps, each chosen by what is
    near: after `down` to a word, it emits that, or goes down to a dependent; after it has emitted a word, it emits it
    again, goes `up`, out of what depends on it, or down to a dependent; after `up` from a word s, it emits s's head,
    goes up from that, too, or down to another dependent of it: one on the other side, or one after s on its own. So
    every rule is learned from shallow trees as well as from deep ones. ``</s>`` is the head of roots, and has no up.

    Each choice is a softmax over its scores v·relu(Σ_r W_r x_r + k), with k of the kind of step, and x the embeddings
    of the words r: the dependent, the one before it on its side, their head, and s. Which side of a head comes first is
    a choice of its own, by the head: its log-probability is added to the scores of the side that is entered first after
    `down`, and of the other side after `up`.

    v is 0 at first, so that all choices are as likely.

    The sum over all silent ways is in closed form: of the matrices D (down to a dependent) and U (up) the inverses of
    I - D and I - U, as a path goes up and then down.

    Args:
        dim: width of embeddings.
        backward: dependents of a side follow each other from right to left.
    """

    def __init__(self, dim: int, *, backward: bool, hidden_dim: int = 32):
        super().__init__()
        self.backward_order = backward
        self.words = nn.Linear(dim, 4 * hidden_dim, bias=False)
        self.kinds = nn.Parameter(torch.randn(_KINDS, hidden_dim) / 2)
        self.score = nn.Linear(hidden_dim, 1, bias=False)
        self.left_first = nn.Linear(dim, 1)
        nn.init.normal_(self.words.weight, std=dim**-0.5)
        nn.init.zeros_(self.score.weight)

    def forward(self, x: Tensor, parent: Tensor) -> Tensor:
        """Return the probabilities, ``(batch, n, n)``; rows of padding are 0, all others sum to 1.

        Args:
            x: embeddings, ``(batch, n, dim)``.
            parent: of :func:`parent_positions`.
        """
        tree = _Tree.of(parent, backward=self.backward_order)
        emit, down, up = self._choices(x, tree)
        to_head = tree.dependents.mT.to(up.dtype)
        down_to_emit = _inverse(down[:, :, 1:]) * down[:, :, :1].mT
        after_up = up[:, :, 2:] @ down_to_emit + up[:, :, :1] * to_head
        moves = emit[:, :, 2:] @ down_to_emit + emit[:, :, 1:2] * _inverse(up[:, :, 1:2] * to_head) @ after_up
        return (moves + torch.diag_embed(emit[:, :, 0])) * tree.real.unsqueeze(2)

    def _choices(self, x: Tensor, tree: _Tree) -> tuple[Tensor, Tensor, Tensor]:
        """Probabilities of steps after `emit`, `down` and `up`.

        Returns:
            of emitting again, going up, and down to each dependent, ``(batch, n, 2 + n)``; of emitting, and down to
            each dependent, ``(batch, n, 1 + n)``; of emitting the head, going up from it, and down to each other
            dependent of it, ``(batch, n, 2 + n)``.
        """
        side = tree.right
        of_dependent, of_before, of_head, of_origin = at_least_float32(self.words(x)).chunk(4, dim=2)
        of_head = _rows(of_head, tree.parent)
        kinds = at_least_float32(self.kinds)
        into = of_dependent + tree.follows.to(of_before.dtype).mT @ of_before + of_head
        out_of = of_origin + of_head
        way = 3 * side.unsqueeze(2) + tree.same_side.long() + tree.follows.long()

        left_first = at_least_float32(self.left_first(x))
        first = F.logsigmoid(_rows(left_first, tree.parent).squeeze(2) * (1 - 2 * side))
        first_entered = torch.where((tree.siblings & ~tree.same_side).any(dim=2), first, 0.0)
        down_down = self._scores(into + kinds[_DOWN_DOWN + side]) + first_entered
        up_down = self._scores(into.unsqueeze(1) + of_origin.unsqueeze(2) + F.embedding(_UP_DOWN + way, kinds))
        up_down = up_down + torch.where(tree.same_side, 0.0, first.unsqueeze(2))

        emit = _softmax(
            [
                self._scores(kinds[_EMIT_EMIT]).expand(side.shape),
                self._scores(out_of + kinds[_EMIT_UP + side]).masked_fill(tree.is_root, -torch.inf),
            ],
            self._scores(into + kinds[_EMIT_DOWN + side]).unsqueeze(1),
            tree.dependents,
        )
        down = _softmax([self._scores(of_dependent + kinds[_DOWN_EMIT])], down_down.unsqueeze(1), tree.dependents)
        of_root = tree.is_root.gather(1, tree.parent)
        up = _softmax(
            [
                self._scores(out_of + kinds[_UP_EMIT + side]),
                self._scores(out_of + kinds[_UP_UP + side]).masked_fill(of_root, -torch.inf),
            ],
            up_down,
            tree.siblings & (tree.after | ~tree.same_side),
        )
        return emit, down, up * (tree.real & ~tree.is_root).unsqueeze(2)

    def _scores(self, hidden: Tensor) -> Tensor:
        return (hidden.relu() @ at_least_float32(self.score.weight).mT).squeeze(-1)


def _rows(x: Tensor, at: Tensor) -> Tensor:
    """Return rows of ``(batch, n, dim)`` at ``(batch, n)`` positions."""
    return x.gather(1, at.unsqueeze(2).expand(-1, -1, x.shape[2]))


def _softmax(choices: Sequence[Tensor], of_words: Tensor, allowed: Tensor) -> Tensor:
    """Return the softmax of the scores of choices, ``(batch, n)`` each, and of the words that are allowed.

    Args:
        of_words: ``(batch, 1 or n, n)``.
        allowed: ``(batch, n, n)``.
    """
    of_words = torch.where(allowed, of_words, -torch.inf)
    return torch.cat([*(one.unsqueeze(2) for one in choices), of_words], dim=2).softmax(dim=2)


def _inverse(steps: Tensor) -> Tensor:
    """Return (I - S)⁻¹ = I + S + S² + … of steps along edges of trees, ``(batch, n, n)``."""
    return torch.linalg.inv_ex(torch.eye(steps.shape[1], dtype=steps.dtype, device=steps.device) - steps).inverse

"""Probabilities of moves from word to word of a dependency tree."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fairseq_syntax.modules.dependency import first_subwords, head_positions, is_word_start
from fairseq_syntax.modules.numerics import at_least_float32

#: Kinds of steps, the first number of each; see :class:`TreeMoves`.
_DOWN_DOWN, _EMIT_DOWN, _UP_DOWN, _DOWN_EMIT, _EMIT_UP, _UP_EMIT, _UP_UP, _EMIT_EMIT, _KINDS = (
    0, 2, 4, 16, 17, 19, 21, 23, 24
)  # fmt: skip


def parent_positions(word: Tensor, head: Tensor, padding: Tensor) -> Tensor:
    """Return the position that each depends on, ``(batch, n)``; ``</s>``, the last token, is its own.

    A word's first subword depends on its head's, a root's on ``</s>``, a later subword on the one before. Without a
    parse, all words are roots. At padding the result is undefined.

    Args:
        word, head: features, ``(batch, n)``.
        padding: true at padding, ``(batch, n)``.
    """
    position = torch.arange(word.shape[1], device=word.device)
    end = (position * ~padding).amax(dim=1, keepdim=True)
    of_head = torch.where(head > 0, head_positions(word, head, first_subwords(word)), end)
    parent = torch.where(is_word_start(word), of_head, (position - 1).clamp(min=0))
    return torch.where(position == end, position, parent)


class TreeMoves(nn.Module):
    """Probabilities that a walker, who emits one word after another, goes from word i to word j of a tree.

    Between two words that it emits, the walker goes along edges of the tree by silent steps, each chosen by what is
    near: after `down` to a word, it emits that, or goes down to a dependent; after it has emitted a word, it emits it
    again, goes `up`, out of what depends on it, or down to a dependent; after `up` from a word s, it emits s's head,
    goes up from that, too, or down to another dependent of it: one on the other side, or one after s on its own. So
    every rule is learned from shallow trees as well as from deep ones. ``</s>`` is the head of roots, and has no up.

    Each choice is a softmax over its scores v·relu(Σ_r W_r x_r + k), with k of the kind of step, and x the embeddings
    of the words r: the dependent, the one before it on its side, their head, and s. A head has its dependents of one
    side first, by a probability of its own, which both ways into a side have as a factor.

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
        nn.init.normal_(self.score.weight, std=hidden_dim**-0.5)

    def forward(self, x: Tensor, parent: Tensor, padding: Tensor) -> Tensor:
        """Return the probabilities, ``(batch, n, n)``; rows of padding are 0, all others sum to 1.

        Args:
            x: embeddings, ``(batch, n, dim)``.
            parent: of :func:`parent_positions`.
            padding: true at padding, ``(batch, n)``.
        """
        n = x.shape[1]
        position = torch.arange(n, device=x.device)
        real = ~padding
        parent = parent.clamp(min=0)
        is_root = (parent == position) & real
        right = (position > parent).long()
        edges = F.one_hot(parent, n).bool() & (real & ~is_root).unsqueeze(2)  # from s, to its head
        siblings = (edges.float() @ edges.float().mT).bool() & (position.unsqueeze(1) != position)
        same_side = right.unsqueeze(2) == right.unsqueeze(1)
        after = position.unsqueeze(1) < position
        if self.backward_order:
            after = after.mT
        rank = (siblings & same_side & after).sum(dim=1)
        follows = siblings & same_side & (rank.unsqueeze(1) == rank.unsqueeze(2) + 1)

        of_dependent, of_before, of_head, of_left = at_least_float32(self.words(x)).chunk(4, dim=2)
        of_head = _rows(of_head, parent)
        kinds = at_least_float32(self.kinds)
        into = of_dependent + follows.to(of_before.dtype).mT @ of_before + of_head
        out_of = of_left + of_head
        way = 3 * (2 * right.unsqueeze(2) + right.unsqueeze(1)) + after.long() + follows.long()

        left_first = at_least_float32(self.left_first(x))
        first = F.logsigmoid(_rows(left_first, parent).squeeze(2) * (1 - 2 * right))
        has_other_side = (siblings & ~same_side).any(dim=2)
        first_entered = torch.where(has_other_side, first, 0.0)
        down_down = self._scores(into + kinds[_DOWN_DOWN + right]) + first_entered
        emit_down = self._scores(into + kinds[_EMIT_DOWN + right])
        up_down = self._scores(into.unsqueeze(1) + of_left.unsqueeze(2) + kinds[_UP_DOWN + way])
        up_down = up_down + torch.where(same_side, 0.0, first.unsqueeze(2))

        children = edges.mT
        down = _choice(self._scores(of_dependent + kinds[_DOWN_EMIT]), down_down.unsqueeze(1), children)
        emit = _choice(
            self._scores(kinds[_EMIT_EMIT]).expand(parent.shape),
            self._scores(out_of + kinds[_EMIT_UP + right]).masked_fill(is_root, -torch.inf),
            emit_down.unsqueeze(1),
            children,
        )
        up = _choice(
            self._scores(out_of + kinds[_UP_EMIT + right]),
            self._scores(out_of + kinds[_UP_UP + right]).masked_fill(is_root.gather(1, parent), -torch.inf),
            up_down,
            siblings & (after | ~same_side),
        )
        up = up * (real & ~is_root).unsqueeze(2)
        to_head = edges.to(up.dtype)
        down_to_emit = _inverse(down[:, :, 1:]) * down[:, :, :1].mT
        after_up = up[:, :, 2:] @ down_to_emit + up[:, :, :1] * to_head
        moves = emit[:, :, 2:] @ down_to_emit + emit[:, :, 1:2] * _inverse(up[:, :, 1:2] * to_head) @ after_up
        return (moves + torch.diag_embed(emit[:, :, 0])) * real.unsqueeze(2)

    def _scores(self, hidden: Tensor) -> Tensor:
        return (hidden.relu() @ at_least_float32(self.score.weight).mT).squeeze(-1)


def _rows(x: Tensor, at: Tensor) -> Tensor:
    """Return rows of ``(batch, n, dim)`` at ``(batch, n)`` positions."""
    return x.gather(1, at.unsqueeze(2).expand(-1, -1, x.shape[2]))


def _choice(*scores: Tensor) -> Tensor:
    """Return probabilities of choices that all have, ``(batch, n)``, and of words, ``(batch, n, n)``, where allowed."""
    *single, of_words, allowed = scores
    of_words = of_words.masked_fill(~allowed, -torch.inf)
    return torch.cat([*(one.unsqueeze(2) for one in single), of_words], dim=2).softmax(dim=2)


def _inverse(steps: Tensor) -> Tensor:
    """Return (I - S)⁻¹ = I + S + S² + … of steps along edges of trees, ``(batch, n, n)``."""
    total = torch.eye(steps.shape[1], dtype=steps.dtype, device=steps.device) + steps
    for _ in range((steps.shape[1] - 1).bit_length() - 1):
        steps = steps @ steps
        total = total + total @ steps
    return total

"""A hidden Markov model of translation whose transitions are moves in the source's tree."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fairseq_syntax.modules.numerics import UNKNOWN, at_least_float32
from fairseq_syntax.modules.tree_moves import TreeMoves

#: Of the parameter of jumps, so that the step of an optimizer moves it enough.
_JUMP_SCALE = 4.0
#: The decoder's share of the mixture: where both are sure of different tokens, q decides.
_SHARE = 0.3
_TINY = 1e-20
_LEAST_JUMP = 1e-9
#: Its key in the state of generation.
_STATE = "tree_hmm"


class SubwordContext(nn.Module):
    """Adds the rest of its word to a subword's embedding, x_j + W·relu(L·Σ_{i before j} x_i + R·Σ_{i after j} x_i).

    The sums are over other subwords of the word, so one that is a word keeps its embedding. W is 0 at first.

    Args:
        dim: width of embeddings.
    """

    def __init__(self, dim: int):
        super().__init__()
        self.others = nn.Linear(dim, 2 * dim, bias=False)
        self.out = nn.Linear(dim, dim, bias=False)
        nn.init.normal_(self.others.weight, std=dim**-0.5)
        nn.init.zeros_(self.out.weight)

    def forward(self, x: Tensor, word: Tensor) -> Tensor:
        """Return embeddings, ``(batch, n, dim)``, of those and of each subword's word, ``(batch, n)``."""
        same = ((word.unsqueeze(2) == word.unsqueeze(1)) & (word >= 0).unsqueeze(2)).to(x.dtype)
        before, after = self.others(x).chunk(2, dim=2)
        return x + self.out((same.tril(-1) @ before + same.triu(1) @ after).relu())


class TreeHmm(nn.Module):
    """Hidden Markov model of the target (Vogel et al. 1996), in which :class:`TreeMoves` are the transitions.

    State is the source subword that a target token is emitted from, by a lexicon p(y | j), which knows the subword's
    word (:class:`SubwordContext`); ``</s>`` alone emits ``</s>``, and is where a translation begins:

        q(y_{t+1} | y_1 … y_t) ∝ b(y_{t+1} | y_t) Σ_j A_t(j) p(y_{t+1} | j)
        A_t = (1 - ε) P_t M + ε/n,  P_t(i) ∝ A_{t-1}(i) p(y_t | i)

    P_0 is 1 at ``</s>``, M are the moves, ε is the probability of a jump, learned, 0.5 at first, so that the lexicon
    is learned before the moves. There are two such models, whose dependents follow each other from left to right and
    from right to left; their joint posterior tells which it is. The bigram b, a factor of two tokens that follow each
    other, 1 at first, tells which subword goes on with a word. No parameter depends on how long or deep a sentence is.

    The decoder's p and q are mixed: 0.3 p + 0.7 q. As in a mixture what explains more learns more, training adds the
    losses of p and q: the mixture's logarithm has their gradients, too. So each learns what it can, and where both are
    sure of different tokens, as on sentences deeper than all in training, q decides.

    Args:
        source_dim, target_dim: widths of embeddings.
        output_dim: width of what the decoder's output layer takes, from which lexicon and bigram have their scores.
        eos, pad: the numbers of the target's ``</s>`` and padding.
    """

    def __init__(self, source_dim: int, target_dim: int, output_dim: int, *, eos: int, pad: int):
        super().__init__()
        self.eos = eos
        self.pad = pad
        self.moves = nn.ModuleList(TreeMoves(source_dim, backward=backward) for backward in (False, True))
        self.lexicon = nn.Linear(source_dim, output_dim, bias=False)
        self.context = SubwordContext(source_dim)
        self.bigram = nn.Linear(target_dim, output_dim, bias=False)
        self.jump = nn.Parameter(torch.zeros(()))
        nn.init.zeros_(self.bigram.weight)

    def forward(
        self,
        tokens: Tensor,
        embedded: Tensor,
        source: Tensor,
        parent: Tensor,
        word: Tensor,
        output_layer: Callable[[Tensor], Tensor],
        incremental_state: dict[str, Any] | None = None,
    ) -> Tensor:
        """Return log q, ``(batch, m, vocabulary)``.

        Args:
            tokens: what was emitted, ``(batch, m)``, the last alone in generation. The first is none; after another
                ``</s>``, and at padding, it begins again.
            embedded: the same, ``(batch, m, target_dim)``.
            source: embeddings, ``(batch, n, source_dim)``.
            parent: of :func:`~fairseq_syntax.modules.tree_moves.parent_positions`.
            word: feature, ``(batch, n)``.
            output_layer: from ``(batch, …, output_dim)`` to scores of the vocabulary.
            incremental_state: keeps A_t, M and the lexicon.
        """
        state: dict[str, Tensor] = (incremental_state or {}).get(_STATE, {})
        real, at_end = parent != UNKNOWN, parent == torch.arange(parent.shape[1], device=parent.device)
        source = source if state else self.context(source, word)
        lexicon = state["lexicon"] if state else self._lexicon(output_layer(self.lexicon(source)))
        moves = state["moves"] if state else torch.stack([of(source, parent) for of in self.moves], dim=1)
        emissions = lexicon.gather(2, tokens.unsqueeze(1).expand(-1, lexicon.shape[1], -1))
        emissions = emissions.masked_fill(at_end.unsqueeze(2), 0.0).clamp(min=_TINY)
        begins = ((tokens == self.eos) | (tokens == self.pad))[:, :, None, None]
        end = at_end.to(moves.dtype).unsqueeze(1)
        begin = end.expand(-1, len(self.moves), -1) / len(self.moves)
        jump = (_JUMP_SCALE * at_least_float32(self.jump)).sigmoid().clamp(min=_LEAST_JUMP)
        anywhere = jump * F.normalize(real.to(moves.dtype), p=1).unsqueeze(1)
        a, found = state.get("a"), []
        for t, emission in enumerate(emissions.unbind(dim=2)):
            p = begin if a is None else torch.where(begins[:, t], begin, _posterior(a, emission))
            a = (1 - jump) * (p.unsqueeze(2) @ moves).squeeze(2) + p.sum(dim=2, keepdim=True) * anywhere
            found.append(a)
        if incremental_state is not None:
            incremental_state[_STATE] = {"lexicon": lexicon, "moves": moves, "a": a}
        states = torch.stack(found, dim=2).sum(dim=1)
        emitted = (states * (1 - end)) @ lexicon
        emitted.index_add_(2, self._eos_index(emitted), (states * end).sum(dim=2, keepdim=True))
        bigram = at_least_float32(output_layer(self.bigram(embedded)))
        return (emitted.add(_TINY).log() + bigram).log_softmax(dim=2)

    def log_mixture(self, logits: Tensor, log_q: Tensor) -> Tensor:
        """Return the logarithm of the mixture of p, of these logits, and q, all ``(batch, m, vocabulary)``.

        It has the dtype of the logits. In training its gradient is that of it, log p and log q together.
        """
        log_p = at_least_float32(logits).log_softmax(dim=2)
        mixed = torch.logaddexp(log_p, log_q + math.log(1 / _SHARE - 1)) + math.log(_SHARE)
        if self.training:
            both = log_p + log_q
            mixed = mixed + (both - both.detach())
        return mixed.to(logits.dtype)

    def _lexicon(self, scores: Tensor) -> Tensor:
        """Return p(y | j) of words, ``(batch, n, vocabulary)``, of scores in that shape: of ``</s>`` 0."""
        return at_least_float32(scores.index_fill(2, self._eos_index(scores), -torch.inf)).softmax(dim=2)

    def _eos_index(self, x: Tensor) -> Tensor:
        return torch.full((1,), self.eos, device=x.device)

    def reorder_incremental_state(self, incremental_state: dict[str, Any] | None, new_order: Tensor) -> Any:
        """Reorder hypotheses; of as many as before, each takes the place of one of the same sentence."""
        if incremental_state and _STATE in incremental_state:
            state = incremental_state[_STATE]
            same = len(state["a"]) == len(new_order)
            incremental_state[_STATE] = {
                name: x if same and name != "a" else x.index_select(0, new_order) for name, x in state.items()
            }
        return incremental_state


def _posterior(a: Tensor, emission: Tensor) -> Tensor:
    """Return P ∝ A·p(y | ·) of all models, ``(batch, models, n)``, from A and p(y | ·) of one y, ``(batch, n)``."""
    joint = a * emission.unsqueeze(1)
    return joint / joint.sum(dim=(1, 2), keepdim=True)

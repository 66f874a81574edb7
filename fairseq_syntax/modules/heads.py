"""Predictions of parses, for auxiliary losses: each word's head, and distances between two words."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fairseq_syntax.modules.dependency import first_subwords, head_positions, is_eos, roots
from fairseq_syntax.modules.numerics import UNKNOWN, at_least_float32, padding_bias
from fairseq_syntax.options import option

#: Classes of a pair of words: no path leads down from the one to the other, 1 to 15 steps do, or more.
DISTANCE_CLASSES = 17

#: Of the pairs that are predicted, the share that is masked, and that which gets a random distance (SEPREM §4.3).
MASK_RATE, RANDOM_RATE = 0.8, 0.1

_SLOPE = 0.1  # of leaky ReLU

_UNDER = "under --criterion label_smoothed_cross_entropy_with_syntax or masked_lm_with_syntax"


class ParentScorer(nn.Module):
    """Biaffine scores of heads: s[i, j] = [d_i; 1]·U·h_jᵀ, for j as the head of i (LISA, Strubell et al. 2018).

    d = φ(z·W_d + b_d), h = φ(z·W_h + b_h), φ is leaky ReLU. U is 0 at first, so that all words are as likely. Its row
    for 1 is a prior of j's being a head.

    Args:
        embed_dim: width of z.
        hidden_dim: width of d and h.
    """

    def __init__(self, embed_dim: int, hidden_dim: int):
        super().__init__()
        self.dependent = nn.Linear(embed_dim, hidden_dim)
        self.head = nn.Linear(embed_dim, hidden_dim)
        self.weight = nn.Parameter(torch.zeros(hidden_dim + 1, hidden_dim))

    def forward(self, z: Tensor) -> Tensor:
        """Score hidden states ``(n, batch, embed_dim)``: ``(batch, n, n)`` in float32 at least."""
        z = z.transpose(0, 1)
        dependent = F.pad(F.leaky_relu(self.dependent(z), _SLOPE), (0, 1), value=1.0)
        head = F.leaky_relu(self.head(z), _SLOPE)
        return at_least_float32(dependent @ self.weight @ head.transpose(1, 2))


@dataclass(frozen=True)
class Prediction:
    """Scores of classes, and the right ones.

    Attributes:
        scores: ``(rows, classes)``, float32 at least; -inf for impossible classes.
        targets: ``(rows,)``; :data:`~fairseq_syntax.modules.numerics.UNKNOWN` where nothing is predicted.
        sentences: the index of each row's sentence in the batch, ``(rows,)``.
    """

    scores: Tensor
    targets: Tensor
    sentences: Tensor

    def cross_entropy(self) -> Tensor:
        """-log P(target), P = softmax(scores), in nats, ``(rows,)``; 0 where nothing is predicted."""
        return F.cross_entropy(self.scores, self.targets, ignore_index=UNKNOWN, reduction="none")

    def squared_error(self) -> Tensor:
        """The squared distance of P from the target's one-hot vector, ``(rows,)``; 0 where nothing is predicted."""
        expected = F.one_hot(self.targets.clamp(min=0), self.scores.shape[1])
        errors = (self.scores.softmax(dim=1) - expected).square().sum(dim=1)
        return errors.masked_fill(self.targets == UNKNOWN, 0.0)

    def correct(self) -> Tensor:
        """The number of rows whose target has the highest score."""
        return (self.scores.argmax(dim=1) == self.targets).sum()

    def numbers(self, sentences: int) -> Tensor:
        """The number of predictions of each sentence of the batch, ``(sentences,)`` in float32."""
        there = (self.targets != UNKNOWN).float()
        return there.new_zeros(sentences).index_add(0, self.sentences, there)


def parent_targets(word: Tensor, head: Tensor, special: Tensor | None = None) -> Tensor:
    """Return the first position of each position's head, ``(batch, n)``.

    :data:`UNKNOWN` where nothing is to be predicted: special tokens, padding, a sentence without a parse.

    Args:
        special: true at special tokens, ``(batch, n)``; ``None``: ``</s>``, the last word, is the only one.
    """
    predicted = _is_predicted(word, head, special)
    return head_positions(word, head, first_subwords(word)).masked_fill(~predicted, UNKNOWN)


def _is_predicted(word: Tensor, head: Tensor, special: Tensor | None) -> Tensor:
    """True at positions of which something is predicted, ``(batch, n)``."""
    return ~(is_eos(word) if special is None else special) & (word != UNKNOWN) & (head != UNKNOWN)


def predicted_parents(scores: Tensor, targets: Tensor, padding: Tensor | None) -> Prediction:
    """Predictions of the heads of all subwords that have one.

    Args:
        scores: ``(batch, n, n)``, rows being dependents.
        targets: of :func:`parent_targets`, ``(batch, n)``.
        padding: true at padding, ``(batch, n)``; ``None`` where there is none.
    """
    if padding is not None:
        scores = scores + padding_bias(padding, scores.dtype).unsqueeze(1)
    sentences = torch.arange(len(targets), device=targets.device).unsqueeze(1).expand_as(targets)
    return Prediction(at_least_float32(scores).flatten(0, 1), targets.flatten(), sentences.flatten())


@dataclass(frozen=True)
class CorruptedDistances:
    """Distances in dependency trees, some of them corrupted, to be predicted.

    Attributes:
        shown: D, ``(batch, n, n)``, some entries of which are masked (0) or random.
        pairs: sentence, first subword of the one word and of the other, of each chosen entry, ``(chosen,)`` each.
        targets: their classes, ``(chosen,)``.
    """

    shown: Tensor
    pairs: tuple[Tensor, Tensor, Tensor]
    targets: Tensor

    def predicted(self, rows: Tensor, columns: Tensor) -> Prediction:
        """Predictions by the sum of two words' scores of each class, ``(batch, n, classes)`` each."""
        sentence, one, other = self.pairs
        return Prediction(at_least_float32(rows[sentence, one] + columns[sentence, other]), self.targets, sentence)


def corrupt_distances(
    depths: Tensor, word: Tensor, head: Tensor, special: Tensor | None = None, *, rate: float
) -> CorruptedDistances:
    """Choose distances to predict, at random each time, and corrupt them (SEPREM, Xu et al. 2021, §4.3).

    The paper does not define which entries of D are chosen from. Here they are the ordered pairs of different words of
    one tree. Of those chosen 80% are masked, 10% are replaced by a random integer up to the longest distance, and 10%
    are shown.

    Args:
        depths: D of :func:`fairseq_syntax.modules.tree_mixing.descendant_depths`, ``(batch, n, n)``.
        word, head, special: see :func:`parent_targets`.
        rate: the share of the pairs that is chosen.
    """
    first = first_subwords(word)
    position = torch.arange(word.shape[1], device=word.device)
    begins = (first == position) & _is_predicted(word, head, special)
    pairs = begins.unsqueeze(2) & begins.unsqueeze(1) & (position.unsqueeze(1) != position)
    root = roots(word, head)
    pairs &= root.unsqueeze(2) == root.unsqueeze(1)
    chosen = pairs & (torch.rand(depths.shape, device=word.device) < rate)
    draw = torch.rand(depths.shape, device=word.device)
    longest = depths.amax().clamp(min=1)
    random = (torch.rand(depths.shape, device=word.device) * longest).long().clamp(max=longest - 1) + 1
    shown = torch.where(draw < MASK_RATE, 0, torch.where(draw < MASK_RATE + RANDOM_RATE, random, depths))
    shown = torch.where(chosen, shown, depths)
    # All subwords of a word depend on the head of its first one.
    shown = shown.gather(2, first.unsqueeze(1).expand_as(shown))
    sentence, one, other = chosen.nonzero(as_tuple=True)
    targets = depths[sentence, one, other].clamp(max=DISTANCE_CLASSES - 1)
    return CorruptedDistances(shown, (sentence, one, other), targets)


@dataclass(frozen=True)
class PredictionOptions:
    """Predictions from the encoder's output."""

    parents: bool = option(
        False,
        name="parent_prediction",
        help=f"predicts each word's head from the encoder's output (SEPREM §4.4), {_UNDER}",
    )
    distances: bool = option(
        False,
        name="distance_prediction",
        help="predicts some distances in the dependency tree from the encoder's output, and hides them from what "
        f"layers read in training (SEPREM §4.3), {_UNDER}",
    )
    rate: float = option(
        0.15, name="distance_prediction_rate", above=0, at_most=1, help="which share of the distances is predicted"
    )


class Predictor(nn.Module):
    """Predictor of parses from an encoder's output, `embed_dim` wide, for losses alone.

    Heads are predicted by a :class:`ParentScorer`, classes of distances by a linear function of two words' states.
    """

    def __init__(self, embed_dim: int, hidden_dim: int, options: PredictionOptions):
        super().__init__()
        self.options = options
        self.parents = ParentScorer(embed_dim, hidden_dim) if options.parents else None
        self.one = nn.Linear(embed_dim, DISTANCE_CLASSES) if options.distances else None
        self.other = nn.Linear(embed_dim, DISTANCE_CLASSES, bias=False) if options.distances else None

    def forward(
        self, x: Tensor, targets: Tensor, corrupted: CorruptedDistances | None, padding: Tensor | None
    ) -> dict[str, list[Prediction]]:
        """Return the predictions by name.

        Args:
            x: the encoder's output, ``(n, batch, embed_dim)``.
            targets: of :func:`parent_targets`.
            corrupted: distances to predict; ``None``: there are none, as in evaluation.
            padding: true at padding, ``(batch, n)``.
        """
        found = {}
        if self.parents is not None:
            found["parent"] = [predicted_parents(self.parents(x), targets, padding)]
        if corrupted is not None and self.one is not None and self.other is not None:
            x = x.transpose(0, 1)
            found["distance"] = [corrupted.predicted(self.one(x), self.other(x))]
        return found

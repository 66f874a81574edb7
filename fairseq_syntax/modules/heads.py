"""What a model predicts of parses, for auxiliary losses: of each word its head, of two words their distance."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fairseq_syntax.modules.dependency import ends, first_subwords, parents
from fairseq_syntax.modules.numerics import UNKNOWN, at_least_float32, padding_bias
from fairseq_syntax.modules.parent_scorer import ParentScorer
from fairseq_syntax.options import option

#: Of a pair of words: no way leads down from the one to the other, 1 to 15 steps do, or more.
DISTANCE_CLASSES = 17

#: SEPREM §4.3: of the pairs that are predicted, which share is hidden, and which has a false distance; the others show.
_HIDDEN, _FALSE = 0.8, 0.1

_UNDER = "under --criterion label_smoothed_cross_entropy_with_syntax"


@dataclass(frozen=True)
class Prediction:
    """Scores of classes, and which is right.

    Attributes:
        scores: ``(rows, classes)``, float32 at least; -inf for what cannot be.
        targets: ``(rows,)``; :data:`~fairseq_syntax.modules.numerics.UNKNOWN` where nothing is predicted.
        sentences: the number of each row's sentence in the batch, ``(rows,)``.
    """

    scores: Tensor
    targets: Tensor
    sentences: Tensor

    def cross_entropy(self) -> Tensor:
        """-log P(target), P = softmax(scores), in nats, ``(rows,)``; 0 where nothing is predicted."""
        return F.cross_entropy(self.scores, self.targets, ignore_index=UNKNOWN, reduction="none")

    def squared_error(self) -> Tensor:
        """The squared distance between P and the target's row of 0 and 1, ``(rows,)``; 0 where nothing is predicted."""
        expected = F.one_hot(self.targets.clamp(min=0), self.scores.shape[1])
        errors = (self.scores.softmax(dim=1) - expected).square().sum(dim=1)
        return errors.masked_fill(self.targets == UNKNOWN, 0.0)

    def correct(self) -> Tensor:
        """How often the target has the highest score."""
        return (self.scores.argmax(dim=1) == self.targets).sum()

    def numbers(self, sentences: int) -> Tensor:
        """Numbers of predictions of each sentence of the batch, ``(sentences,)`` in float32."""
        there = (self.targets != UNKNOWN).float()
        return there.new_zeros(sentences).index_add(0, self.sentences, there)


def parent_targets(word: Tensor, head: Tensor) -> Tensor:
    """Where each position's head begins, ``(batch, n)``; see :func:`~fairseq_syntax.modules.dependency.parents`.

    :data:`UNKNOWN` where nothing is to be predicted: ``</s>``, padding, a sentence without a parse.

    Args:
        word: index of each position's word, ``(batch, n)``.
        head: 0 or 1 + index of the head's word, ``(batch, n)``; see :mod:`syntax_data.features`.
    """
    return parents(word, head, first_subwords(word)).masked_fill(~_predicted(word, head), UNKNOWN)


def _predicted(word: Tensor, head: Tensor) -> Tensor:
    """Whether something is to be predicted of a position, ``(batch, n)``."""
    return ~ends(word) & (word != UNKNOWN) & (head != UNKNOWN)


def predicted_parents(scores: Tensor, targets: Tensor, padding: Tensor | None) -> Prediction:
    """The heads of all subwords that have one.

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
class HiddenDistances:
    """Distances in the tree that were chosen to be predicted, and what a model is shown instead.

    Attributes:
        shown: D, ``(batch, n, n)``, some entries of which are hidden (0) or false.
        pairs: sentence, first subword of the one word and of the other, of each entry chosen, ``(chosen,)`` each.
        targets: their classes, ``(chosen,)``.
    """

    shown: Tensor
    pairs: tuple[Tensor, Tensor, Tensor]
    targets: Tensor

    def predicted(self, rows: Tensor, columns: Tensor) -> Prediction:
        """From what the one word's state, and the other's, give each class, ``(batch, n, classes)`` each."""
        sentence, one, other = self.pairs
        return Prediction(at_least_float32(rows[sentence, one] + columns[sentence, other]), self.targets, sentence)


def corrupt_distances(descent: Tensor, word: Tensor, head: Tensor, *, rate: float) -> HiddenDistances:
    """Chooses distances to predict, afresh each time (SEPREM, Xu et al. 2021, §4.3).

    The paper does not say which entries of D are chosen from. Here they are the ordered pairs of different words. Of
    those chosen 80% are hidden, 10% are replaced by a whole number up to the longest distance, and 10% are shown.

    Args:
        descent: D of :func:`fairseq_syntax.modules.tree_mixing.descendant_depths`, ``(batch, n, n)``.
        word, head: see :func:`parent_targets`.
        rate: which share of the pairs is chosen.
    """
    first = first_subwords(word)
    place = torch.arange(word.shape[1], device=word.device)
    begins = (first == place) & _predicted(word, head)
    pairs = begins.unsqueeze(2) & begins.unsqueeze(1) & (place.unsqueeze(1) != place)
    chosen = pairs & (torch.rand(descent.shape, device=word.device) < rate)
    draw = torch.rand(descent.shape, device=word.device)
    longest = descent.amax().clamp(min=1)
    false = (torch.rand(descent.shape, device=word.device) * longest).long().clamp(max=longest - 1) + 1
    shown = torch.where(draw < _HIDDEN, 0, torch.where(draw < _HIDDEN + _FALSE, false, descent))
    shown = torch.where(chosen, shown, descent)
    # All subwords of a word hang on what its first one hangs on.
    shown = shown.gather(2, first.unsqueeze(1).expand_as(shown))
    sentence, one, other = chosen.nonzero(as_tuple=True)
    targets = descent[sentence, one, other].clamp(max=DISTANCE_CLASSES - 1)
    return HiddenDistances(shown, (sentence, one, other), targets)


@dataclass(frozen=True)
class PredictionOptions:
    """What is predicted from the encoder's output."""

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
    """What is predicted from an encoder's output, for losses alone: heads by a scorer of its own, classes of distances
    by a linear function of two words' states.

    Args:
        embed_dim: width of the output.
        hidden_dim: of the scorer.
        options: what is predicted.
    """

    def __init__(self, embed_dim: int, hidden_dim: int, options: PredictionOptions):
        super().__init__()
        self.options = options
        self.parents = ParentScorer(embed_dim, hidden_dim) if options.parents else None
        self.one = nn.Linear(embed_dim, DISTANCE_CLASSES) if options.distances else None
        self.other = nn.Linear(embed_dim, DISTANCE_CLASSES, bias=False) if options.distances else None

    def forward(
        self, x: Tensor, targets: Tensor, hidden: HiddenDistances | None, padding: Tensor | None
    ) -> dict[str, list[Prediction]]:
        """The predictions, by name.

        Args:
            x: the encoder's output, ``(n, batch, embed_dim)``.
            targets: of :func:`parent_targets`.
            hidden: distances to predict; ``None``: there are none, as in evaluation.
            padding: true at padding, ``(batch, n)``.
        """
        found = {}
        if self.parents is not None:
            found["parent"] = [predicted_parents(self.parents(x), targets, padding)]
        if hidden is not None and self.one is not None and self.other is not None:
            x = x.transpose(0, 1)
            found["distance"] = [hidden.predicted(self.one(x), self.other(x))]
        return found

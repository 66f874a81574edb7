"""The probes: standardised logistic regressions (scikit-learn), and how right they are.

All of them take numpy arrays and know nothing of models. What they are compared with is here too: the most frequent
answer, and the same probe on what lies on the surface (lengths and places in the sentence).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.stats import rankdata
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from syntax_experiments.probing import resampling
from syntax_experiments.probing.labels import NONE
from syntax_experiments.probing.resampling import Score

#: From the indices of words i and j in the row of all words, ``(pairs,)`` each, to ``(pairs, k)``.
PairFeatures = Callable[[np.ndarray, np.ndarray], np.ndarray]

#: How many words that are not the head go into training beside each head.
WRONG_HEADS = 5
_PAIRS_AT_ONCE = 1 << 13
_STEPS = 10


class Probe:
    """A logistic regression on standardised features; with one class in training it always answers that.

    Args:
        c: scikit-learn's C, the inverse of the strength of the L2 penalty.
        most_steps: of the optimiser. `converged` says whether it was enough.
    """

    def __init__(self, *, c: float, most_steps: int = 1000):
        self._scaler = StandardScaler()
        self._regression = LogisticRegression(C=c, max_iter=most_steps)
        self._fitted = False
        self.classes = np.empty(0, dtype=np.int64)
        self.converged = True

    def fit(self, x: np.ndarray, y: np.ndarray) -> Probe:
        """Learns classes `y`, ``(examples,)``, from `x`, ``(examples, k)``."""
        self.classes = np.unique(y)
        self._fitted = len(self.classes) > 1
        if self._fitted:
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always", ConvergenceWarning)
                self._regression.fit(self._scaler.fit_transform(x), y)
            self.converged = not any(issubclass(w.category, ConvergenceWarning) for w in caught)
        return self

    def probabilities(self, x: np.ndarray) -> np.ndarray:
        """Of each of :attr:`classes`, ``(examples, classes)``."""
        if not self._fitted:
            return np.ones((len(x), 1))
        found: np.ndarray = self._regression.predict_proba(self._scaler.transform(x))
        return found

    def predict(self, x: np.ndarray) -> np.ndarray:
        """The most probable class of each, ``(examples,)``."""
        return self.classes[self.probabilities(x).argmax(axis=1)]

    def decision(self, x: np.ndarray) -> np.ndarray:
        """The log-odds of the greater of two classes, ``(examples,)``."""
        found: np.ndarray = self._regression.decision_function(self._scaler.transform(x))
        return found


@dataclass(frozen=True)
class Outcome:
    """What came of a probe on the sentences held out.

    Attributes:
        accuracy: of its answers, from 0 to 1.
        balanced: where there are classes, the mean of their recalls, from 0 to 1.
        spearman: for distances, ρ between expected and true distance; the mean over sentences.
        converged: whether the optimiser came to an end.
    """

    accuracy: Score
    balanced: Score | None = None
    spearman: Score | None = None
    converged: bool = True


def _of_classes(
    answers: np.ndarray,
    true: np.ndarray,
    sentence_of: np.ndarray,
    sentences: int,
    *,
    spearman: Score | None = None,
    converged: bool = True,
) -> Outcome:
    right = answers == true
    return Outcome(
        resampling.accuracy(right, sentence_of, sentences),
        resampling.balanced_accuracy(right, true, sentence_of, sentences),
        spearman,
        converged,
    )


def probe_sentences(x: np.ndarray, labels: np.ndarray, train: np.ndarray, *, c: float) -> Outcome:
    """A class for each sentence.

    Args:
        x: ``(sentences, k)``.
        labels: ``(sentences,)``; sentences without one (:data:`NONE`) take no part.
        train: which are for training; the others are for testing.
    """
    there = labels != NONE
    probe = Probe(c=c).fit(x[there & train], labels[there & train])
    test = np.flatnonzero(there & ~train)
    return _of_classes(probe.predict(x[test]), labels[test], test, len(train), converged=probe.converged)


def majority(labels: np.ndarray, sentence_of: np.ndarray, train: np.ndarray) -> Outcome:
    """What the class tells that is most frequent in training.

    Args:
        labels: of sentences or words, ``(items,)``.
        sentence_of: the sentence of each, ``(items,)``.
        train: which sentences are for training.
    """
    there, of_training = labels != NONE, train[sentence_of]
    classes, counts = np.unique(labels[there & of_training], return_counts=True)
    test = np.flatnonzero(there & ~of_training)
    return _of_classes(classes[counts.argmax()], labels[test], sentence_of[test], len(train))


def probe_distances(
    features: PairFeatures,
    distances: np.ndarray,
    classes: np.ndarray,
    sentence_of: np.ndarray,
    train: np.ndarray,
    *,
    c: float,
    most_pairs: int,
    random: np.random.Generator,
) -> Outcome:
    """A class of distance for each word and the next.

    Args:
        features: of pairs of words.
        distances: from each word of the row to the next, ``(words,)``; :data:`NONE` for the last of a sentence.
        classes: of the distances, ``(words,)``; :data:`NONE` where these are.
        sentence_of: the sentence of each word.
        train: which sentences are for training.
        most_pairs: how many pairs are used at most, in training and in testing; drawn by `random`.

    Returns:
        accuracies, and ρ within sentences that have distances which differ: there the expected distance (over the
        classes' means in training) of a probe that knows nothing counts 0. Of a sentence all pairs are used or none.
    """
    there = classes != NONE
    of_training = train[sentence_of]
    learn = _some(np.flatnonzero(there & of_training), most_pairs, random)
    test = _whole_sentences(np.flatnonzero(there & ~of_training), sentence_of, most_pairs, random)
    probe = Probe(c=c).fit(features(learn, learn + 1), classes[learn])
    probabilities = np.concatenate([probe.probabilities(features(part, part + 1)) for part in _parts(test)])
    means = np.array([distances[learn][classes[learn] == k].mean() for k in probe.classes])
    return _of_classes(
        probe.classes[probabilities.argmax(axis=1)],
        classes[test],
        sentence_of[test],
        len(train),
        spearman=_within_sentences(probabilities @ means, distances[test], sentence_of[test], len(train)),
        converged=probe.converged,
    )


def _within_sentences(expected: np.ndarray, true: np.ndarray, sentence_of: np.ndarray, sentences: int) -> Score | None:
    cuts = np.flatnonzero(np.diff(sentence_of)) + 1
    found = {}
    for number, guessed, right in zip(
        sentence_of[np.append(0, cuts)], np.split(expected.round(9), cuts), np.split(true, cuts), strict=True
    ):
        if len(np.unique(right)) > 1:
            a, b = rankdata(guessed), rankdata(right)
            found[int(number)] = float(np.corrcoef(a, b)[0, 1]) if len(np.unique(a)) > 1 else 0.0
    return resampling.mean(np.array([*found.values()]), np.array([*found]), sentences) if found else None


def probe_heads(
    features: PairFeatures,
    heads: np.ndarray,
    starts: np.ndarray,
    train: np.ndarray,
    *,
    c: float,
    most_pairs: int,
    random: np.random.Generator,
) -> Outcome:
    """A head for each word among the other words of its sentence: UAS, roots left out.

    A binary regression learns pairs of a word and its head from pairs of a word and :data:`WRONG_HEADS` other words;
    the head is the word with the greatest log-odds.

    Args:
        features: of pairs of a word and a candidate.
        heads: of each word, the index of its head in the row of all words; :data:`NONE` for none.
        starts: where each sentence starts in the row, and the row's end.
        train: which sentences are for training.
        most_pairs: how many pairs go into training at most; so many words are tested at most. Drawn by `random`.
    """
    lengths = np.diff(starts)
    sentence_of = np.repeat(np.arange(len(lengths)), lengths)
    there = (heads != NONE) & (lengths[sentence_of] > 1)
    learn = _some(np.flatnonzero(there & train[sentence_of]), most_pairs // (1 + WRONG_HEADS), random)
    dependents = np.repeat(learn, 1 + WRONG_HEADS)
    first, length = starts[sentence_of[dependents]], lengths[sentence_of[dependents]]
    others = first + (dependents - first + random.integers(1, length)) % length  # another word than the dependent
    others[:: 1 + WRONG_HEADS] = heads[learn]
    right = others == heads[dependents]
    probe = Probe(c=c).fit(features(dependents, others), right.astype(np.int64))
    tested = _some(np.flatnonzero(there & ~train[sentence_of]), most_pairs, random)
    if len(probe.classes) < 2:  # sentences of two words
        return Outcome(resampling.accuracy(np.ones(len(tested)), sentence_of[tested], len(train)))
    hits = []
    for words in _by_candidates(tested, lengths[sentence_of[tested]]):
        counts = lengths[sentence_of[words]]
        ends = np.cumsum(counts)
        dependents = np.repeat(words, counts)
        candidates = np.arange(ends[-1]) - np.repeat(ends - counts - starts[sentence_of[words]], counts)
        odds = np.where(candidates == dependents, -np.inf, probe.decision(features(dependents, candidates)))
        best = [at[odds[at].argmax()] for at in np.split(np.arange(ends[-1]), ends[:-1])]
        hits.append(candidates[best] == heads[words])
    score = resampling.accuracy(np.concatenate(hits), sentence_of[tested], len(train))
    return Outcome(score, converged=probe.converged)


def most_frequent_step(heads: np.ndarray, starts: np.ndarray, train: np.ndarray) -> Outcome:
    """UAS of taking as each word's head the word so many places away as is most frequent in training."""
    sentence_of = np.repeat(np.arange(len(train)), np.diff(starts))
    steps = heads - np.arange(len(heads))
    there, of_training = heads != NONE, train[sentence_of]
    found, counts = np.unique(steps[there & of_training], return_counts=True)
    test = np.flatnonzero(there & ~of_training)
    return Outcome(resampling.accuracy(steps[test] == found[counts.argmax()], sentence_of[test], len(train)))


def pairs_of_states(states: np.ndarray, train: np.ndarray) -> PairFeatures:
    """The states h_i and h_j of two words and their product, entry by entry: ``(pairs, 3 d)``.

    Args:
        states: of all words in a row, ``(words, d)``. They are standardised first, so that the product says how they
            vary together.
        train: the words by whose means and deviations that is done, ``(words,)``.
    """
    h = _standardised(states, train)
    return lambda i, j: np.concatenate([h[i], h[j], h[i] * h[j]], axis=1)


def bilinear_pairs(states: np.ndarray, train: np.ndarray, rank: int = 32) -> PairFeatures:
    """h_i, h_j, and all products of their first `rank` principal components: ``(pairs, 2 d + rank²)``.

    A regression on these is u·h_i + v·h_j + p_iᵀ·W·p_j with any matrix W: what depends on both words, such as a place
    relative to the other or an agreement, is within its reach.

    Args:
        states: of all words in a row, ``(words, d)``; standardised first.
        train: the words by which they are, and whose principal components are taken, ``(words,)``.
    """
    h = _standardised(states, train)
    of_training = h[train]
    variances, directions = np.linalg.eigh(of_training.T @ of_training / len(of_training))
    kept = np.argsort(-variances, kind="stable")[:rank]
    kept = kept[variances[kept] > 1e-6]
    p = h @ (directions[:, kept] / np.sqrt(variances[kept]))

    def features(i: np.ndarray, j: np.ndarray) -> np.ndarray:
        products = (p[i][:, :, None] * p[j][:, None, :]).reshape(len(i), -1)
        return np.concatenate([h[i], h[j], products], axis=1)

    return features


def _standardised(states: np.ndarray, train: np.ndarray) -> np.ndarray:
    mean, scale = states[train].mean(axis=0), states[train].std(axis=0)
    found: np.ndarray = ((states - mean) / np.where(scale > 0, scale, 1)).astype(np.float32)
    return found


def pairs_of_places(starts: np.ndarray) -> PairFeatures:
    """What the surface tells of two words: the step between them, one-hot, and where in the sentence they are."""
    lengths = np.diff(starts)
    first, length = np.repeat(starts[:-1], lengths), np.repeat(lengths, lengths)

    def features(i: np.ndarray, j: np.ndarray) -> np.ndarray:
        steps = np.clip(j - i, -_STEPS, _STEPS)
        one_hot = steps[:, None] == np.arange(-_STEPS, _STEPS + 1)
        places = np.stack([i - first[i], j - first[j], length[i], i == first[i], j == first[i] + length[i] - 1], axis=1)
        logarithms = np.log1p(np.stack([i - first[i], first[i] + length[i] - 1 - i, abs(j - i)], axis=1))
        return np.concatenate([one_hot, places, logarithms], axis=1).astype(np.float32)

    return features


def _some(found: np.ndarray, most: int, random: np.random.Generator) -> np.ndarray:
    return found if len(found) <= most else np.sort(random.choice(found, size=most, replace=False))


def _whole_sentences(words: np.ndarray, sentence_of: np.ndarray, most: int, random: np.random.Generator) -> np.ndarray:
    """Of the words, those of as many sentences as have `most` of them at most."""
    if len(words) <= most:
        return words
    sentences, counts = np.unique(sentence_of[words], return_counts=True)
    order = random.permutation(len(sentences))
    kept = sentences[order[: max(1, int((np.cumsum(counts[order]) <= most).sum()))]]
    return words[np.isin(sentence_of[words], kept)]


def _parts(found: np.ndarray) -> list[np.ndarray]:
    return np.array_split(found, len(found) // _PAIRS_AT_ONCE + 1)


def _by_candidates(words: np.ndarray, candidates: np.ndarray) -> list[np.ndarray]:
    """The words in parts that have about :data:`_PAIRS_AT_ONCE` candidates each."""
    part = np.cumsum(candidates) // _PAIRS_AT_ONCE
    return [p for p in np.split(words, np.flatnonzero(np.diff(part)) + 1) if len(p)]

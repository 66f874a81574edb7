"""Probes: logistic regressions of scikit-learn, and their scores on sentences held out.

Scores are numbers by name: ``accuracy``, ``balanced_accuracy`` where there are classes, ``spearman`` for distances.
The argument `train` says which sentences or words are for training; the others are for testing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from pandas import factorize
from scipy.stats import spearmanr
from sklearn.decomposition import PCA
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import recall_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from syntax_experiments.probing.labels import NO_LABEL, last_word
from syntax_experiments.probing.sentences import Sentence

#: From the indices of words i and j in the row of all words, ``(pairs,)`` each, to ``(pairs, k)``.
PairFeatures = Callable[[np.ndarray, np.ndarray], np.ndarray]
Scores = dict[str, float]

#: The number of words that are not the head beside each head in training.
WRONG_HEADS = 5
_STEPS = 10


@dataclass(frozen=True)
class ProbeSettings:
    """How probes are trained."""

    c: float  # scikit-learn's C, the inverse of the strength of the L2 penalty
    repeats: int  # the number of seeds, which divide the sentences, draw the control tasks and sample pairs of words
    seed: int  # the first of them; of a probe, its own
    most_pairs: int  # of words, in training


class Corpus:
    """S sentences with W words together, all words in a row; :data:`NO_LABEL` where there is no label."""

    def __init__(self, sentences: Sequence[Sentence]):
        counts = np.array([(len(s.words), len(s.word_of)) for s in sentences])
        #: The number of words and subwords of each sentence, and their logarithms, ``(S, 4)``.
        self.lengths = np.concatenate([counts, np.log(counts)], axis=1)
        #: Where each sentence starts in the row, and the row's end, ``(S + 1,)``; and the sentence of each word.
        self.starts = np.cumsum([0, *counts[:, 0]])
        self.sentence_of = np.repeat(np.arange(len(sentences)), counts[:, 0])
        #: Numbers of types: of words, of each word and the next, ``(W,)``, and of the sentences' last words, ``(S,)``.
        self.types = factorize(np.array([w.casefold() for s in sentences for w in s.words], dtype=object))[0]
        self.pair_types = np.unique([self.types, np.roll(self.types, -1)], axis=1, return_inverse=True)[1]
        self.sentence_types = factorize(np.array([last_word(s.words) for s in sentences], dtype=object))[0]
        #: Labels: of sentences, ``(S,)``, and of words, ``(W,)``; a head is its index in the row.
        self.depths = np.array([s.depth for s in sentences])
        self.tops = np.array([s.top for s in sentences], dtype=object)
        self.distances = np.concatenate([s.distances for s in sentences])
        heads = np.concatenate([s.heads for s in sentences])
        self.heads = np.where(heads == NO_LABEL, NO_LABEL, heads + self.starts[self.sentence_of])


def fit(x: np.ndarray, y: np.ndarray, *, c: float) -> Any:
    """Return a classifier of `y`, ``(examples,)``, from `x`, ``(examples, k)``."""
    regression = make_pipeline(StandardScaler(), LogisticRegression(C=c, max_iter=1000))
    return (regression if len(np.unique(y)) > 1 else DummyClassifier()).fit(x, y)


def scores_of(answers: np.ndarray, true: np.ndarray) -> Scores:
    """Return the accuracy, and the mean recall of the classes that there are."""
    recall = recall_score(true, answers, average="macro", labels=np.unique(true))
    return {"accuracy": float(np.mean(answers == true)), "balanced_accuracy": float(recall)}


def probe_sentences(x: np.ndarray, labels: np.ndarray, train: np.ndarray, *, c: float) -> Scores:
    """Probe a class of each sentence with a label, ``(sentences,)``: `x` is ``(sentences, k)``."""
    there = labels != NO_LABEL
    probe = fit(x[there & train], labels[there & train], c=c)
    return scores_of(probe.predict(x[there & ~train]), labels[there & ~train])


def majority(labels: np.ndarray, train: np.ndarray) -> Scores:
    """Return the scores of the most frequent label in training."""
    there = labels != NO_LABEL
    answers = DummyClassifier().fit(labels[there & train], labels[there & train])
    true = labels[there & ~train]
    return scores_of(answers.predict(true), true)


def probe_distances(
    features: PairFeatures, corpus: Corpus, classes: np.ndarray, train: np.ndarray, settings: ProbeSettings
) -> Scores:
    """Probe a class of the distance from each word to the next.

    Besides accuracies ρ within sentences whose distances differ, the mean over sentences: between the true distance and
    the expected one (over the classes' means in training). A probe that knows nothing has 0.

    Args:
        classes: of the corpus's distances, ``(W,)``.
    """
    there = classes != NO_LABEL
    learn = _some(np.flatnonzero(there & train), settings.most_pairs, np.random.default_rng([settings.seed, 2]))
    test = np.flatnonzero(there & ~train)
    probe = fit(features(learn, learn + 1), classes[learn], c=settings.c)
    probabilities = probe.predict_proba(features(test, test + 1))
    means = np.array([corpus.distances[learn][classes[learn] == k].mean() for k in probe.classes_])
    expected, true = (probabilities @ means).round(9), corpus.distances[test]
    rhos = [
        float(spearmanr(expected[words], true[words]).statistic) if len(np.unique(expected[words])) > 1 else 0.0
        for words in _by_sentence(np.arange(len(test)), corpus.sentence_of[test])
        if len(np.unique(true[words])) > 1
    ]
    found = scores_of(probe.classes_[probabilities.argmax(axis=1)], classes[test])
    return found | ({"spearman": float(np.mean(rhos))} if rhos else {})


def probe_heads(
    features: PairFeatures, corpus: Corpus, heads: np.ndarray, train: np.ndarray, settings: ProbeSettings
) -> Scores:
    """Probe the head of each word among the other words of its sentence.

    The accuracy is UAS, roots left out. A binary regression learns pairs of a word and its head from pairs of a word
    and :data:`WRONG_HEADS` other words; the head is the word with the greatest log-odds. `heads` are ``(W,)``, as the
    corpus has them.
    """
    starts, sentence_of, random = corpus.starts, corpus.sentence_of, np.random.default_rng([settings.seed, 2])
    lengths = np.diff(starts)
    there = (heads != NO_LABEL) & (lengths[sentence_of] > 1)
    learn = _some(np.flatnonzero(there & train), settings.most_pairs // (1 + WRONG_HEADS), random)
    dependents = np.repeat(learn, 1 + WRONG_HEADS)
    first, length = starts[sentence_of[dependents]], lengths[sentence_of[dependents]]
    others = first + (dependents - first + random.integers(1, length)) % length  # another word than the dependent
    others[:: 1 + WRONG_HEADS] = heads[learn]
    right = others == heads[dependents]
    if right.all():  # sentences of two words
        return {"accuracy": 1.0}
    probe = fit(features(dependents, others), right, c=settings.c)
    tested = np.flatnonzero(there & ~train)
    hits = []
    for words in _by_sentence(tested, sentence_of[tested]):
        candidates = np.arange(*starts[sentence_of[words[0]] :][:2])
        i, j = np.repeat(words, len(candidates)), np.tile(candidates, len(words))
        odds = np.where(i == j, -np.inf, probe.decision_function(features(i, j))).reshape(len(words), -1)
        hits.append(candidates[odds.argmax(axis=1)] == heads[words])
    return {"accuracy": float(np.concatenate(hits).mean())}


def most_frequent_step(heads: np.ndarray, train: np.ndarray) -> Scores:
    """Return the UAS of the most frequent step from word to head in training."""
    steps = np.where(heads == NO_LABEL, NO_LABEL, heads - np.arange(len(heads)) + len(heads))  # none is NO_LABEL
    return {"accuracy": majority(steps, train)["accuracy"]}


def pairs_of_states(states: np.ndarray, train: np.ndarray) -> PairFeatures:
    """Return states h_i and h_j of two words and their product, ``(pairs, 3 d)``.

    States, ``(words, d)``, are standardised first, so that the product is a correlation.
    """
    h = StandardScaler().fit(states[train]).transform(states)
    return lambda i, j: np.concatenate([h[i], h[j], h[i] * h[j]], axis=1)


def bilinear_pairs(states: np.ndarray, train: np.ndarray, rank: int = 32) -> PairFeatures:
    """Return h_i, h_j, and products of principal components, ``(pairs, 2 d + rank²)``.

    These are all products of the first `rank` ones. A regression on these is u·h_i + v·h_j + p_iᵀ·W·p_j with any matrix
    W: what depends on both words, such as a relative position or an agreement, is within its reach.
    """
    h = StandardScaler().fit(states[train]).transform(states)
    p = PCA(min(rank, *h[train].shape), whiten=True).fit(h[train]).transform(h)
    return lambda i, j: np.concatenate([h[i], h[j], np.einsum("na,nb->nab", p[i], p[j]).reshape(len(i), -1)], axis=1)


def pairs_of_positions(starts: np.ndarray) -> PairFeatures:
    """Return the step between two words, one-hot, and their positions in the sentence."""
    lengths = np.diff(starts)
    first, length = np.repeat(starts[:-1], lengths), np.repeat(lengths, lengths)

    def features(i: np.ndarray, j: np.ndarray) -> np.ndarray:
        one_hot = np.clip(j - i, -_STEPS, _STEPS)[:, None] == np.arange(-_STEPS, _STEPS + 1)
        before, after = i - first[i], first[i] + length[i] - 1 - i
        ends = [j - first[j], length[i], before == 0, j == first[j] + length[j] - 1]
        logarithms = np.log1p([before, after, abs(j - i)])
        return np.concatenate([one_hot.T, [before, *ends], logarithms]).T.astype(np.float32)

    return features


def _by_sentence(items: np.ndarray, sentence_of: np.ndarray) -> list[np.ndarray]:
    """Split a row of items where the sentence changes."""
    return np.split(items, np.flatnonzero(np.diff(sentence_of)) + 1)


def _some(found: np.ndarray, most: int, random: np.random.Generator) -> np.ndarray:
    return found if len(found) <= most else np.sort(random.choice(found, size=most, replace=False))

"""Probing tasks, on every chosen layer and several times, with what they are compared with."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from tqdm import tqdm

from syntax_experiments.probing import labels, probes
from syntax_experiments.probing.labels import NONE
from syntax_experiments.probing.probes import Outcome
from syntax_experiments.probing.resampling import Drawings
from syntax_experiments.probing.results import Row, differences
from syntax_experiments.probing.sentences import Sentence
from syntax_experiments.probing.states import States

SENTENCE_TASKS = ("depth", "top-constituents", "bigram-shift")
WORD_TASKS = ("distance", "head")
TASKS = (*SENTENCE_TASKS, *WORD_TASKS)
#: The formats of parses of which each task needs one; what it is made of is the first that is there.
SOURCES: dict[str, tuple[str, ...]] = {
    "depth": ("trees", "conllu"),
    "top-constituents": ("trees",),
    "bigram-shift": (),
    "distance": ("trees", "conllu"),
    "head": ("conllu",),
}


@dataclass(frozen=True)
class ProbeSettings:
    """How probes are trained.

    Attributes:
        c: scikit-learn's C.
        repeats: with how many splits, control tasks and samples.
        seed: of the first of them.
        most_pairs: of words, in training and in testing.
        held_out: the share of sentences for testing where the split for testing is not given.
    """

    c: float
    repeats: int
    seed: int
    most_pairs: int
    held_out: float = 0.2


class Corpus:
    """Sentences with the states of all layers.

    Args:
        states: of the sentences as they are.
        exchanged: of the sentences, some with two words exchanged, for ``bigram-shift``; and which are, ``(S,)``,
            :data:`~syntax_experiments.probing.labels.NONE` for those where it cannot be asked.
        train: which sentences are for training, ``(S,)``; ``None``: they are divided at random.
    """

    def __init__(
        self,
        sentences: Sequence[Sentence],
        states: States,
        exchanged: tuple[States, np.ndarray] | None = None,
        train: np.ndarray | None = None,
    ):
        self.sentences = sentences
        self.states = states
        self.exchanged = exchanged
        self.train = train
        lengths = [len(s.words) for s in sentences]
        self.starts = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        self.sentence_of = np.repeat(np.arange(len(sentences)), lengths)
        self.types = _numbered(w.casefold() for s in sentences for w in s.words)
        self.sentence_types = _numbered(labels.last_word(s.words) for s in sentences)

    @property
    def surface(self) -> np.ndarray:
        """What the surface tells of sentences: how many words and subwords, and their logarithms, ``(S, 4)``."""
        counts = np.array([(len(s.words), len(s.word_of)) for s in self.sentences], dtype=np.float64)
        return np.concatenate([counts, np.log(counts)], axis=1)

    def heads(self) -> np.ndarray:
        """Of each word in the row, the index of its head there."""
        rows = [
            np.full(len(s.words), NONE)
            if s.labels.heads is None
            else np.where(s.labels.heads == NONE, NONE, s.labels.heads + start)
            for s, start in zip(self.sentences, self.starts[:-1], strict=True)
        ]
        return np.concatenate(rows)

    def distances(self) -> np.ndarray:
        """Of each word in the row, the distance to the next."""
        rows = [
            np.full(len(s.words), NONE) if s.labels.distances is None else np.append(s.labels.distances, NONE)
            for s in self.sentences
        ]
        return np.concatenate(rows)

    def sentences_with(self, words: np.ndarray) -> np.ndarray:
        """Which sentences, ``(S,)``, have some of the words, ``(W,)``."""
        return np.bincount(self.sentence_of[words], minlength=len(self.sentences)) > 0

    def division(self, settings: ProbeSettings, repeat: int) -> np.ndarray:
        """Which sentences are for training, ``(S,)``, the same for all tasks and layers."""
        if self.train is not None:
            return self.train
        count = len(self.sentences)
        train = np.ones(count, dtype=bool)
        held_out = max(1, round(settings.held_out * count))
        train[np.random.default_rng([settings.seed + repeat, 0]).permutation(count)[:held_out]] = False
        return train


def _numbered(names: Iterable[str]) -> np.ndarray:
    number: dict[str, int] = {}
    return np.array([number.setdefault(name, len(number)) for name in names], dtype=np.int64)


#: What a task's probe finds, from layer (``None``: the surface), whether it is the control, and the seed.
_Ask = Callable[[int | None, bool, int], Outcome]


@dataclass(frozen=True)
class _Ready:
    """A task, made ready by the training sentences of a division."""

    ask: _Ask
    majority: Outcome
    examples: int
    classes: list[str] | None = None


def probe(
    corpus: Corpus,
    tasks: Sequence[str],
    layers: Sequence[int],
    settings: ProbeSettings,
    *,
    random_encoder: Corpus | None = None,
) -> dict[str, Any]:
    """For each task what its classes are, and of every layer accuracy, that of the control task, and selectivity.

    Selectivity is accuracy less the control task's (Hewitt and Liang 2019). ``majority`` is the most frequent answer,
    ``surface`` the same probe on lengths and places instead of states. Everything is a mean over `settings.repeats`,
    with an interval of what other test sentences would have given (:mod:`~syntax_experiments.probing.resampling`).

    Args:
        random_encoder: the same sentences with the states of another encoder, asked the same. Differences to it, and
            to layer 0, are of the same test sentences in each drawing.

    Raises:
        ValueError: there are too few sentences with labels.
    """
    found: dict[str, Any] = {}
    rounds = range(settings.repeats)
    divisions = [corpus.division(settings, r) for r in rounds]
    tested = ~np.logical_and.reduce(divisions)
    drawings = Drawings(tested, np.random.default_rng([settings.seed, 4]))
    encoders = {"layers": corpus}
    if random_encoder is not None:
        encoders["random_encoder"] = random_encoder
    work = tqdm(
        total=len(tasks) * settings.repeats * 2 * (len(layers) * len(encoders) + 1), unit=" probes", disable=None
    )
    with work:
        for task in tasks:
            ready = {name: [_READY[task](of, settings, train) for train in divisions] for name, of in encoders.items()}

            def asked(encoder: str, layer: int | None, ready: dict[str, list[_Ready]] = ready) -> Row:
                outcomes: dict[bool, list[Outcome]] = {False: [], True: []}
                for control, r in itertools.product((False, True), rounds):
                    outcomes[control].append(ready[encoder][r].ask(layer, control, settings.seed + r))
                    work.update()
                return Row(outcomes[False], drawings, outcomes[True])

            first = ready["layers"][0]
            surface = asked("layers", None)
            rows = {name: {k: asked(name, k) for k in layers} for name in encoders}
            found[task] = {
                **({} if first.classes is None else {"classes": [of.classes for of in ready["layers"]]}),
                "examples": first.examples,
                "majority": Row([of.majority for of in ready["layers"]], drawings).result(),
                "surface": surface.result(),
                **{name: {str(k): row.result() for k, row in of.items()} for name, of in rows.items()},
                "differences": differences(rows["layers"], rows.get("random_encoder", {})),
            }
    return found


def _check_counts(task: str, labelled: np.ndarray, train: np.ndarray) -> None:
    """Whether enough sentences have a label, ``(S,)``."""
    counts = int((labelled & train).sum()), int((labelled & ~train).sum())
    if counts[0] < 2 or counts[1] < 1:
        raise ValueError(
            f"{task}: expected at least two sentences to train its probe on and one to test it on, found "
            f"{counts[0]} and {counts[1]} with a label"
        )


def _sentence_task(
    corpus: Corpus, settings: ProbeSettings, train: np.ndarray, states: States, given: np.ndarray, classes: list[str]
) -> _Ready:
    def ask(layer: int | None, control: bool, seed: int) -> Outcome:
        asked = given
        if control:
            asked = labels.by_type(given, corpus.sentence_types, train, np.random.default_rng([seed, 1]))
        x = corpus.surface if layer is None else states.sentences[layer]
        return probes.probe_sentences(x, asked, train, c=settings.c)

    return _Ready(ask, probes.majority(given, np.arange(len(given)), train), int((given != NONE).sum()), classes)


def _depth(corpus: Corpus, settings: ProbeSettings, train: np.ndarray) -> _Ready:
    found = np.array([NONE if s.labels.depth is None else s.labels.depth for s in corpus.sentences], dtype=np.int64)
    _check_counts("depth", found != NONE, train)
    bins = labels.balanced_bins(found[train & (found != NONE)], labels.DEPTHS)
    given = np.where(found == NONE, NONE, labels.in_bins(found, bins))
    return _sentence_task(corpus, settings, train, corpus.states, given, _spelled(bins))


def _top(corpus: Corpus, settings: ProbeSettings, train: np.ndarray) -> _Ready:
    given, names = labels.frequent_classes([s.labels.top for s in corpus.sentences], labels.TOPS, train)
    _check_counts("top-constituents", given != NONE, train)
    return _sentence_task(corpus, settings, train, corpus.states, given, names)


def _shift(corpus: Corpus, settings: ProbeSettings, train: np.ndarray) -> _Ready:
    if corpus.exchanged is None:
        raise ValueError("bigram-shift: expected the states of sentences with two words exchanged, found none")
    states, given = corpus.exchanged
    _check_counts("bigram-shift", given != NONE, train)
    return _sentence_task(corpus, settings, train, states, given, ["as it was", "two words exchanged"])


def _distance(corpus: Corpus, settings: ProbeSettings, train: np.ndarray) -> _Ready:
    distances, of_training = corpus.distances(), train[corpus.sentence_of]
    there = distances != NONE
    _check_counts("distance", corpus.sentences_with(there), train)
    places = probes.pairs_of_places(corpus.starts)
    bins = labels.balanced_bins(distances[there & of_training], labels.DISTANCES)
    given = np.where(there, labels.in_bins(distances, bins), NONE)
    pairs = np.stack([corpus.types, np.roll(corpus.types, -1)])  # of a word and the next
    pair_types = np.unique(pairs, axis=1, return_inverse=True)[1]

    def ask(layer: int | None, control: bool, seed: int) -> Outcome:
        asked = given
        if control:
            asked = labels.by_type(given, pair_types, of_training, np.random.default_rng([seed, 1]))
        return probes.probe_distances(
            places if layer is None else probes.pairs_of_states(corpus.states.words[layer], of_training),
            distances,
            asked,
            corpus.sentence_of,
            train,
            c=settings.c,
            most_pairs=settings.most_pairs,
            random=np.random.default_rng([seed, 2]),
        )

    return _Ready(ask, probes.majority(given, corpus.sentence_of, train), int(there.sum()), _spelled(bins))


def _head(corpus: Corpus, settings: ProbeSettings, train: np.ndarray) -> _Ready:
    heads, starts, of_training = corpus.heads(), corpus.starts, train[corpus.sentence_of]
    _check_counts("head", corpus.sentences_with(heads != NONE), train)
    places = probes.pairs_of_places(starts)

    def ask(layer: int | None, control: bool, seed: int) -> Outcome:
        asked = heads
        if control:
            random = np.random.default_rng([seed, 1])
            asked = labels.heads_by_word_type(heads, starts, corpus.types, of_training, random)
        features = places if layer is None else probes.bilinear_pairs(corpus.states.words[layer], of_training)
        random = np.random.default_rng([seed, 2])
        return probes.probe_heads(
            features, asked, starts, train, c=settings.c, most_pairs=settings.most_pairs, random=random
        )

    return _Ready(ask, probes.most_frequent_step(heads, starts, train), int((heads != NONE).sum()))


_READY: dict[str, Callable[[Corpus, ProbeSettings, np.ndarray], _Ready]] = {
    "depth": _depth,
    "top-constituents": _top,
    "bigram-shift": _shift,
    "distance": _distance,
    "head": _head,
}


def _spelled(bins: np.ndarray) -> list[str]:
    """What the classes of :func:`~syntax_experiments.probing.labels.balanced_bins` hold: ``up to 2``, ``3``, …"""
    if len(bins) == 1:
        return ["all"]
    between = [str(b) if a + 1 == b else f"{a + 1}–{b}" for a, b in itertools.pairwise(bins[:-1])]
    return [f"up to {bins[0]}", *between, f"{bins[-2] + 1} or more"]

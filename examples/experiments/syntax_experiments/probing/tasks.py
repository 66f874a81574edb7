"""Probing tasks, on chosen layers and with several seeds, and what they are compared with."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from tqdm import tqdm

from syntax_experiments.probing import classifiers, probed_labels
from syntax_experiments.probing.classifiers import Corpus, ProbeSettings, Scores
from syntax_experiments.probing.probed_labels import NO_LABEL
from syntax_experiments.probing.sentences import Sentence
from syntax_experiments.probing.states import States

#: The tasks, and the format of the parses that each needs.
TASKS = {"depth": "trees", "top-constituents": "trees", "distance": "trees", "head": "conllu"}
#: The share of the sentences that is held out for testing.
HELD_OUT = 0.2
#: The scores of a probe: of a layer's states, or of lengths and places (``None``); of the control task or not; a seed.
_Ask = Callable[[States | None, int, bool, int], Scores]


def _sentence_task(
    corpus: Corpus, name: str, train: np.ndarray, settings: ProbeSettings
) -> tuple[_Ask, Scores, list[str]]:
    """Return a task with the classes of the training sentences: its probe, the scores of the majority, the classes."""
    given, classes = probed_labels.frequent_classes([s.labels.top for s in corpus.sentences], probed_labels.TOPS, train)
    if name == "depth":
        depths = np.array([s.labels.depth for s in corpus.sentences])
        _check_counts(name, depths != NO_LABEL, train)
        given, classes = probed_labels.balanced_classes(depths, probed_labels.DEPTHS, train)
    _check_counts(name, given != NO_LABEL, train)

    def ask(states: States | None, layer: int, control: bool, seed: int) -> Scores:
        random = np.random.default_rng([seed, 1])
        asked = probed_labels.by_type(given, corpus.sentence_types, train, random) if control else given
        x = corpus.lengths if states is None else states.sentences[layer]
        return classifiers.probe_sentences(x, asked, train, c=settings.c)

    return ask, classifiers.majority(given, train), classes


def _distance(corpus: Corpus, name: str, train: np.ndarray, settings: ProbeSettings) -> tuple[_Ask, Scores, list[str]]:
    there, of_training = corpus.distances != NO_LABEL, train[corpus.sentence_of]
    _check_counts(name, np.bincount(corpus.sentence_of[there], minlength=len(train)) > 0, train)
    given, classes = probed_labels.balanced_classes(corpus.distances, probed_labels.DISTANCES, of_training)
    pairs = np.stack([corpus.types, np.roll(corpus.types, -1)])  # of a word and the next
    types = np.unique(pairs, axis=1, return_inverse=True)[1]

    def ask(states: States | None, layer: int, control: bool, seed: int) -> Scores:
        asked = probed_labels.by_type(given, types, of_training, np.random.default_rng([seed, 1])) if control else given
        features = classifiers.pairs_of_places(corpus.starts)
        if states is not None:
            features = classifiers.pairs_of_states(states.words[layer], of_training)
        return classifiers.probe_distances(features, corpus, asked, of_training, settings, seed)

    return ask, classifiers.majority(given, of_training), classes


def _head(corpus: Corpus, name: str, train: np.ndarray, settings: ProbeSettings) -> tuple[_Ask, Scores, list[str]]:
    heads, of_training = corpus.heads, train[corpus.sentence_of]
    _check_counts(name, np.bincount(corpus.sentence_of[heads != NO_LABEL], minlength=len(train)) > 0, train)

    def ask(states: States | None, layer: int, control: bool, seed: int) -> Scores:
        asked, features = heads, classifiers.pairs_of_places(corpus.starts)
        if control:
            random = np.random.default_rng([seed, 1])
            asked = probed_labels.heads_by_word_type(heads, corpus.starts, corpus.types, of_training, random)
        if states is not None:
            features = classifiers.bilinear_pairs(states.words[layer], of_training)
        return classifiers.probe_heads(features, corpus, asked, of_training, settings, seed)

    return ask, classifiers.most_frequent_step(heads, of_training), []


_PREPARE = {"depth": _sentence_task, "top-constituents": _sentence_task, "distance": _distance, "head": _head}


def _check_counts(task: str, labelled: np.ndarray, train: np.ndarray) -> None:
    counts = int((labelled & train).sum()), int((labelled & ~train).sum())
    if counts[0] < 2 or counts[1] < 1:
        expected = "expected at least two sentences to train its probe on and one to test it on"
        raise ValueError(f"{task}: {expected}, found {counts[0]} and {counts[1]} with a label")


def probe(
    sentences: Sequence[Sentence], encoders: Mapping[str, States], tasks: Sequence[str], settings: ProbeSettings
) -> list[dict[str, Any]]:
    """Return a record of scores for each task, repeat and kind of states.

    Kinds are the most frequent answer, lengths and places alone, and each encoder's layers. ``control`` is the accuracy
    of the control task, ``selectivity`` what the task's is above it (Hewitt and Liang 2019).

    Args:
        encoders: the states of all sentences, by a name that is put behind the layer's.

    Raises:
        ValueError: there are too few sentences with labels.
    """
    corpus, records = Corpus(sentences), []
    asked: list[tuple[str, States | None, int]] = [("lengths and places", None, 0)]
    asked += [(f"layer {k}{name}", states, k) for name, states in encoders.items() for k in states.sentences]
    with tqdm(total=len(tasks) * settings.repeats * len(asked), desc="probing", disable=None) as progress:
        for task in tasks:
            for seed in range(settings.seed, settings.seed + settings.repeats):
                train = np.ones(len(sentences), dtype=bool)
                held_out = np.random.default_rng([seed, 0]).permutation(len(train))
                train[held_out[: max(1, round(HELD_OUT * len(train)))]] = False
                ask, majority, classes = _PREPARE[task](corpus, task, train, settings)
                key = {"task": task, "seed": seed, "classes": classes}
                records.append({**key, "states": "most frequent answer", **majority})
                for name, states, layer in asked:
                    scores, control = (ask(states, layer, control, seed) for control in (False, True))
                    beside = {"control": control["accuracy"], "selectivity": scores["accuracy"] - control["accuracy"]}
                    records.append({**key, "states": name, **scores, **beside})
                    progress.update()
    return records

"""Probing tasks, on chosen layers and with several seeds, and what they are compared with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from tqdm import tqdm

from syntax_experiments.probing import labels, probes
from syntax_experiments.probing.labels import NO_LABEL
from syntax_experiments.probing.probes import Corpus, ProbeSettings, Scores
from syntax_experiments.probing.sentences import Sentence
from syntax_experiments.probing.states import States

#: The tasks, and the format of the parses that each needs.
TASKS = {"depth": "trees", "top-constituents": "trees", "distance": "trees", "head": "conllu"}
#: How many classes depths and distances have, and how many sequences of top constituents have one of their own.
DEPTHS, DISTANCES, TOPS = 5, 8, 19
#: The share of the sentences that is held out for testing.
HELD_OUT = 0.2


def _labels(
    task: str, corpus: Corpus, train: np.ndarray, random: np.random.Generator
) -> tuple[np.ndarray, np.ndarray, list[str], Scores]:
    """Return labels, those of the control task, the names of the classes, and the scores of the most frequent answer.

    Args:
        train: which sentences are for training, ``(sentences,)``.
    """
    given: np.ndarray = {
        "depth": corpus.depths, "top-constituents": corpus.tops, "distance": corpus.distances, "head": corpus.heads,
    }[task]  # fmt: skip
    sentence_of = corpus.sentence_of if task in ("distance", "head") else np.arange(len(train))
    labelled = np.unique(sentence_of[given != (None if task == "top-constituents" else NO_LABEL)])
    counts = int(train[labelled].sum()), int((~train[labelled]).sum())
    if counts[0] < 2 or counts[1] < 1:
        expected = "expected at least two sentences to train its probe on and one to test it on"
        raise ValueError(f"{task}: {expected}, found {counts[0]} and {counts[1]} with a label")
    train = train[sentence_of]
    if task == "head":
        control = labels.heads_by_word_type(given, corpus.starts, corpus.types, train, random)
        return given, control, [], probes.most_frequent_step(given, train)
    if task == "top-constituents":
        found, classes = labels.frequent_classes(given, TOPS, train)
    else:
        found, classes = labels.balanced_classes(given, DEPTHS if task == "depth" else DISTANCES, train)
    types = corpus.pair_types if task == "distance" else corpus.sentence_types
    return found, labels.by_type(found, types, train, random), classes, probes.majority(found, train)


def _scores(
    task: str, corpus: Corpus, found: np.ndarray, states: tuple[np.ndarray, np.ndarray] | None, train: np.ndarray,
    settings: ProbeSettings,
) -> Scores:  # fmt: skip
    """Return the scores of a probe: of states of sentences and words, or (``None``) of lengths and positions."""
    if task in ("depth", "top-constituents"):
        return probes.probe_sentences(corpus.lengths if states is None else states[0], found, train, c=settings.c)
    train = train[corpus.sentence_of]
    probe_pairs = probes.probe_distances if task == "distance" else probes.probe_heads
    of_pairs = probes.pairs_of_states if task == "distance" else probes.bilinear_pairs
    features = probes.pairs_of_positions(corpus.starts) if states is None else of_pairs(states[1], train)
    return probe_pairs(features, corpus, found, train, settings)


def probe(
    sentences: Sequence[Sentence], encoders: Mapping[str, States], tasks: Sequence[str], settings: ProbeSettings
) -> list[dict[str, Any]]:
    """Return a record of scores for each task, repeat and kind of states.

    Kinds are the most frequent answer, lengths and positions alone, and each encoder's layers. ``control`` is the
    accuracy of the control task, ``selectivity`` what the task's is above it (Hewitt and Liang 2019).

    Args:
        encoders: the states of all sentences, by a name that is put behind the layer's.

    Raises:
        ValueError: there are too few sentences with labels.
    """
    corpus, records = Corpus(sentences), []
    asked: dict[str, Any] = {"lengths and positions": None}
    for name, states in encoders.items():
        asked |= {f"layer {k}{name}": (states.sentences[k], states.words[k]) for k in states.sentences}
    with tqdm(total=len(tasks) * settings.repeats * len(asked), desc="probing", disable=None) as progress:
        for task in tasks:
            for seed in range(settings.seed, settings.seed + settings.repeats):
                train = np.ones(len(sentences), dtype=bool)
                held_out = np.random.default_rng([seed, 0]).permutation(len(train))
                train[held_out[: max(1, round(HELD_OUT * len(train)))]] = False
                found, control, classes, majority = _labels(task, corpus, train, np.random.default_rng([seed, 1]))
                key = {"task": task, "seed": seed, "classes": classes}
                records.append({**key, "states": "most frequent answer", **majority})
                of_seed = replace(settings, seed=seed)
                for name, of_states in asked.items():
                    scores = _scores(task, corpus, found, of_states, train, of_seed)
                    by_heart = _scores(task, corpus, control, of_states, train, of_seed)["accuracy"]
                    beside = {"control": by_heart, "selectivity": scores["accuracy"] - by_heart}
                    records.append({**key, "states": name, **scores, **beside})
                    progress.update()
    return records

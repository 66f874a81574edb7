"""Probes find what is in states, and nothing where nothing is."""

from __future__ import annotations

import json

import numpy as np
import pytest
from pandas import DataFrame

from syntax_experiments.probing import probes
from syntax_experiments.probing.labels import NO_LABEL, by_type
from syntax_experiments.probing.probe import markdown
from syntax_experiments.probing.probes import Corpus, ProbeSettings
from syntax_experiments.probing.sentences import Sentence
from syntax_experiments.probing.states import States
from syntax_experiments.probing.tasks import TASKS, probe

SETTINGS = ProbeSettings(c=1.0, repeats=2, seed=1, most_pairs=10000)


@pytest.fixture
def random():
    return np.random.default_rng(7)


def made(random, *, sentences=300, width=12):
    """Sentences with random labels; in layer 1 states from which these can be read, in layer 0 only noise."""
    states: dict[int, list] = {0: [], 1: []}
    of_words: dict[int, list] = {0: [], 1: []}
    found = []
    for number in range(sentences):
        count = int(random.integers(3, 9))
        depth = int(random.integers(2, 7))
        heads = np.array([random.choice([j for j in range(count) if j != i]) for i in range(count)])
        heads[random.integers(count)] = NO_LABEL
        distances = np.append(random.integers(1, 5, size=count - 1), NO_LABEL)
        names = random.normal(size=(count, width // 3))  # of each word, a direction of its own
        names /= np.linalg.norm(names, axis=1, keepdims=True)
        there = [names, names[heads] * (heads != NO_LABEL)[:, None], np.zeros((count, width // 3))]
        of_words[0].append(random.normal(size=(count, width)))
        of_words[1].append(np.concatenate(there, axis=1))
        of_words[1][-1][:, -1] = distances
        states[0].append(random.normal(size=width))
        states[1].append(np.append(random.normal(size=width - 5), np.eye(5)[depth - 2]))
        words = [f"w{random.integers(20)}" for _ in range(count)]
        found.append(Sentence(number, words, np.arange(count), depth, ["NP VP", "VP"][depth % 2], distances, heads))
    of_sentences = {k: np.stack(v).astype(np.float32) for k, v in states.items()}
    return found, States(of_sentences, {k: np.concatenate(v).astype(np.float32) for k, v in of_words.items()})


def corpus_of(sentences, length):
    nothing = np.full(length, NO_LABEL)
    return Corpus([Sentence(i, ["x"] * length, np.arange(length), 0, None, nothing, nothing) for i in range(sentences)])


def means(records) -> dict[tuple[str, str], dict[str, float]]:
    """Scores by task and states, the means over seeds."""
    frame = DataFrame(records).drop(columns=["seed", "classes"]).groupby(["task", "states"]).mean()
    return {key: row.dropna().to_dict() for key, row in frame.iterrows()}


def test_what_is_there_is_found_and_what_is_not_is_not(random):
    sentences, states = made(random)
    records = probe(sentences, {"": states}, list(TASKS), SETTINGS)
    found = means(records)
    for task, chance, least in (
        ("depth", 0.3, 1), ("top-constituents", 0.7, 1), ("distance", 0.4, 1), ("head", 0.35, 0.97),
    ):  # fmt: skip
        noise, there = found[task, "layer 0"], found[task, "layer 1"]
        assert noise["accuracy"] < chance, task
        assert there["accuracy"] >= least, task
        assert there["control"] < chance + 0.1, task  # random labels are not in the states
        assert abs(noise["selectivity"]) < 0.2, task  # twenty types: their labels are less uniform
        assert there["selectivity"] > 0.3, task
        assert found[task, "lengths and positions"]["accuracy"] < chance + 0.05, task
        assert found[task, "most frequent answer"]["accuracy"] < chance + 0.05, task
        assert ("balanced_accuracy" in there) == (task != "head")
    assert found["depth", "most frequent answer"]["balanced_accuracy"] == pytest.approx(1 / 5)
    assert found["distance", "layer 1"]["spearman"] > 0.9  # equal distances are ties
    assert abs(found["distance", "layer 0"]["spearman"]) < 0.15
    assert records[0]["classes"] == ["up to 2", "3 to 3", "4 to 4", "5 to 5", "6 to 6"]
    assert (
        len({record["accuracy"] for record in records if record["task"] == "head"}) > 6
    )  # each seed has its own sentences to test
    json.dumps(records, allow_nan=False)
    header, _, *lines = markdown(records).splitlines()
    assert header.split("|")[3].strip() == "accuracy"
    assert len(lines) == 4 * 4
    assert all("±" in line for line in lines)


def test_a_planted_bilinear_form_is_found(random):
    """A word's head is that with the greatest p_iᵀ·W·p_j, which no product entry by entry gives."""
    count, length, width = 400, 6, 8
    states = random.normal(size=(count, length, width)).astype(np.float32)
    odds = np.roll(states, 1, axis=2) @ states.transpose(0, 2, 1)
    odds[:, np.arange(length), np.arange(length)] = -np.inf
    heads = (odds.argmax(axis=2) + length * np.arange(count)[:, None]).ravel()
    states = states.reshape(-1, width)
    train = np.arange(len(states)) < 300 * length

    def accuracy(features):
        return probes.probe_heads(features, corpus_of(count, length), heads, train, SETTINGS)["accuracy"]

    assert accuracy(probes.bilinear_pairs(states, train)) > 0.9
    assert accuracy(probes.pairs_of_states(states, train)) < 0.4
    assert accuracy(probes.bilinear_pairs(random.normal(size=states.shape), train)) < 0.3


def test_positions_alone_find_the_word_before():
    corpus = corpus_of(100, 5)
    heads = np.arange(500) - 1
    heads[::5] = NO_LABEL
    train = np.arange(500) < 400
    assert probes.most_frequent_step(heads, train)["accuracy"] == 1
    positions = probes.pairs_of_positions(corpus.starts)
    assert probes.probe_heads(positions, corpus, heads, train, SETTINGS) == {"accuracy": 1}


def test_control_tasks_can_be_learned_by_heart_where_states_give_the_type(random):
    """One-hot states of the word types, or of the last word of a sentence: the control is all there is to learn."""
    sentences, states = made(random)
    states.words[1] = np.eye(20)[[int(w[1:]) for s in sentences for w in s.words]].astype(np.float32)
    states.sentences[1] = np.eye(20)[[int(s.words[-1][1:]) for s in sentences]].astype(np.float32)
    found = means(probe(sentences, {"": states}, ["depth"], SETTINGS))
    assert found["depth", "layer 1"]["control"] == 1
    assert found["depth", "layer 1"]["selectivity"] < -0.6
    assert found["depth", "layer 0"]["control"] < 0.5
    corpus = Corpus(sentences)
    train = corpus.sentence_of < 240
    asked = by_type(corpus.distances, corpus.types, train, random)
    features = probes.pairs_of_states(states.words[1], train)
    assert probes.probe_distances(features, corpus, asked, train, SETTINGS)["accuracy"] > 0.97


def test_sentences_for_testing_shape_nothing(random):
    """Neither standardised states nor their components depend on them; labels: see test_probing_labels."""
    states = random.normal(size=(200, 12)).astype(np.float32)
    train = np.arange(200) < 150
    stretched = np.where(train[:, None], states, 100 * states + 7)
    i, j = np.arange(149), np.arange(1, 150)
    for features in (probes.pairs_of_states, probes.bilinear_pairs):
        np.testing.assert_array_equal(features(states, train)(i, j), features(stretched, train)(i, j))


@pytest.mark.parametrize("task", TASKS)
def test_too_few_sentences_are_refused(random, task):
    sentences, states = made(random, sentences=2)
    with pytest.raises(ValueError, match=f"{task}: expected at least two sentences to train .* found 1 and 1 with a"):
        probe(sentences, {"": states}, [task], SETTINGS)


def test_one_class_is_no_error(random):
    x, train = random.normal(size=(10, 3)), np.arange(10) < 6
    assert probes.probe_sentences(x, np.full(10, 4), train, c=1.0)["accuracy"] == 1

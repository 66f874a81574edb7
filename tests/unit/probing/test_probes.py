"""Probes find what is in states, and nothing where nothing is."""

from __future__ import annotations

import json

import numpy as np
import pytest

from syntax_experiments.probing import labels, probes
from syntax_experiments.probing.experiment import Corpus, ProbeSettings, probe
from syntax_experiments.probing.labels import NONE, Labels
from syntax_experiments.probing.sentences import Sentence
from syntax_experiments.probing.states import States

SETTINGS = ProbeSettings(c=1.0, repeats=2, seed=1, most_pairs=6000)


@pytest.fixture
def random():
    return np.random.default_rng(7)


def made(random, *, sentences=300, words=8, width=12):
    """Sentences with random labels; in layer 1 states from which these can be read, in layer 0 only noise."""
    states: dict[int, list] = {0: [], 1: []}
    of_words: dict[int, list] = {0: [], 1: []}
    found = []
    for number in range(sentences):
        count = int(random.integers(3, words + 1))
        depth = int(random.integers(2, 7))
        heads = np.array([random.choice([j for j in range(count) if j != i]) for i in range(count)])
        heads[random.integers(count)] = NONE
        distances = random.integers(1, 5, size=count - 1)
        noise = random.normal(size=(count, width))
        names = random.normal(size=(count, width // 3))  # of each word, a direction of its own
        names /= np.linalg.norm(names, axis=1, keepdims=True)
        there = np.concatenate([names, names[heads] * (heads != NONE)[:, None], np.zeros((count, width // 3))], axis=1)
        there[:-1, -1] = distances
        of_words[0].append(noise)
        of_words[1].append(there)
        states[0].append(random.normal(size=width))
        states[1].append(np.append(random.normal(size=width - 5), np.eye(5)[depth - 2]))
        tops = Labels(depth, ["NP VP", "VP"][depth % 2], distances, heads)
        text = [f"w{random.integers(20)}" for _ in range(count)]
        found.append(Sentence(number, text, np.arange(count), tops))
    return Corpus(
        found,
        States(
            {k: np.stack(v).astype(np.float32) for k, v in states.items()},
            {k: np.concatenate(v).astype(np.float32) for k, v in of_words.items()},
        ),
    )


def test_what_is_there_is_found_and_what_is_not_is_not(random):
    corpus = made(random)
    found = probe(corpus, ["depth", "top-constituents", "distance", "head"], [0, 1], SETTINGS)
    for task, chance, least in (
        ("depth", 0.3, 1),
        ("top-constituents", 0.7, 1),
        ("distance", 0.4, 1),
        ("head", 0.35, 0.97),
    ):
        noise, there = found[task]["layers"]["0"], found[task]["layers"]["1"]
        assert noise["accuracy"]["mean"] < chance, task
        assert there["accuracy"]["mean"] >= least, task
        assert there["control"]["mean"] < chance + 0.1, task  # random labels are not in the states
        assert abs(noise["selectivity"]["mean"]) < 0.2, task  # twenty types: their labels are less even
        assert there["selectivity"]["mean"] > 0.3, task
        assert found[task]["surface"]["accuracy"]["mean"] < chance + 0.05, task  # nor do lengths and places tell
        assert found[task]["majority"]["accuracy"]["mean"] < chance + 0.05, task
    assert found["distance"]["layers"]["1"]["spearman"]["mean"] > 0.9  # equal distances are ties
    assert abs(found["distance"]["layers"]["0"]["spearman"]["mean"]) < 0.15
    assert found["depth"]["classes"] == [["up to 2", "3", "4", "5", "6 or more"]] * 2  # in each repeat
    for task, of_task in found.items():
        for name in ("accuracy", *["balanced_accuracy"] * (task != "head")):
            low, high = of_task["layers"]["0"][name]["interval"]
            assert low < of_task["layers"]["0"][name]["mean"] < high, (task, name)
            difference = of_task["differences"]["1"]["layer 0"][name]
            assert difference["interval"][0] > 0.2, (task, name)  # what is there is more than chance
        assert ("balanced_accuracy" in of_task["majority"]) == (task != "head")
    assert found["depth"]["majority"]["balanced_accuracy"]["mean"] == pytest.approx(1 / 5)
    json.dumps(found, allow_nan=False)


def test_a_planted_bilinear_form_is_found(random):
    """A word's head is that with the greatest p_iᵀ·W·p_j, which no product entry by entry tells."""
    count, length, width = 400, 6, 8
    starts = np.arange(count + 1) * length
    states = random.normal(size=(count * length, width)).astype(np.float32)
    form = np.roll(np.eye(width), 1, axis=0)
    heads = np.empty(len(states), dtype=np.int64)
    for start in starts[:-1]:
        h = states[start : start + length]
        odds = h @ form @ h.T
        np.fill_diagonal(odds, -np.inf)
        heads[start : start + length] = start + odds.argmax(axis=1)
    train = np.arange(count) < 300
    of_training = np.repeat(train, length)
    other = random.normal(size=states.shape)

    def accuracy(features):
        return probes.probe_heads(
            features, heads, starts, train, c=1.0, most_pairs=10000, random=np.random.default_rng(1)
        ).accuracy.value

    assert accuracy(probes.bilinear_pairs(states, of_training)) > 0.9
    assert accuracy(probes.pairs_of_states(states, of_training)) < 0.4
    assert accuracy(probes.bilinear_pairs(other, of_training)) < 0.3


def test_places_alone_find_the_word_before(random):
    corpus = made(random, sentences=100)
    starts = corpus.starts
    heads = np.arange(starts[-1]) - 1
    heads[starts[:-1]] = NONE
    train = np.arange(100) < 80
    assert probes.most_frequent_step(heads, starts, train).accuracy.value == 1
    found = probes.probe_heads(
        probes.pairs_of_places(starts), heads, starts, train, c=1.0, most_pairs=3000, random=random
    )
    assert found.accuracy.value == 1


def test_control_tasks_can_be_learned_by_heart_where_states_tell_the_word(random):
    """One-hot states of twenty word types: the control is all there is to learn."""
    corpus = made(random, sentences=300)
    one_hot = np.eye(20)[[int(w[1:]) for s in corpus.sentences for w in s.words]]
    train = np.arange(300) < 240
    of_training = train[corpus.sentence_of]
    asked = labels.by_type(corpus.distances(), corpus.types, of_training, random)
    found = probes.probe_distances(
        probes.pairs_of_states(one_hot, of_training),
        corpus.distances(),
        asked,
        corpus.sentence_of,
        train,
        c=1.0,
        most_pairs=5000,
        random=random,
    )
    assert found.accuracy.value > 0.97


def test_the_control_of_sentences_can_be_learned_by_heart_where_states_tell_the_last_word(random):
    corpus = made(random, sentences=300)
    of_last = np.eye(20)[[int(s.words[-1][1:]) for s in corpus.sentences]].astype(np.float32)
    corpus.states.sentences[1] = of_last
    found = probe(corpus, ["depth"], [0, 1], SETTINGS)["depth"]["layers"]
    assert found["1"]["control"]["mean"] == 1
    assert found["1"]["selectivity"]["mean"] < -0.6
    assert found["0"]["control"]["mean"] < 0.5


def test_sentences_for_testing_shape_nothing(random):
    """Neither classes nor labels of controls nor standardised states nor their components depend on them."""
    corpus = made(random, sentences=40)
    train = np.arange(40) < 30
    of_training = train[corpus.sentence_of]
    changed = made(np.random.default_rng(7), sentences=40)
    for sentence in changed.sentences[30:]:
        object.__setattr__(sentence.labels, "depth", 9)
        object.__setattr__(sentence.labels, "top", "X Y")
    found, other = (
        probe(Corpus(c.sentences, c.states, None, train), ["depth", "top-constituents"], [1], SETTINGS)
        for c in (corpus, changed)
    )
    assert found["depth"]["classes"] == other["depth"]["classes"]
    assert [*found["top-constituents"]["classes"][0], "other"] == other["top-constituents"]["classes"][0]
    assert other["top-constituents"]["layers"]["1"]["accuracy"]["mean"] == 0  # of a class that training has not
    states = corpus.states.words[1]
    stretched = np.where(of_training[:, None], states, 100 * states + 7)
    i, j = np.flatnonzero(of_training)[:-1], np.flatnonzero(of_training)[1:]
    for features in (probes.pairs_of_states, probes.bilinear_pairs):
        np.testing.assert_array_equal(features(states, of_training)(i, j), features(stretched, of_training)(i, j))
    distances = corpus.distances()
    drawn = [
        labels.by_type(given, corpus.types, of_training, np.random.default_rng(1))
        for given in (distances, np.where(of_training | (distances == NONE), distances, 9))
    ]
    np.testing.assert_array_equal(*drawn)


def test_results_are_the_same_again_and_of_held_out_sentences(random):
    corpus = made(random, sentences=60)
    first, second = (probe(corpus, ["depth", "head"], [1], SETTINGS) for _ in range(2))
    assert first == second
    divisions = [corpus.division(SETTINGS, r) for r in range(2)]
    assert all((~train).sum() == 12 for train in divisions)
    assert (divisions[0] != divisions[1]).any()
    given = np.arange(60) < 50
    assert Corpus(corpus.sentences, corpus.states, None, given).division(SETTINGS, 1) is given


def test_too_few_sentences_are_refused(random):
    corpus = made(random, sentences=2)
    with pytest.raises(
        ValueError, match=r"depth: expected at least two sentences to train .* found 1 and 1 with a label"
    ):
        probe(corpus, ["depth"], [1], SETTINGS)


def test_one_class_is_no_error(random):
    x, train = random.normal(size=(10, 3)), np.arange(10) < 6
    assert probes.probe_sentences(x, np.full(10, 4), train, c=1.0).accuracy.value == 1


def test_another_encoder_is_asked_about_the_same_sentences(random):
    """Differences to it are paired: to an encoder with the same states they are 0 in all drawings."""
    corpus, other = made(random, sentences=60), made(np.random.default_rng(8), sentences=60)
    for states in (corpus.states, other.states):
        states.sentences[0], states.words[0] = corpus.states.sentences[0], corpus.states.words[0]
    other.states.sentences[1] = random.normal(size=corpus.states.sentences[1].shape)
    second = Corpus(corpus.sentences, States(other.states.sentences, corpus.states.words))
    found = probe(corpus, ["depth", "head"], [0, 1], SETTINGS, random_encoder=second)
    assert found["depth"]["layers"]["0"] == found["depth"]["random_encoder"]["0"]
    for task, k in (("depth", "0"), ("head", "0"), ("head", "1")):
        assert found[task]["differences"][k]["random encoder"]["accuracy"]["interval"] == [0, 0]
    trained, drawn, difference = (
        of["accuracy"]["values"]
        for of in (
            found["depth"]["layers"]["1"],
            found["depth"]["random_encoder"]["1"],
            found["depth"]["differences"]["1"]["random encoder"],
        )
    )
    np.testing.assert_allclose(difference, np.subtract(trained, drawn))
    assert min(difference) > 0
    without = probe(corpus, ["depth", "head"], [0, 1], SETTINGS)
    assert found["depth"]["layers"] == without["depth"]["layers"]

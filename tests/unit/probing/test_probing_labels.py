"""What sentences are probed for, by hand; and how words are found and exchanged."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from syntax_data.errors import InputError
from syntax_data.features.aligned import Settings
from syntax_data.trees.brackets import parse_brackets
from syntax_data.trees.tree import DependencyTree
from syntax_experiments.probing import labels
from syntax_experiments.probing.labels import NONE
from syntax_experiments.probing.sentences import Sentence, exchanged, read_sentences


def trees(text):
    return parse_brackets(text, path="x", line=1)


TREE = "(ROOT (S (NP-SBJ (DT the) (NN increase)) (VP (VBZ reflects) (NP (JJ credit) (NNS losses))) (. .)))"


def test_labels_of_a_tree():
    found = labels.labels_of(trees(TREE), DependencyTree(list("abcdef"), [2, 3, 0, 5, 3, 3]))
    assert found.depth == 3
    assert found.top == "NP VP ."
    assert found.distances.tolist() == [1, 3, 2, 1, 3]
    assert found.heads.tolist() == [1, 2, NONE, 4, 2, 2]


def test_labels_of_dependencies_alone():
    tree = DependencyTree(list("abcdef"), [2, 3, 0, 5, 3, 3])
    found = labels.labels_of(None, tree, without_trees=True)
    assert (found.depth, found.top) == (3, None)
    assert found.distances.tolist() == [1, 1, 2, 1, 2]
    found = labels.labels_of(None, tree)  # other lines have constituents: there is one kind of depth
    assert (found.depth, found.distances) == (None, None)
    assert found.heads.tolist() == [1, 2, NONE, 4, 2, 2]


def test_two_sentences_on_a_line():
    found = labels.labels_of(trees("(S (A a) (B b)) (S (C c) (D d))"), None)
    assert found.distances.tolist() == [1, NONE, 1]
    assert found.top is None
    assert labels.arcs_between_neighbours([2, 0, 0, 3]).tolist() == [1, NONE, 1]


@pytest.mark.parametrize(
    ("tree", "top"),
    [
        ("(S (X (Y a)))", None),
        ("(S a b)", "_ _"),
        ("(S (-LRB- x) (NP=2 y))", "-LRB- NP"),
        ("(FRAG (NP a) (. b))", "NP ."),
    ],
)
def test_top_constituents(tree, top):
    assert labels.top_constituents(trees(tree)) == top


@pytest.mark.parametrize(
    ("values", "classes", "bins"),
    [
        ([1, 2, 2, 3, 3, 3, 4], 9, [1, 2, 3, 4]),
        ([1] * 6 + [2] * 2 + [3] * 2 + [4] * 2, 2, [1, 4]),
        ([1, 2, 3, 4, 5, 6], 3, [2, 4, 6]),
        ([5, 5], 3, [5]),
    ],
)
def test_bins_are_balanced(values, classes, bins):
    assert labels.balanced_bins(np.array(values), classes).tolist() == bins


def test_classes_of_bins_and_of_frequent_labels():
    assert labels.in_bins(np.array([0, 1, 2, 3, 4, 9]), np.array([2, 4])).tolist() == [0, 0, 0, 1, 1, 1]
    given = ["b", "a", None, "b", "c", "a", "d", "d", "d"]
    found, names = labels.frequent_classes(given, 2, np.arange(9) < 6)
    assert names == ["a", "b", "other"]
    assert found.tolist() == [1, 0, NONE, 1, 2, 0, 2, 2, 2]
    assert labels.frequent_classes(given, 2, np.arange(9) < 4)[1] == ["b", "a", "other"]  # others in testing alone
    assert labels.frequent_classes(given[:4], 2, np.arange(4) < 4)[1] == ["b", "a"]


def test_controls_are_random_by_type():
    random = np.random.default_rng(3)
    types = random.integers(100, size=2000)
    given = random.choice(4, size=2000, p=[0.6, 0.3, 0.1, 0])
    given[::7] = NONE
    train = types < 50
    given[~train & (given != NONE)] = 3  # in testing alone
    found = labels.by_type(given, types, train, random)
    assert ((found == NONE) == (given == NONE)).all()
    of_types = [set(found[(types == t) & (given != NONE)]) for t in range(100)]
    assert all(len(of_type) == 1 for of_type in of_types)
    drawn = Counter(label for of_type in of_types for label in of_type)  # also of types that training has not
    assert drawn[0] > drawn[1] > drawn[2] > 0 == drawn[3]


@pytest.mark.parametrize(
    ("words", "found"), [(["A", "Dog", "."], "dog"), (["now", "?", '"'], "now"), (["…", "!"], "!"), (["7"], "7")]
)
def test_the_type_of_a_sentence(words, found):
    assert labels.last_word(words) == found


def test_control_heads_are_other_words_of_the_sentence():
    random = np.random.default_rng(3)
    lengths = random.integers(2, 9, size=100)
    starts = np.concatenate([[0], np.cumsum(lengths)])
    first = np.repeat(starts[:-1], lengths)
    last = np.repeat(starts[1:], lengths) - 1
    words = np.arange(starts[-1])
    heads = np.where(words == first, NONE, first)
    train = first < starts[80]
    found = labels.heads_by_word_type(heads, starts, random.integers(30, size=len(words)), train, random)
    there = heads != NONE
    assert (found[~there] == NONE).all()
    assert ((found >= first) & (found <= last) & (found != words))[there].all()


def write(tmp_path, tree_lines):
    (tmp_path / "x.trees").write_text("".join(f"{line}\n" for line in tree_lines))
    return {"trees": str(tmp_path / "x.trees")}


def read(split, parses, on_bad_parse="error"):
    options = {"settings": Settings(symbols="<*>"), "on_bad_parse": on_bad_parse, "most_tokens": 6}
    return read_sentences(dict(enumerate(split)), parses, count=len(split), **options)


def test_words_are_found_by_text_and_unknown_ones_by_the_feature(tmp_path):
    tree = "(S (NP (DT the) (NN increase)) (VP rises))"
    parses = write(tmp_path, [tree, tree, tree, "(())", "(())", "(S (A a) (B b))", "(S a)"])
    split = [
        (["the", "in@@", "crease", "rises"], False, None),
        (["the", "<unk>", "crease", "rises"], True, [0, 1, 1, 2]),
        (["the", "<unk>", "crease", "rises"], True, None),
        ([], False, None),
        (["no", "parse"], False, None),
        (["a", "b", "c", "d", "e", "f"], False, None),
        (["<2de>", "a"], False, None),
    ]
    found, left_out = read(split, parses)
    assert [s.number for s in found] == [0, 1, 4]
    assert [s.words for s in found] == [["the", "increase", "rises"]] * 2 + [["no", "parse"]]
    assert [s.word_of.tolist() for s in found] == [[0, 1, 1, 2]] * 2 + [[0, 1]]
    assert found[0].labels.distances.tolist() == [1, 2]
    assert found[2].labels.depth is None
    reasons = "unknown subwords, of words that are not known", "empty", "longer than the encoder takes"
    assert left_out == dict.fromkeys([*reasons, "words that its parse has not (--symbols)"], 1)


def test_bad_parses_are_refused_or_counted(tmp_path):
    parses = write(tmp_path, ["(S (A a) (B b))", "(S (A a) (B b))", "(S (A a) (B b)"])
    split = [(["a", "b"], False, None), (["a", "c"], False, None), (["a", "b"], False, None)]
    with pytest.raises(InputError, match=r"x\.trees:2: sentence 1 of the split \(from 0\): expected the same text"):
        read(split, parses)
    found, left_out = read(split, parses, on_bad_parse="skip")
    assert [s.number for s in found] == [0]
    assert left_out == {"a parse of another text": 1, "a broken parse: unbalanced": 1}


def test_subwords_that_are_marked_otherwise_are_refused_or_counted():
    split = [(["a@@"], False, None), (["a", "b"], False, None)]
    with pytest.raises(ValueError, match=r"sentence 0 of the split \(from 0\): expected the line's last"):
        read(split, {})
    with pytest.raises(ValueError, match=r"sentence 0 of the split \(from 0\): expected no marks of sentencepiece"):
        read([(["▁a", "▁b"], False, None)], {}, on_bad_parse="skip")
    found, left_out = read(split, {}, on_bad_parse="skip")
    assert [s.number for s in found] == [1]
    assert left_out == {"subwords that make no words": 1}


def test_only_chosen_parses_are_read(tmp_path):
    parses = write(tmp_path, ["(S broken", "(S (A a) (B b))", "(S (A c) (B d))"])
    options = {"settings": Settings(symbols="<*>"), "on_bad_parse": "error", "most_tokens": 6, "count": 3}
    found, _ = read_sentences({2: (["c", "d"], False, None)}, parses, **options)
    assert [(s.number, s.words) for s in found] == [(2, ["c", "d"])]


@pytest.mark.parametrize(("count", "message"), [(3, "found 2"), (1, "found more")])
def test_as_many_parses_as_sentences(tmp_path, count, message):
    parses = write(tmp_path, ["(S (A a) (B b))"] * 2)
    with pytest.raises(InputError, match=f"expected {count} parses, one for each sentence of the split, {message}"):
        read([(["a", "b"], False, None)] * count, parses)


def test_two_words_are_exchanged_whole():
    sentence = Sentence(0, ["A", "dog", "sees", "dog", "."], np.array([0, 1, 2, 2, 3, 4]))
    random = np.random.default_rng(1)
    found = {tuple(exchanged(sentence, random).tolist()) for _ in range(50)}
    assert found == {(0, 2, 3, 1, 4, 5), (0, 1, 4, 2, 3, 5)}  # the first word and the full stop stay
    for words in (["a", "b"], ["a", "b", "B", "!"], ["a", "b", ",", "c"]):
        assert exchanged(Sentence(0, words, np.arange(len(words))), random) is None

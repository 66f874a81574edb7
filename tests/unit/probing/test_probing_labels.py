"""Labels of sentences and words, by hand; and how words are found."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from syntax_data.errors import InputError
from syntax_data.features.aligned import Settings
from syntax_data.trees.brackets import parse_brackets
from syntax_data.trees.tree import DependencyTree
from syntax_experiments.probing import probed_labels
from syntax_experiments.probing.probed_labels import NO_LABEL
from syntax_experiments.probing.sentences import read_sentences


def trees(text):
    return parse_brackets(text, path="x", line=1)


TREE = "(ROOT (S (NP-SBJ (DT the) (NN increase)) (VP (VBZ reflects) (NP (JJ credit) (NNS losses))) (. .)))"


def test_labels_of_parses():
    dependencies = DependencyTree(list("abcdef"), [2, 3, 0, 5, 3, 3])
    found = probed_labels.labels_of(6, trees(TREE), dependencies)
    assert (found.depth, found.top) == (3, "NP VP .")
    assert found.distances.tolist() == [1, 3, 2, 1, 3, NO_LABEL]
    assert found.heads.tolist() == [1, 2, NO_LABEL, 4, 2, 2]
    without = probed_labels.labels_of(6, None, dependencies)
    assert (without.depth, without.top, set(without.distances)) == (NO_LABEL, None, {NO_LABEL})
    assert without.heads.tolist() == found.heads.tolist()
    assert set(probed_labels.labels_of(6, trees(TREE), None).heads) == {NO_LABEL}


def test_two_sentences_on_a_line():
    found = probed_labels.labels_of(4, trees("(S (A a) (B b)) (S (C c) (D d))"), None)
    assert found.distances.tolist() == [1, NO_LABEL, 1, NO_LABEL]
    assert found.top is None


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
    assert probed_labels.top_constituents(trees(tree)) == top


@pytest.mark.parametrize(
    ("values", "classes", "names", "found"),
    [
        ([1, 2, 2, 3, 3, 3, 4], 9, ["up to 1", "2 to 2", "3 to 3", "4 to 4"], [0, 1, 1, 2, 2, 2, 3]),
        ([1] * 6 + [2] * 2 + [3] * 2 + [4] * 2, 2, ["up to 1", "2 to 4"], [0] * 6 + [1] * 6),
        ([1, 2, 3, 4, 5, 6], 3, ["up to 2", "3 to 4", "5 to 6"], [0, 0, 1, 1, 2, 2]),
        ([5, 5], 3, ["up to 5"], [0, 0]),
    ],
)
def test_classes_are_balanced_by_training(values, classes, names, found):
    more = np.array([*values, NO_LABEL, 0, 99])  # in testing, beyond the classes
    train = np.arange(len(more)) < len(values)
    got = probed_labels.balanced_classes(more, classes, train)
    assert (got[0].tolist(), got[1]) == ([*found, NO_LABEL, 0, len(names) - 1], names)


def test_classes_of_frequent_labels_are_those_of_training():
    given = ["b", "a", None, "b", "c", "a", "d", "d", "d"]
    found, names = probed_labels.frequent_classes(given, 2, np.arange(9) < 6)
    assert names == ["a", "b", "other"]
    assert found.tolist() == [1, 0, NO_LABEL, 1, 2, 0, 2, 2, 2]
    assert probed_labels.frequent_classes(given, 2, np.arange(9) < 4)[1] == [
        "b",
        "a",
        "other",
    ]
    assert probed_labels.frequent_classes(given[:4], 2, np.arange(4) < 4)[1] == ["b", "a"]


def test_controls_are_random_by_type():
    random = np.random.default_rng(3)
    types = random.integers(100, size=2000)
    given = random.choice(4, size=2000, p=[0.6, 0.3, 0.1, 0])
    given[::7] = NO_LABEL
    train = types < 50
    given[~train & (given != NO_LABEL)] = 3  # in testing alone
    found = probed_labels.by_type(given, types, train, random)
    assert ((found == NO_LABEL) == (given == NO_LABEL)).all()
    of_types = [set(found[(types == t) & (given != NO_LABEL)]) for t in range(100)]
    assert all(len(of_type) == 1 for of_type in of_types)
    drawn = Counter(label for of_type in of_types for label in of_type)  # also of types that training has not
    assert drawn[0] > drawn[1] > drawn[2] > 0 == drawn[3]


@pytest.mark.parametrize(
    ("words", "found"), [(["A", "Dog", "."], "dog"), (["now", "?", '"'], "now"), (["…", "!"], "!"), (["7"], "7")]
)
def test_the_type_of_a_sentence(words, found):
    assert probed_labels.last_word(words) == found


def test_control_heads_are_other_words_of_the_sentence():
    random = np.random.default_rng(3)
    lengths = random.integers(2, 9, size=100)
    starts = np.concatenate([[0], np.cumsum(lengths)])
    first = np.repeat(starts[:-1], lengths)
    last = np.repeat(starts[1:], lengths) - 1
    words = np.arange(starts[-1])
    heads = np.where(words == first, NO_LABEL, first)
    train = first < starts[80]
    found = probed_labels.heads_by_word_type(heads, starts, random.integers(30, size=len(words)), train, random)
    there = heads != NO_LABEL
    assert (found[~there] == NO_LABEL).all()
    assert ((found >= first) & (found <= last) & (found != words))[there].all()


def write(tmp_path, tree_lines):
    (tmp_path / "x.trees").write_text("".join(f"{line}\n" for line in tree_lines))
    return {"trees": str(tmp_path / "x.trees")}


def read(split, parses, on_bad_parse="error", count=None):
    tokens = split if isinstance(split, dict) else dict(enumerate(split))
    settings = Settings(symbols="<*>")
    return read_sentences(tokens, parses, count=count or len(split), settings=settings, on_bad_parse=on_bad_parse)


def test_words_are_found_by_text(tmp_path):
    parses = write(tmp_path, ["(S (NP (DT the) (NN increase)) (VP rises))", "(())", "(S a)", ""])
    found, left_out = read([["the", "in@@", "crease", "rises"], ["no", "parse"], ["<2de>", "a"]], parses)
    [sentence] = found
    assert (sentence.number, sentence.words) == (0, ["the", "increase", "rises"])
    assert sentence.word_of.tolist() == [0, 1, 1, 2]
    assert sentence.labels.distances.tolist() == [1, 2, NO_LABEL]
    assert left_out == {"no parse": 1, "words that its parse has not (--symbols)": 1}


def test_bad_parses_are_refused_or_left_out(tmp_path):
    parses = write(tmp_path, ["(S (A a) (B b))", "(S (A a) (B b))", "(S (A a) (B b)"])
    split = [["a", "b"], ["a", "c"], ["a", "b"]]
    with pytest.raises(InputError, match=r"x\.trees:3: expected 1 more"):
        read(split, parses)
    with pytest.raises(InputError, match=r"x\.trees:2: sentence 1 of the split \(from 0\): expected the same text"):
        read({0: split[0], 1: split[1]}, parses, count=3)
    found, left_out = read(split, parses, on_bad_parse="skip")
    assert [s.number for s in found] == [0]
    assert left_out == {"a parse of another text": 1, "no parse": 1}


def test_subwords_that_are_marked_otherwise_are_refused_or_left_out(tmp_path):
    parses = write(tmp_path, ["(S a)", "(S (A a) (B b))"])
    split = [["a@@"], ["a", "b"]]
    with pytest.raises(ValueError, match=r"sentence 0 of the split \(from 0\): expected the line's last"):
        read(split, parses)
    with pytest.raises(ValueError, match=r"sentence 0 of the split \(from 0\): expected no marks of sentencepiece"):
        read([["▁a", "▁b"]], parses, on_bad_parse="skip")
    found, left_out = read(split, parses, on_bad_parse="skip")
    assert [s.number for s in found] == [1]
    assert left_out == {"subwords that make no words": 1}


@pytest.mark.parametrize(("count", "found"), [(3, 2), (1, 2)])
def test_as_many_parses_as_sentences(tmp_path, count, found):
    parses = write(tmp_path, ["(S (A a) (B b))"] * 2)
    with pytest.raises(InputError, match=f"expected {count} parses, one for each sentence of the split, found {found}"):
        read([["a", "b"]] * count, parses)


def test_only_chosen_parses_are_read(tmp_path):
    parses = write(tmp_path, ["(S broken", "(S (A a) (B b))", "(S (A c) (B d))"])
    found, _ = read({2: ["c", "d"]}, parses, count=3)
    assert [(s.number, s.words) for s in found] == [(2, ["c", "d"])]

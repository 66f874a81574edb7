"""Labels of sentences and words, by hand; and how words are found."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from syntax_data.features.aligned import Settings
from syntax_data.trees.brackets import parse_brackets
from syntax_data.trees.tree import DependencyTree
from syntax_experiments.probing import labels
from syntax_experiments.probing.labels import NO_LABEL
from syntax_experiments.probing.sentences import labelled, read_sentences

TREE = "(ROOT (S (NP-SBJ (DT the) (NN increase)) (VP (VBZ reflects) (NP (JJ credit) (NNS losses))) (. .)))"


def trees(text):
    return parse_brackets(text, path="x", line=1)


def test_labels_of_parses():
    dependencies = DependencyTree(list("abcdef"), [2, 3, 0, 5, 3, 3])
    found = labelled(0, [*"abcdef"], [*range(6)], trees(TREE), dependencies)
    assert (found.depth, found.top) == (3, "NP VP .")
    assert found.distances.tolist() == [1, 3, 2, 1, 3, NO_LABEL]
    assert found.heads.tolist() == [1, 2, NO_LABEL, 4, 2, 2]
    without = labelled(0, [*"abcdef"], [*range(6)], None, dependencies)
    assert (without.depth, without.top, set(without.distances)) == (NO_LABEL, None, {NO_LABEL})
    assert set(labelled(0, [*"abcdef"], [*range(6)], trees(TREE), None).heads) == {NO_LABEL}
    two_sentences = labelled(0, [*"abcd"], [*range(4)], trees("(S (A a) (B b)) (S (C c) (D d))"), None)
    assert two_sentences.distances.tolist() == [1, NO_LABEL, 1, NO_LABEL]
    assert two_sentences.top is None


@pytest.mark.parametrize(
    ("tree", "top"), [("(S (X (Y a)))", None), ("(S a b)", "_ _"), ("(S (-LRB- x) (NP=2 y))", "-LRB- NP")]
)
def test_top_constituents(tree, top):
    assert labels.top_constituents(trees(tree)) == top


@pytest.mark.parametrize(
    ("values", "classes", "names", "found"),
    [
        ([1, 2, 2, 3, 3, 3, 4], 9, ["up to 1", "2 to 2", "3 to 3", "4 to 4"], [0, 1, 1, 2, 2, 2, 3]),
        ([1] * 6 + [2] * 2 + [3] * 2 + [4] * 2, 2, ["up to 1", "2 to 4"], [0] * 6 + [1] * 6),
        ([5, 5], 3, ["up to 5"], [0, 0]),
    ],
)
def test_classes_are_balanced_by_training(values, classes, names, found):
    more = np.array([*values, NO_LABEL, 0, 99])  # in testing, beyond the classes
    train = np.arange(len(more)) < len(values)
    got = labels.balanced_classes(more, classes, train)
    assert (got[0].tolist(), got[1]) == ([*found, NO_LABEL, 0, len(names) - 1], names)


@pytest.mark.parametrize(
    ("learned", "names", "found"),
    [
        (9, ["d", "a", "other"], [2, 1, NO_LABEL, 2, 2, 1, 0, 0, 0]),
        (6, ["a", "b", "other"], [1, 0, NO_LABEL, 1, 2, 0, 2, 2, 2]),
        (4, ["b", "a", "other"], [0, 1, NO_LABEL, 0, 2, 1, 2, 2, 2]),
    ],
)
def test_classes_of_frequent_labels_are_those_of_training(learned, names, found):
    given = ["b", "a", None, "b", "c", "a", "d", "d", "d"]
    got = labels.frequent_classes(given, 2, np.arange(9) < learned)
    assert (got[0].tolist(), got[1]) == (found, names)
    assert labels.frequent_classes(given[:4], 2, np.arange(4) < 4)[1] == ["b", "a"]


def test_controls_are_random_by_type():
    random = np.random.default_rng(3)
    types = random.integers(100, size=2000)
    given = random.choice(4, size=2000, p=[0.6, 0.3, 0.1, 0])
    given[::7] = NO_LABEL
    train = types < 50
    given[~train & (given != NO_LABEL)] = 3  # in testing alone
    found = labels.by_type(given, types, train, random)
    assert ((found == NO_LABEL) == (given == NO_LABEL)).all()
    of_types = [set(found[(types == t) & (given != NO_LABEL)]) for t in range(100)]
    assert all(len(of_type) == 1 for of_type in of_types)
    drawn = Counter(label for of_type in of_types for label in of_type)  # also of types that training has not
    assert drawn[0] > drawn[1] > drawn[2] > 0 == drawn[3]


@pytest.mark.parametrize(("words", "found"), [(["now", "?", '"'], "now"), (["…", "!"], "!"), (["A", "7"], "7")])
def test_the_type_of_a_sentence(words, found):
    assert labels.last_word(words) == found


def test_control_heads_are_other_words_of_the_sentence():
    random = np.random.default_rng(3)
    lengths = random.integers(2, 9, size=100)
    starts = np.concatenate([[0], np.cumsum(lengths)])
    first, last = np.repeat(starts[:-1], lengths), np.repeat(starts[1:], lengths) - 1
    words = np.arange(starts[-1])
    heads = np.where(words == first, NO_LABEL, first)
    types = random.integers(30, size=len(words))
    found = labels.heads_by_word_type(heads, starts, types, first < starts[80], random)
    there = heads != NO_LABEL
    assert (found[~there] == NO_LABEL).all()
    assert ((found >= first) & (found <= last) & (found != words))[there].all()


def read(folder, tree_lines, split, on_bad_parse="error"):
    """Read sentences, by number, of a split with these trees."""
    path = folder / "x.trees"
    path.write_text("".join(f"{line}\n" for line in tree_lines))
    parses, settings = {"trees": str(path)}, Settings(symbols="<*>")
    tokens = {number: text.split() for number, text in split.items()}
    return read_sentences(tokens, parses, count=3, settings=settings, on_bad_parse=on_bad_parse)


def test_words_are_found_by_text(tmp_path):
    lines = ["(S (NP (DT the) (NN increase)) (VP rises))", "(())", "(S a)", ""]
    [sentence], left_out = read(tmp_path, lines, {0: "the in@@ crease rises", 1: "no parse", 2: "<2de> a"})
    assert (sentence.number, sentence.words) == (0, ["the", "increase", "rises"])
    assert sentence.word_of.tolist() == [0, 1, 1, 2]
    assert sentence.distances.tolist() == [1, 2, NO_LABEL]
    assert left_out == {"no parse": 1, "words that its parse has not (--symbols)": 1}


@pytest.mark.parametrize(
    ("split", "message", "left_out"),
    [
        ({0: "a b", 2: "a b"}, r"x\.trees:3: expected 1 more", {"no parse": 1}),
        ({0: "a b", 1: "a c"}, r"x\.trees:2: sentence 1 of the split \(from 0\): expected the same text",
         {"a parse of another text": 1}),
        ({0: "a b", 1: "a@@"}, r"sentence 1 of the split \(from 0\): expected the line's last",
         {"subwords that make no words": 1}),
    ],
)  # fmt: skip
def test_bad_sentences_are_refused_or_left_out(tmp_path, split, message, left_out):
    """Only parses of the chosen sentences are read."""
    lines = ["(S (A a) (B b))", "(S (A a) (B b))", "(S (A a) (B b)"]
    with pytest.raises(ValueError, match=message):
        read(tmp_path, lines, split)
    found, counts = read(tmp_path, lines, split, on_bad_parse="skip")
    assert ([s.number for s in found], counts) == ([0], left_out)


@pytest.mark.parametrize(
    ("count", "text", "message"),
    [
        (2, "a", "expected 3 parses, one for each sentence of the split, found 2"),
        (4, "a", "expected 3 parses, one for each sentence of the split, found 4"),
        (3, "▁a ▁b", r"sentence 0 of the split \(from 0\): expected no marks of sentencepiece"),
    ],
)
def test_other_files_are_refused_in_any_case(tmp_path, count, text, message):
    with pytest.raises(ValueError, match=message):
        read(tmp_path, ["(S a)"] * count, {0: text}, on_bad_parse="skip")

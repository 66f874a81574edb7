"""Laws of every feature: its values, whole or cut, are valid."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest
import torch

from fairseq_syntax.modules.biases import SyntacticDependencyOfInterest, SyntacticLocalRange, TreeHeight, TreePath
from fairseq_syntax.testing import random_tree
from syntax_data.features import FEATURES, truncate, window
from syntax_data.features.aligned import Settings, align_sentence
from syntax_data.features.feature import Rows
from syntax_data.text.subwords import subword_reader
from syntax_data.text.symbols import SymbolPattern
from syntax_data.trees.brackets import parse_brackets
from syntax_data.trees.categories import shared_categories, word_categories
from syntax_data.trees.tree import DependencyTree, NoParse

subword_nmt, sentencepiece, byte_bpe = map(subword_reader, ("subword_nmt", "sentencepiece", "byte_bpe"))
LABELS = ("</s>", "_", "a", "b", "N", "T", "U")
SETTINGS = Settings()
WITH_SYMBOLS = Settings(symbols="<t>")


def sentence(random: Random, words: int, settings: Settings = SETTINGS):
    """A sentence with both parses, each of whose words is one or two subwords.

    Where `settings` have the symbol ``<t>``, some of these stand between the words.
    """
    tree = random_tree(random, words)
    leaves = tree.leaves()
    subwords = [s for leaf in leaves for s in random.choice([[leaf], [f"{leaf[0]}@@", leaf[1:]]])]
    heads = [random.randint(1, i) if i else 0 for i in range(words)]
    columns = [[*"___", random.choice("ab"), *"___", random.choice("ab"), *"__"] for _ in range(words)]
    parses = {"trees": [tree], "conllu": DependencyTree(leaves, heads, columns)}
    for at in range(len(subwords), -1, -1) if settings.symbols else ():
        if not subwords[:at] or not subwords[at - 1].endswith("@@"):
            subwords[at:at] = random.choice([[], [], ["<t>"], ["<@@", "t>"], ["<t>", "<t>"]])
    return align_sentence(" ".join(subwords), subword_nmt(subwords), parses, settings=settings)


def wrong(features: dict[str, np.ndarray]) -> list[str]:
    rows = {name: Rows.of(values, np.array([len(values)])) for name, values in features.items()}
    return [
        f"{name}: {expected}"
        for name in features
        for places, expected in FEATURES[name].wrong(rows[name], rows, FEATURES[name].labels or LABELS)
        if places.any()
    ]


def all_values(made) -> dict[str, list[int]]:
    return {name: feature.of(made, LABELS.index) for name, feature in FEATURES.items()}


@pytest.mark.parametrize("settings", [SETTINGS, WITH_SYMBOLS])
@pytest.mark.parametrize("seed", range(20))
def test_values_and_their_cuts_can_be(seed, settings):
    random = Random(seed)
    made = sentence(random, random.randint(1, 8), settings)
    values = all_values(made)
    subwords = len(made.word_of) + sum(map(len, made.symbols))
    assert {len(found) for found in values.values()} == {subwords + 1}
    whole = {name: np.array(found, FEATURES[name].dtype) for name, found in values.items()}
    assert wrong(whole) == []
    for length in range(1, subwords + 2):
        cut = truncate(whole, length)
        assert {len(found) for found in cut.values()} == {length}
        assert wrong(cut) == []
        for start in range(length - 1):
            inside = window(whole, range(start, length - 1))
            assert {len(found) for found in inside.values()} == {length - start}
            assert wrong(inside) == []
            cut = inside if start else cut
        assert {name: found.dtype for name, found in cut.items()} == {name: whole[name].dtype for name in whole}


def test_without_their_parse_features_have_no_values():
    subwords = subword_nmt(["a", "b"])
    tree, heads = [random_tree(Random(1), 3)], DependencyTree(["a", "b"], [0, 1])
    for parses in ({}, {"trees": NoParse("failed"), "conllu": NoParse("failed")}):
        made = align_sentence("a b", subwords, parses, settings=Settings())
        for feature in FEATURES.values():
            assert len(feature.of(made, LABELS.index)) == (0 if feature.source else 3)
    of_another_text = align_sentence("a b", subwords, {"trees": tree, "conllu": heads}, settings=Settings())
    assert of_another_text.parses == {"trees": NoParse("mismatch"), "conllu": heads}
    assert "found a difference" in str(of_another_text.mismatches.pop("trees"))
    assert not of_another_text.mismatches


@pytest.mark.parametrize(
    ("trees", "expected"),
    [
        (
            "(ROOT (S (NP-SBJ-1 (PRP He)) (VP (VBZ saw) (NP=2 (DT the) (NN dog))) (. .)))",
            "NP.S.ROOT VP.S.ROOT NP.VP.S NP.VP.S S.ROOT._",
        ),
        ("(S He (VP runs))", "S._._ S._._"),  # VP might be a part of speech
        ("(NN dog) (S (S (NP (NP (NNS cats)))) (X and) us)", "NN._._ NP.NP.S S._._ S._._"),
        ("( (NP=3 a b) (-LRB- c d) e)", "NP._._ NP._._ -LRB-._._ -LRB-._._ _._._"),
    ],
)
def test_categories_are_those_of_the_constituents_above_the_part_of_speech(trees, expected):
    found = word_categories(parse_brackets(trees, path="x", line=1))
    assert [".".join(chain) for chain in found] == expected.split()


@pytest.mark.parametrize(
    ("trees", "expected"),
    [
        ("(ROOT (S (NP-SBJ-1 (PRP He)) (VP (VBZ saw) (NP=2 (DT the) (NN dog))) (. .)))", "S VP NP S _"),
        ("(TOP (S (NP a b) (VP c)))", "NP S _"),
        ("(NN dog) (S (S (NP (NP (NNS cats)))) (X and) us)", "_ S S _"),
        ("(S a (S b (S c d)))", "S S S _"),
    ],
)
def test_a_shared_category_is_that_of_the_smallest_constituent_of_two_neighbours(trees, expected):
    assert shared_categories(parse_brackets(trees, path="x", line=1)) == expected.split()


@pytest.mark.parametrize(
    ("control", "expected"),
    [(None, "NP S _"), ("flat", "X X _"), ("random", "X X _"), ("no-parse", "")],
)
def test_words_keep_their_categories_under_other_trees_and_share_those_of_these(control, expected):
    subwords = subword_nmt(["the", "d@@", "og", "barks"])
    (tree,) = parse_brackets("(S (NP (DT the) (NN dog)) (VP (VBZ barks)))", path="x", line=1)
    made = align_sentence("the d@@ og barks", subwords, {"trees": [tree]}, settings=Settings(control=control))
    labels = ["</s>", "NP", "VP", "S", "X", "_"]
    assert FEATURES["category"].of(made, labels.index) == ([1, 1, 1, 2, 0] if expected else [])
    assert FEATURES["category_2"].of(made, labels.index) == ([3, 3, 3, 3, 0] if expected else [])
    assert FEATURES["category_3"].of(made, labels.index) == ([5, 5, 5, 5, 0] if expected else [])
    numbers = [*map(labels.index, expected.split())]
    assert FEATURES["shared_category"].of(made, labels.index) == (numbers and [numbers[0], numbers[1], *numbers[1:], 0])


def test_a_word_without_a_subword_is_in_the_category_that_its_neighbours_share():
    (tree,) = parse_brackets("(S (NP a (X b \u200b)) (VP c d))", path="x", line=1)
    made = align_sentence(
        "▁a ▁b ▁c ▁d", sentencepiece(["▁a", "▁b", "▁c", "▁d"]), {"trees": [tree]}, settings=Settings()
    )
    labels = ["</s>", "NP", "VP", "S", "X", "_"]
    assert FEATURES["shared_category"].of(made, labels.index) == [1, 3, 2, 5, 0]


LABELS_OF_WORDS = ("deprel", "upos", "category", "category_2", "category_3", "shared_category", "case", "position")
MASKS = {
    "slr": lambda f: SyntacticLocalRange(form="hard").log_mask(f["distance"]),
    "sdoi": lambda f: SyntacticDependencyOfInterest().log_mask(f["word"], f["head"]),
    "tree_height": lambda f: TreeHeight().bias(f["distance"]).numbers,
    "tree_path": lambda f: TreePath().bias(f["word"], f["head"]).numbers,
}


@pytest.mark.parametrize("seed", range(20))
def test_symbols_leave_the_other_words_as_they_are(seed):
    """Their features, but for the numbers of words, and the biases between two of them."""
    words = seed % 8 + 1
    plain, made = (sentence(Random(seed), words, settings) for settings in (SETTINGS, WITH_SYMBOLS))
    assert (made.words, made.word_of, made.distances) == (plain.words, plain.word_of, plain.distances)
    expected, found = all_values(plain), all_values(made)
    of_symbols = {i for symbol in made.symbols for i in symbol}
    others = [i for i in range(len(found["word"])) if i not in of_symbols]
    for name in ("distance", *LABELS_OF_WORDS):
        assert [found[name][i] for i in others] == expected[name], name
    number = dict(zip((found["word"][i] for i in others), expected["word"], strict=True))
    assert [number[found["word"][i]] for i in others] == expected["word"]
    assert [(h := found["head"][i]) and 1 + number[h - 1] for i in others] == expected["head"]
    for symbol in made.symbols:
        (word,) = {found["word"][i] for i in symbol}
        assert word not in number
        assert {found[name][i] for name in ("head", *LABELS_OF_WORDS) for i in symbol} == {0}
    for name, mask in MASKS.items():
        whole, without = (mask({k: torch.tensor([v]) for k, v in f.items()})[0] for f in (found, expected))
        assert torch.equal(whole[others][:, others], without), name


def test_a_symbol_inside_of_a_word_is_a_part_of_it():
    words = DependencyTree(["x", "a-b"], [2, 0])
    for text in ("x a - <t> b <t>", "x a <t> <t> - b"):
        made = align_sentence(text, subword_nmt(text.split()), {"conllu": words}, settings=WITH_SYMBOLS)
        values = {name: np.array(FEATURES[name].of(made, LABELS.index)) for name in ("word", "head")}
        assert wrong(values) == []
        last = [2] if text.endswith("<t>") else [1]
        assert values["word"].tolist() == [0, 1, 1, 1, 1, *last, last[0] + 1]
        assert values["head"].tolist() == [2, 0, 0, 0, 0, 0, 0]


@pytest.mark.parametrize(
    ("marks", "subwords", "rest", "places"),
    [
        (subword_nmt, "<2de> A d@@ og", "A dog", [[0]]),
        (subword_nmt, "<@@ 2@@ fr@@ > A", "A", [[0, 1, 2, 3]]),
        (subword_nmt, "A <num>@@ . <num>", "A .", [[1], [3]]),
        (subword_nmt, "<2de>@@ <num> A", "A", [[0], [1]]),
        (subword_nmt, "(@@ BT@@ ) BT@@ U O@@ BT BT", "( ) BTU OBT", [[1], [7]]),
        (subword_nmt, "a <nu@@ m>. <2@@ de>x", "a <num>. <2de>x", []),  # parts of other subwords
        (sentencepiece, "▁<2de> ▁A ▁ <num> .", "A .", [[0], [2, 3]]),
        (sentencepiece, "▁ <2de> ▁A < num > s", "A s", [[0, 1], [3, 4, 5]]),
        (sentencepiece, "▁A <0xE3> <0x80> <0x88> ▁b", "A b", [[1, 2, 3]]),
        (sentencepiece, "▁A ▁b", "A b", []),
        (byte_bpe, "A Ġ Ġ< num > .", "A .", [[2, 3, 4]]),
        (byte_bpe, "<2de> ĠA ĠB T", "A", [[0], [2, 3]]),
        (byte_bpe, "A Ġ ã Ģ Ī Ġb", "A b", [[1, 2, 3, 4]]),
    ],
)
def test_where_symbols_are(marks, subwords, rest, places):
    pattern = SymbolPattern.read("<2*>,<num>,BT,〈")
    found, symbols = pattern.take_out(marks(subwords.split()))
    assert " ".join(found.words) == rest
    assert list(map(list, symbols)) == places
    assert len(found.pieces) == len(found.word_of) == len(subwords.split()) - sum(map(len, symbols))
    assert found.word_of == sorted(found.word_of)


def test_the_parser_does_not_see_symbols():
    pattern = SymbolPattern.read("<2*>,<num>,BT")
    for text, expected in (
        ("<2de> A dog.", "A dog."),
        ("Costs <num>, <num>.", "Costs , ."),
        (" A  dog ", " A  dog "),
        ("BTU BT OBT", "BTU OBT"),
    ):
        assert pattern.without(text) == expected
    for written in ("*", "<a>,", "a b", "<a>,**"):
        with pytest.raises(ValueError, match="--symbols: expected words between commas"):
            SymbolPattern.read(written)


@pytest.mark.parametrize("settings", [SETTINGS, WITH_SYMBOLS])
@pytest.mark.parametrize("seed", range(30))
def test_features_of_other_subwords_are_those_of_an_alignment_with_them(seed, settings):
    """Of words of one or two leaves, in subwords that leaves begin with, split in any other way, and symbols."""
    random = Random(seed)
    tree = random_tree(random, random.randint(1, 12))
    leaves = tree.leaves()
    heads = [random.randint(1, i) if i else 0 for i in range(len(leaves))]
    labels = [[*"___", random.choice("ab"), *"___", random.choice("ab"), *"__"] for _ in leaves]
    parses = {"trees": [tree], "conllu": DependencyTree(leaves, heads, labels)}
    size = 1 if settings.symbols else 1 + seed % 2
    words = [leaves[i : i + size] for i in range(0, len(leaves), size)]
    if settings.symbols:
        words = [w for word in words for w in random.choice([[word], [["<t>"], word], [["<t>"], ["<t>"], word]])]
    starts = ([0], [0])  # characters with which subwords begin: there, and in the other way
    tokens: tuple[list[str], list[str]] = [], []
    for word in words:
        text, of_leaves = "".join(word), {len("".join(word[:i])) for i in range(len(word))}
        for number, kept in enumerate((of_leaves, {0})):
            cuts = sorted(kept | {i for i in range(len(text)) if text != "<t>" and random.random() < 0.4})
            begin = starts[number].pop()
            starts[number].extend(begin + cut for cut in [*cuts, len(text)])
            pieces = [text[a:b] for a, b in zip(cuts, [*cuts[1:], len(text)], strict=True)]
            tokens[number].extend([*(f"{piece}@@" for piece in pieces[:-1]), pieces[-1]])
    here, there = (
        all_values(align_sentence(" ".join(of), subword_nmt(of), parses, settings=settings)) for of in tokens
    )
    first_in = np.searchsorted(starts[0], starts[1], side="right") - 1
    features = {name: np.array(values, FEATURES[name].dtype) for name, values in here.items()}
    found = {name: FEATURES[name].resegmented(values, first_in, features) for name, values in features.items()}
    assert {name: values.tolist() for name, values in found.items()} == there
    assert {name: values.dtype for name, values in found.items()} == {n: of.dtype for n, of in features.items()}

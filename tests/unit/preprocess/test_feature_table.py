"""What holds of every feature: what it makes, whole or cut, is what it says that its values can be."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from fairseq_syntax.testing import random_tree
from syntax_preprocess.alignment import subword_nmt
from syntax_preprocess.features import FEATURES, truncate
from syntax_preprocess.features.aligned import Settings, align_sentence
from syntax_preprocess.features.feature import Rows
from syntax_preprocess.trees import DependencyTree, NoParse

LABELS = ("</s>", "a", "b")


def sentence(random: Random, words: int):
    """A sentence of so many words with both parses, each of whose words is one or two subwords."""
    tree = random_tree(random, words)
    leaves = tree.leaves()
    subwords = [s for leaf in leaves for s in random.choice([[leaf], [f"{leaf[0]}@@", leaf[1:]]])]
    heads = [random.randint(1, i) if i else 0 for i in range(words)]
    columns = [[*"___", random.choice(LABELS[1:]), *"___", random.choice(LABELS[1:]), *"__"] for _ in range(words)]
    parses = {"trees": [tree], "conllu": DependencyTree(leaves, heads, columns)}
    return align_sentence(" ".join(subwords), subword_nmt(subwords), parses, settings=Settings())


def wrong(features: dict[str, np.ndarray]) -> list[str]:
    rows = {name: Rows.of(values, np.array([len(values)])) for name, values in features.items()}
    return [
        f"{name}: {expected}"
        for name in features
        for places, expected in FEATURES[name].wrong(rows[name], rows, FEATURES[name].labels or LABELS)
        if places.any()
    ]


@pytest.mark.parametrize("seed", range(40))
def test_values_and_their_cuts_can_be(seed):
    random = Random(seed)
    made = sentence(random, random.randint(1, 8))
    values = {name: feature.values(made, LABELS.index) for name, feature in FEATURES.items()}
    assert {len(found) for found in values.values()} == {len(made.word_of) + 1}
    whole = {name: np.array(found, FEATURES[name].dtype) for name, found in values.items()}
    assert wrong(whole) == []
    for length in range(1, len(made.word_of) + 2):
        cut = truncate(whole, length)
        assert {len(found) for found in cut.values()} == {length}
        assert wrong(cut) == []
        assert {name: found.dtype for name, found in cut.items()} == {name: whole[name].dtype for name in whole}


def test_without_their_parse_features_have_no_values():
    subwords = subword_nmt(["a", "b"])
    for parses in ({}, {"trees": NoParse("failed"), "conllu": NoParse("failed")}):
        made = align_sentence("a b", subwords, parses, settings=Settings())
        for feature in FEATURES.values():
            assert len(feature.values(made, LABELS.index)) == (0 if feature.source else 3)


def test_a_parse_of_another_text_is_left_out_and_told_of():
    parses = {"trees": [random_tree(Random(1), 3)], "conllu": DependencyTree(["a", "b"], [0, 1])}
    made = align_sentence("a b", subword_nmt(["a", "b"]), parses, settings=Settings())
    assert made.trees == NoParse("mismatch")
    assert made.dependencies is parses["conllu"]
    assert list(made.mismatches) == ["trees"]
    assert "found a difference" in str(made.mismatches["trees"])

"""The quickstart's corpus: trees decide, and the tree-blind best is what it claims."""

from __future__ import annotations

from random import Random

import pytest

from places import EXPERIMENTS
from syntax_data.trees.brackets import parse_brackets
from syntax_data.trees.conllu import parse_conllu


@pytest.fixture
def grammar(monkeypatch):
    monkeypatch.syspath_prepend(EXPERIMENTS / "corpora")
    import grammar

    return grammar


def test_each_reading_has_a_tree_and_a_translation_of_its_own(grammar):
    for phrases in (1, 2):
        words = grammar.random_words(Random(1), phrases)
        readings = grammar.all_readings(words)
        assert len(readings) == (2 if phrases == 1 else 5)
        for of in (grammar.Example.target, grammar.Example.tree, grammar.Example.conllu):
            assert len({str(of(reading)) for reading in readings}) == len(readings)
        for reading in readings:
            (tree,) = parse_brackets(reading.tree(), path="x", line=1)
            assert tree.leaves() == words.source()
            dependencies = parse_conllu(reading.conllu().splitlines(), path="x", line=1)
            assert dependencies.tokens == words.source()
            assert sorted(reading.target()) == sorted(readings[0].target())


def test_tree_blind_best(grammar):
    one, two = (grammar.all_readings(grammar.random_words(Random(1), phrases)) for phrases in (1, 2))
    assert grammar.tree_blind_best(one) == 50
    assert grammar.tree_blind_best(two) == 20
    assert grammar.tree_blind_best(one + two) == pytest.approx(100 * 2 / 7)
    assert grammar.tree_blind_best(one[:1] + two[:1]) == 100


def test_splits_share_no_sentence_and_false_trees_are_of_the_same_length(grammar):
    corpus = grammar.make_corpus(Random(2), train=50, held_out=10)
    assert len(corpus["train"]) == 50
    words = {name: {example.words for example in examples} for name, examples in corpus.items()}
    assert len(words["test"]) == len(words["valid"]) == 10
    assert not words["train"] & words["test"] | words["train"] & words["valid"] | words["valid"] & words["test"]
    examples = corpus["train"]
    others = grammar.with_trees_of_others(Random(3), examples)
    changed = 0
    for example, other in zip(examples, others, strict=True):
        false = grammar.false_parse(example, other)
        (tree,) = parse_brackets(false.tree(), path="x", line=1)
        assert tree.leaves() == example.words.source()
        changed += false.tree() != example.tree()
    assert changed > 25

"""The corpus of shallow and deep sentences, in which the tree alone decides the translation."""

from __future__ import annotations

import math
import sys
from random import Random

import pytest

from places import EXPERIMENTS
from syntax_data.trees.brackets import parse_brackets

sys.path.insert(0, str(EXPERIMENTS / "corpora"))
import depth


def language(**options):
    return depth.Language(Random(1), **{"nouns": 20, "adjectives": 2, "mirrored": False, **options})


@pytest.fixture(scope="module")
def splits():
    return depth.make_corpus(language(), Random(2), train=200, held_out=6, trees=14)


def test_a_sentence_by_hand():
    pilot, farmer = depth.NounPhrase("pilot"), depth.NounPhrase("farmer")
    words = depth.Words(
        pilot, "saw", farmer,
        (depth.NounPhrase("lantern", "with", ("old",)), depth.NounPhrase("bridge", "near")),
    )  # fmt: skip
    sentence = words.attach((depth.OBJECT, 1))
    assert " ".join(sentence.source()) == "the pilot saw the farmer with the old lantern near the bridge"
    assert " ".join(sentence.target()) == "pilot bridge near old lantern with farmer saw"
    assert [head for *_, head, _ in sentence.rows()] == [2, 3, 0, 5, 3, 9, 9, 9, 5, 12, 12, 9]
    assert " ".join(words.attach((depth.VERB, depth.VERB)).target()) == "pilot farmer old lantern with bridge near saw"
    assert " ".join(words.attach((depth.OBJECT, 1), to_subject=True).target()).startswith("bridge near old lantern")


@pytest.mark.parametrize("phrases", range(1, 6))
def test_attachments_do_not_cross_and_each_gives_another_translation(phrases):
    for first, catalan in (((depth.VERB, depth.OBJECT), phrases + 1), ((depth.OBJECT,), phrases)):
        found = depth.attachments(phrases, first)
        assert len({*found}) == len(found) == math.comb(2 * catalan, catalan) // (catalan + 1)
        words = language().sentence(phrases)
        sentences = [words.attach(sites, to_subject=len(first) == 1) for sites in found]
        assert len({tuple(s.target()) for s in sentences}) == len(found)
        assert len({tuple(s.source()) for s in sentences}) == 1 or len(first) == 1
        assert depth.tree_blind_best(sentences) == pytest.approx(100 / len(found))


def test_both_trees_are_of_the_words(splits):
    for sentences in splits.values():
        for sentence in sentences:
            (tree,) = parse_brackets(sentence.tree(), path="trees", line=1)
            assert (
                tree.leaves() == sentence.source() == [line.split("\t")[1] for line in sentence.conllu().splitlines()]
            )
            assert sorted(sentence.target()) == sorted(word for word in sentence.source() if word != "the")


def test_splits_share_no_sentence_and_are_as_deep_as_they_say(splits):
    sources = {name: {tuple(s.source()) for s in sentences} for name, sentences in splits.items()}
    assert all(sources["train"].isdisjoint(of) for name, of in sources.items() if name != "train")
    for name, phrases in {
        "train": {1, 2},
        "phrases3": {3},
        "phrases4": {4},
        "phrases5": {5},
        "subject": {1, 2},
    }.items():
        assert {sum(tag == "ADP" for _, tag, *_ in s.rows()) for s in splits[name]} == phrases
    assert {len(splits[f"phrases{n}"]) for n in (3, 4, 5)} == {6 * 14}
    assert all(s.subject.phrases and not (s.object.phrases or s.phrases) for s in splits["subject"])


def test_a_mirrored_translation_is_read_from_its_end():
    sentence = language().sentence(2).attach((0, 0))
    assert language(mirrored=True).translate(sentence) == language().translate(sentence)[::-1]

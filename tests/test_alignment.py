"""Subwords to words, and the check that text and parse are the same words."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairseq_syntax.alignment import AlignmentError, check_same_words, subword_nmt_words

words_and_cuts = st.lists(
    st.tuples(
        st.text(st.characters(exclude_categories=("Z", "C"), exclude_characters="@"), min_size=1, max_size=8),
        st.sets(st.integers(1, 7)),
    ),
    max_size=8,
)


@given(words_and_cuts)
def test_any_segmentation_is_put_together_again(items):
    subwords, expected = [], []
    for number, (word, cuts) in enumerate(items):
        edges = [0, *sorted(c for c in cuts if c < len(word)), len(word)]
        pieces = [word[a:b] for a, b in itertools.pairwise(edges)]
        subwords += [p + "@@" for p in pieces[:-1]] + pieces[-1:]
        expected += [number] * len(pieces)
    words, word_of = subword_nmt_words(subwords)
    assert words == [word for word, _ in items]
    assert word_of == expected
    assert word_of == sorted(word_of)


@pytest.mark.parametrize("subwords", [["a@@"], ["b", "@@"], ["b", "a@@", "c@@"]])
def test_a_line_that_ends_inside_a_word_is_refused(subwords):
    with pytest.raises(AlignmentError, match="end a word"):
        subword_nmt_words(subwords)


def test_words_of_at_signs():
    assert subword_nmt_words(["@", "a@b", "@-@"]) == (["@", "a@b", "@-@"], [0, 1, 2])


def test_same_words():
    check_same_words([], [])
    check_same_words(["a", "(", "-RRB-", "&apos;s"], ["a", "(", ")", "&apos;s"])
    check_same_words(["-LRB-"], ["("])


@pytest.mark.parametrize(
    ("words", "tokens", "expected"),
    [
        ("a b c", "a x c", "from word 2 on: the text has 'b' 'c', the parse 'x' 'c'"),
        ("a b", "a b c", "2 words of the text, found 3 tokens .* from word 3 on: the text has nothing"),
        ("a b", "a", "the text has 'b', the parse nothing"),
        ("a b c d e f g h i j", "", "'a' 'b' 'c' 'd' 'e' 'f' 'g' 'h' …, the parse nothing"),
    ],
)
def test_differing_words_are_shown_from_the_first_difference(words, tokens, expected):
    with pytest.raises(AlignmentError, match=expected):
        check_same_words(words.split(), tokens.split())

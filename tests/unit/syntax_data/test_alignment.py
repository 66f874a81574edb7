"""Alignment of subwords with the words of a parse."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from syntax_data.text.alignment import AlignmentError, align, plain_words
from syntax_data.text.subwords import subword_reader

subword_nmt, sentencepiece = map(subword_reader, ("subword_nmt", "sentencepiece"))


@pytest.mark.parametrize(
    ("subwords", "tokens", "expected"),
    [
        # parser and text tokenise alike, the one with brackets as the Penn Treebank writes them
        ("a ( b@@ c )", "a -LRB- bc -RRB-", [0, 1, 2, 2, 3]),
        # clitics, hyphens, escapes of Moses, also cut apart by BPE
        ("do@@ n't t@@ -@@ shirt", "do n't t - shirt", [0, 1, 2, 3, 4]),
        ("do n't", "don't", [0, 0]),
        ("he &@@ apos@@ ;s @-@ ok &amp; &#91;", "he 's - ok & [", [0, 1, 1, 1, 2, 3, 4, 5]),
        ("he 's", "he &apos;s", [0, 1]),
        ("a@@ @-@ b", "a @-@ b", [0, 1, 2]),
        # a parser that tore an escape apart: the last part has the character
        ("it &apos;s", "it & apos ; s", [0, 3]),
        # case, ß, İ and ı, full-width and compatibility forms, quotation marks, dashes
        ("straße STRASSE", "STRASSE straße", [0, 1]),
        ("i\u0307stanbul istanbul ırak", "İstanbul İSTANBUL IRAK", [0, 1, 2]),
        ("ＡＢ１ ﬁn ½ …", "ab1 fin 1⁄2 ...", [0, 1, 2, 3]),
        ('" a " – b', "`` a '' - b", [0, 1, 2, 3, 4]),
        ("“ a ” „ b“", '" a " " b "', [0, 1, 2, 3, 4]),
        # escaped twice, as text is that had escapes before it was tokenised
        ("AT &amp; amp ; T &amp; quot ; a", 'AT &amp; T " a', [0, 1, 1, 1, 2, 3, 3, 3, 4]),
        # combining characters, in any order
        ("e@@ \u0301 caf\u00e9", "\u00e9 cafe\u0301", [0, 0, 1]),
        ("a\u0302@@ \u0323 x", "a\u0323\u0302 x", [0, 0, 1]),
        # no spaces
        ("我@@ 喜@@ 欢@@ 你", "我 喜欢 你", [0, 1, 1, 2]),
        # crosswise: a subword belongs to the token that holds its first character
        ("ab cd", "a bc d", [0, 1]),
        ("ab cd e", "abc de", [0, 0, 1]),
        # invisible characters belong to what follows, at the end of the line to the last token
        ("\u200b a\u00ad@@ b \u200d", "ab", [0, 0, 0, 0]),
        ("a \u200b b", "a b", [0, 1, 1]),
        ("a b", "a \u200b b \u200b", [0, 2]),
        ("", "", []),
        # dashes: one is several; which is which is known where they are the same number
        ("a — b -- c", "a -- b – c", [0, 1, 2, 3, 4]),
        ("A - - b", "a - - b", [0, 1, 2, 3]),
        ("a - - b", "a -- B", [0, 1, 1, 2]),
        ("a — - b", "a -- - b", [0, 1, 2, 3]),
        ("kalt : – -5 Grad", "kalt : -- -5 Grad", [0, 1, 2, 3, 4]),
        ("a — — b", "a -- -- b", [0, 1, 2, 3]),
        ("a ⸺ b", "a -- b", [0, 1, 2]),
        # fractions and currencies as CoreNLP before 4.0 writes them
        ("½ cup £ 5 € 6 7 ¢", "1\\/2 cup # 5 $ 6 7 cents", [0, 1, 2, 3, 4, 5, 6, 7]),
    ],
)
def test_texts_that_differ_only_in_form(subwords, tokens, expected):
    assert align(subword_nmt(subwords.split()), tokens.split()) == expected


@pytest.mark.parametrize(
    ("pieces", "tokens", "expected"),
    [
        ("▁ Ab c ▁de", "Abc de", [0, 0, 0, 1]),
        ("▁don ' t ▁ <0xF0> <0x9F> <0x98> <0x80> !", "do n't 😀 !", [0, 1, 1, *[2] * 5, 3]),
        ("▁我 喜 欢你", "我 喜欢 你", [0, 1, 1]),
        ("▁1 2 ▁", "12", [0, 0, 0]),
        ("▁I ▁ \u0301 m", "I ´ m", [0, 1, 1, 2]),
        ("▁ \u0301 ▁ \u0301 m ▁ \u0301", "\u0301 ' m \u0384", [0, 0, 1, 1, 2, 3, 3]),
    ],
)
def test_sentencepiece_to_tokens(pieces, tokens, expected):
    assert align(sentencepiece(pieces.split(" ")), tokens.split()) == expected


# What CoreNLP's tokenizer made of characters by default before version 4.0.
CORENLP = {
    "…": "...", "—": "--", "–": "--", "―": "--", "½": "1\\/2", "¼": "1\\/4", "⅔": "2\\/3",
    "£": "#", "€": "$", "¢": "cents",
    "(": "-LRB-", ")": "-RRB-", "[": "-LSB-", "]": "-RSB-", "{": "-LCB-", "}": "-RCB-", "/": "\\/", "*": "\\*",
    "“": "``", "”": "''", "«": "``", "‘": "`", "’": "'", "\u00ad": "", "‑": "-", "−": "-", "′": "'",
}  # fmt: skip


@given(st.lists(st.text(st.sampled_from("ab1-.&" + "".join(CORENLP)), max_size=6).map("x{}".format), min_size=1))
def test_text_as_corenlp_writes_it_has_the_same_words(words):
    escaped = ["".join(CORENLP.get(c, c) for c in word) for word in words]
    assert align(plain_words(words), escaped) == list(range(len(words)))


@pytest.mark.parametrize(
    ("words", "tokens", "expected"),
    [
        ("a b c", "a x c", r"the text has 'b' 'c' \(from word 2 on\), the parse 'x' 'c' \(from word 2 on\)"),
        ("a b", "a b c", r"the text has nothing, the parse 'c' \(from word 3 on\)"),
        ("a bc", "ab", r"the text has 'bc' \(from word 2 on\), the parse nothing"),
        ("\u200b", "", "expected a token in the parse for the invisible characters"),
        ("a b c d e f g h i j", "", "'a' 'b' 'c' 'd' 'e' 'f' 'g' 'h' … .*, the parse nothing"),
    ],
)
def test_differing_texts_are_shown_from_the_first_difference(words, tokens, expected):
    with pytest.raises(AlignmentError, match=expected):
        align(plain_words(words.split()), tokens.split())

"""Alignment of subwords with the words of a parse."""

from __future__ import annotations

import io
import itertools
import random

import pytest
import sentencepiece as spm
from hypothesis import given, settings
from hypothesis import strategies as st
from subword_nmt.apply_bpe import BPE
from subword_nmt.learn_bpe import learn_bpe

from syntax_data.text.alignment import (
    AlignmentError,
    align,
    first_marked_line,
    plain_words,
    sentencepiece,
    subword_nmt,
)
from syntax_data.text.folding import fold

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
    found = subword_nmt(subwords)
    assert found.words == [word for word, _ in items]
    assert found.word_of == expected
    assert "".join(found.pieces) == "".join(found.words)


def test_words_of_at_signs():
    found = subword_nmt(["@", "a@b", "@-@", "@@@", "@"])
    assert found.words == ["@", "a@b", "@-@", "@@"]
    assert found.word_of == [0, 1, 2, 3, 3]
    with pytest.raises(AlignmentError, match="end a word"):
        subword_nmt(["b", "a@@", "c@@"])


def test_sentencepiece_words_and_bytes():
    found = sentencepiece(
        ["▁a", "b", "▁", "<0xE2>", "<0x82>", "<0xAC>", "c", "▁<0x41>", "<0x41>", "<0xE2>", "d", "<0xF0>"]
    )
    assert found.pieces == ["▁a", "b", "▁", "€", "", "", "c", "▁<0x41>", "A", "\ufffd", "d", "\ufffd"]
    assert found.words == ["ab", "€c", "<0x41>A\ufffdd\ufffd"]
    assert found.word_of == [0, 0, *[1] * 5, *[2] * 5]
    assert found.inside == {4, 5}


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
    ],
)
def test_sentencepiece_to_tokens(pieces, tokens, expected):
    assert align(sentencepiece(pieces.split(" ")), tokens.split()) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("▁a ▁b", 1),
        ("\n▁a b ▁c\n▁d", 2),
        ("▁a\n" * 9 + "d", 1),
        ("▁▂▃ a chart", None),  # a character of the text
        ("▁▂▃ a chart\nA dog", None),
        ("a ▁▂▃", None),
        ("a\n" * 1000 + "▁a\n" * 10000, None),
        ("", None),
    ],
)
def test_sentencepiece_is_told_by_many_lines(text, expected):
    lines = [*enumerate(map(str.split, text.split("\n")), start=1)]
    for subwords in ("words", "subword_nmt"):
        assert first_marked_line(lines, subwords) == expected
    assert first_marked_line(lines, "sentencepiece") is None


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


# Random Unicode, cut by real models of both kinds, against tokens that are cut at random.

ALPHABET = st.characters(exclude_categories=("Cs", "Cn", "Co"), exclude_characters="@▁\x00´&\\")  # marks and escapes
COMMON = st.sampled_from("aeinst EINß-.,'\"éüñ我你们日本語ｱﾞ½ﬁİ\u0301\u200d😀")
SENTENCES = st.text(st.one_of(COMMON, COMMON, ALPHABET), max_size=40).filter(lambda text: fold(text)[0])
TRAINING = ["das ist ein test in zwei sätzen", "we test these sentences in a test", "我们 在 这里", "日本語 の 文"] * 20


def random_tokens(text: str, seed: int) -> list[str]:
    """The words of a text, some cut, some joined, in another case."""
    source = random.Random(seed)
    joined = "".join(text.split())
    cuts = sorted({0, len(joined), *(source.randrange(len(joined) + 1) for _ in range(source.randrange(6)))})
    tokens = [joined[a:b] for a, b in itertools.pairwise(cuts)]
    return [token.upper() if source.random() < 0.2 and token.upper().lower() == token else token for token in tokens]


def check(subwords, tokens):
    """Each subword has a word, order is kept, and both directions say the same."""
    word_of = align(subwords, tokens)
    assert len(word_of) == len(subwords.pieces)
    assert word_of == sorted(word_of)
    assert all(0 <= word < len(tokens) for word in word_of)
    # The other way round the tokens are what is cut; only what can be seen has a place of its own.
    seen = [i for i, piece in enumerate(subwords.pieces) if fold(piece)[0]]
    visible_tokens = [k for k, token in enumerate(tokens) if fold(token)[0]]
    there = align(plain_words([tokens[k] for k in visible_tokens]), [subwords.pieces[i] for i in seen])
    piece_of = {k: seen[p] for k, p in zip(visible_tokens, there, strict=True)}
    for token, piece in piece_of.items():
        assert word_of[piece] <= token  # the piece starts where the token does, or before
    for piece in seen:
        assert piece_of[word_of[piece]] <= piece


@pytest.fixture(scope="module")
def bpe():
    codes = io.StringIO()
    learn_bpe(TRAINING, codes, 60)
    return BPE(io.StringIO(codes.getvalue()), glossaries=["test", "EIN"])


@pytest.fixture(scope="module", params=[False, True], ids=["pieces", "bytes"])
def pieces(request):
    model = io.BytesIO()
    spm.SentencePieceTrainer.train(
        sentence_iterator=iter(TRAINING),
        model_writer=model,
        vocab_size=400 if request.param else 60,
        hard_vocab_limit=False,
        byte_fallback=request.param,
        model_type="bpe",
        minloglevel=2,
    )
    return spm.SentencePieceProcessor(model_proto=model.getvalue())


@settings(max_examples=150, deadline=None)
@given(text=SENTENCES, seed=st.integers(0, 1000), dropout=st.sampled_from([0, 0.5]))
def test_round_trip_of_subword_nmt(bpe, text, seed, dropout):
    subwords = bpe.process_line(" ".join(text.split()), dropout).split()
    check(subword_nmt(subwords), random_tokens(text, seed))


@settings(max_examples=150, deadline=None)
@given(text=SENTENCES, seed=st.integers(0, 1000), sampled=st.booleans())
def test_round_trip_of_sentencepiece(pieces, text, seed, sampled):
    subwords = pieces.encode(text, out_type=str, enable_sampling=sampled, alpha=0.1, nbest_size=-1)
    check(sentencepiece(subwords), random_tokens(text, seed))

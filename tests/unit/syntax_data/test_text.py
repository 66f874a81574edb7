"""Lines, their tokens, and the comparison of texts."""

from __future__ import annotations

import sys
import unicodedata

import pytest
from fairseq.tokenizer import tokenize_line as tokenize_line_of_fairseq
from hypothesis import given
from hypothesis import strategies as st
from sacremoses import MosesTokenizer

from syntax_data.text.folding import fold, marks_in_order, same_folded, unescape_moses
from syntax_data.text.lines import tokenize_line


def test_tokens_are_fairseqs_for_every_character():
    for code in range(0x30000):  # in the planes above no character is white space
        line = f"a{chr(code)}b{chr(code)}"
        assert tokenize_line(line) == tokenize_line_of_fairseq(line), hex(code)


def test_white_space_at_the_ends_and_in_a_row_makes_no_token():
    spaces = "".join(chr(code) for code in range(sys.maxunicode + 1) if chr(code).isspace())
    for line in (f"{spaces}a{spaces}{spaces}b{spaces}", spaces, ""):
        assert tokenize_line(line) == tokenize_line_of_fairseq(line) == line.split()


@given(st.text(st.characters(codec="utf-8", exclude_characters="&@")))
def test_escapes_of_sacremoses_are_undone(text):
    escaped = MosesTokenizer().escape_xml(text)
    found, starts = unescape_moses(escaped)
    assert found == text.replace("\u007c", "|")
    assert len(starts) == len(found) + 1
    assert starts == sorted(set(starts))
    for i, character in enumerate(found):  # each character comes from itself, or from its escape
        source = escaped[starts[i] : starts[i + 1]]
        assert source == character or (source[0] == "&" and source[-1] == ";")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("don &apos;t &amp;amp; &#91;x&#93;", "don 't &amp; [x]"),
        ("t @-@ shirt @-@", "t - shirt -"),
        ("a@-@b @-@b", "a@-@b @-@b"),
        ("&nbsp; & ;", "&nbsp; & ;"),
    ],  # and one level only
)
def test_unescape_moses(text, expected):
    assert unescape_moses(text)[0] == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("A b\u00a0c\u200bd\u2028e\x0b\x85", "abcde"),
        ("Straße İI ı ſ", "strasseiiis"),
        ("ＡＢ ｶﾞ ㎏", "abカ\u3099kg"),
        ("“x” ``y'' „z‟ «w»", "''x''''y''''z''''w''"),
        ("a–b—c‑d−e", "a-b-c-d-e"),
        ("1--2 ——— - \u00ad– a --- -LRB-", "1-2-a-("),
        ("½ 1\\/2 1∕2 5′ 6″", "1/21/21/25'6''"),
        ("£5 €6 7¢ ￡", "#5$67cents#"),
        ("-LRB- (-RSB-] a-LCB-", "(( ]] a{".replace(" ", "")),
        ("▁a\ufffd\ufeff\u00ad\ufe0f", "a"),
        ("é", "e\u0301"),
        ("AT&amp;amp;T &amp;apos;s &amp;amp;quot;", "at&t's''"),
        ("I´m ‹a›", "i'm'a'"),
        ("stone &amp; amp ; tile i \u0307", "stone&tilei"),
        ("-lrb- a\\/b \\*", "(a/b*"),
        ("各", "各"),
    ],
)
def test_fold(text, expected):
    assert fold(text)[0] == expected


def test_places_of_folded_characters():
    assert fold("a &apos;ß") == ("a'ss", [0, 1, *[1] * 6, 2, 4])
    assert fold(" a b ") == ("ab", [0, 0, 1, 1, 2, 2])
    assert fold("") == ("", [0])


@given(st.text())
def test_places_never_fall_and_folding_twice_changes_nothing(text):
    folded, places = fold(text)
    assert len(places) == len(text) + 1
    assert places == sorted(places)
    assert places[-1] == len(folded)


@given(st.text(st.characters(exclude_characters="&@-i")))
def test_case_does_not_matter(text):
    same = [c for c in text if c.upper().casefold() == c.casefold()]
    text = "".join(same)
    assert same_folded(fold(text.upper())[0], fold(text)[0])


@given(st.text(st.one_of(st.characters(), st.sampled_from("aé각\u0301\u0323\u0327\u0345\u05b0\u3099"))))
def test_marks_come_in_the_order_of_unicode(text):
    folded, _ = fold(text)
    assert marks_in_order(folded) == unicodedata.normalize("NFD", folded.replace("'", "\u0301"))


def test_different_texts_stay_different():
    pairs = [("a", "á"), ("u", "ü"), ("1", "2"), (".", ","), ("-", "_"), ("o", "0"), ("-", ""), ("...", ".")]
    pairs += [("$", "#"), ("''", "'"), ("#", ""), ("¥", "$"), ("%", "$"), ("½", "12"), ("a-b", "ab")]
    for a, b in pairs:
        assert not same_folded(fold(a)[0], fold(b)[0])

"""Alignment of the subwords of a line with the words of its parse.

Texts are compared and aligned by characters (see :mod:`syntax_data.text.folding`), so parser and translation model may
tokenise differently.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, groupby, takewhile

from syntax_data.errors import short_repr
from syntax_data.text.folding import fold, marks_in_order, one_dash, same_folded, without_accents

_SHOWN = 8


class AlignmentError(ValueError):
    """The subwords and the parser's tokens are not the same text."""


@dataclass(slots=True)
class Subwords:
    """A line of n subwords without their marks.

    Attributes:
        pieces: the text of each, with its ``▁`` or spaces; the bytes of one character are written in the first of their
            pieces.
        words: the m words of the line that they make up.
        word_of: for each subword the index of its word, 0 to m - 1, never falling.
        inside: the subwords that begin inside the same character as the one before (bytes).
        unknown: the subwords that are one word each, of unknown text (``[UNK]``).
        accents: whether the pieces have the accents of the text.
    """

    pieces: list[str]
    words: list[str]
    word_of: list[int]
    inside: frozenset[int] = frozenset()
    unknown: frozenset[int] = frozenset()
    accents: bool = True

    def spread(self, places: Sequence[int], length: int) -> Subwords:
        """The subwords at `places` of `length`, in order, with empty ones between them.

        An empty one belongs to the word of the next, at the end to the last.
        """
        following = [bisect_left(places, i) for i in range(length)]
        return replace(
            self,
            pieces=["" if k == len(places) or places[k] != i else self.pieces[k] for i, k in enumerate(following)],
            words=self.words or [""],
            word_of=[self.word_of[k] if k < len(places) else max(len(self.words) - 1, 0) for k in following],
            inside=frozenset(i for i, k in enumerate(following) if k in self.inside),
            unknown=frozenset(places[k] for k in self.unknown),
        )


def plain_words(tokens: Sequence[str]) -> Subwords:
    """Every token is a word."""
    return Subwords(list(tokens), list(tokens), list(range(len(tokens))))


def align(subwords: Subwords, tokens: Sequence[str]) -> list[int]:
    """Return the index of each of n subwords' token, 0 to m - 1, never falling.

    A subword belongs to the token with its first character; where subwords and tokens overlap crosswise, this leaves
    tokens without a subword. One with no character of its own (``▁``, ``Ġ``, an invisible character) belongs to
    the token of the character that follows, or at the end of the line to the last token. The bytes of a
    character, and the parts of an escape like ``&apos;``, stay together. An unknown subword is exactly one token.

    Raises :class:`AlignmentError` unless `subwords` and `tokens` are the same text; it shows both from the first
    difference on.
    """
    if subwords.words == tokens:
        return subwords.word_of
    if not subwords.accents:
        tokens = [without_accents(token) for token in tokens]
    pieces = _fill_unknown(subwords, tokens, every_dash=True)
    text, in_text = fold("".join(pieces), every_dash=True)
    parse, in_parse = fold("".join(tokens), every_dash=True)
    same = same_folded(text, parse)
    if not same:  # else it is known which dash is which
        if subwords.unknown:
            pieces = _fill_unknown(subwords, tokens, every_dash=False)
            text, in_text = fold("".join(pieces), every_dash=True)
        starts = _starts(pieces, in_text)
        of_words = [start for i, start in enumerate(starts) if not i or subwords.word_of[i] != subwords.word_of[i - 1]]
        text, in_text = one_dash(text, in_text, of_words)
        parse, in_parse = one_dash(parse, in_parse, _starts(tokens, in_parse))
        same = same_folded(text, parse)
    if pieces and not (text or tokens):
        raise AlignmentError("expected a token in the parse for the invisible characters of the text, found none")
    if not same:
        words = [
            "".join(pieces[i] for i in word) for _, word in groupby(range(len(pieces)), subwords.word_of.__getitem__)
        ]
        hint = "; [UNK] is exactly one token of the parse" if subwords.unknown else ""
        raise AlignmentError(_difference(words, (text, in_text), tokens, (parse, in_parse)) + hint)
    token_starts = _starts(tokens, in_parse)
    last = len(tokens) - 1
    while last > 0 and token_starts[last] == len(parse):
        last -= 1  # tokens of invisible characters at the end of the line
    word_of: list[int] = []
    for i, start in enumerate(_starts(pieces, in_text)):
        same = i in subwords.inside
        word_of.append(word_of[-1] if same else min(bisect_right(token_starts, start) - 1, last))
    return word_of


def _fill_unknown(subwords: Subwords, tokens: Sequence[str], *, every_dash: bool) -> list[str]:
    """The pieces, with its token for each unknown one, up to the first that is not one token."""
    pieces = list(subwords.pieces)
    if not subwords.unknown:
        return pieces
    parse, in_parse = fold("".join(tokens), every_dash=every_dash)
    starts = _starts(tokens, in_parse)
    ends = [*starts[1:], len(parse)]
    first = end = 0  # of the pieces, and of the parse, that are not compared yet
    for i in sorted(subwords.unknown):
        before, _ = fold("".join(pieces[first:i]), every_dash=every_dash)
        start = end + len(before)
        token = bisect_right(starts, start) - 1
        if start >= len(parse) or starts[token] != start or not same_folded(before, parse[end:start]):
            break
        pieces[i] = tokens[token]
        first, end = i + 1, ends[token]
    return pieces


def _starts(strings: Sequence[str], offsets: list[int]) -> list[int]:
    """The offset in the folded text of each of the strings that make up the original."""
    return [offsets[start] for start in accumulate(map(len, strings[:-1]), initial=0)] if strings else []


def _difference(
    words: Sequence[str], text: tuple[str, list[int]], tokens: Sequence[str], parse: tuple[str, list[int]]
) -> str:
    pairs = zip(marks_in_order(text[0]), marks_in_order(parse[0]), strict=False)
    first = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))

    def rest(strings: Sequence[str], folded: tuple[str, list[int]]) -> str:
        starts = _starts(strings, folded[1])
        if first >= len(folded[0]):
            return "nothing"
        at = bisect_right(starts, first) - 1
        some = " ".join(short_repr(string.replace("▁", "").strip()) for string in strings[at : at + _SHOWN])
        return f"{some}{' …' * (len(strings) > at + _SHOWN)} (from word {at + 1} on)"

    hint = ""
    if not tokens:
        hint = "; where the parser failed, write (()), in CoNLL-U # no_parse = REASON; a file with blank lines between "
        hint += "its trees goes through fairseq-syntax-parse first"
    return (
        "expected the same text in both, found a difference: "
        f"the text has {rest(words, text)}, the parse {rest(tokens, parse)}{hint}"
    )

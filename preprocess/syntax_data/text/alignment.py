"""Alignment of the subwords of a line with the words of its parse.

Texts are compared and aligned by characters (see :mod:`syntax_data.text.folding`), so parser and translation model may
tokenise differently.
"""

from __future__ import annotations

import codecs
import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate, groupby, islice

from syntax_data.errors import short_repr
from syntax_data.text.folding import fold, one_dash, same_folded

_BYTE = re.compile(r"<0x([0-9A-F]{2})>")
_SHOWN = 8
_LINES_TO_JUDGE_BY = 1000


class AlignmentError(ValueError):
    """The subwords and the parser's tokens are not the same text."""


@dataclass(slots=True)
class Subwords:
    """A line of n subwords without their marks.

    Attributes:
        pieces: the text of each, a ``▁`` included; the bytes of one character are written in the first of their pieces.
        words: the m words of the line that they make up.
        word_of: for each subword the index of its word, 0 to m - 1, never falling.
        inside: the subwords that belong to the same character as the one before (bytes).
    """

    pieces: list[str]
    words: list[str]
    word_of: list[int]
    inside: frozenset[int] = frozenset()


def plain_words(tokens: Sequence[str]) -> Subwords:
    """Every token is a word."""
    return Subwords(list(tokens), list(tokens), list(range(len(tokens))))


def subword_nmt(tokens: Sequence[str]) -> Subwords:
    """Subwords of subword-nmt: ``@@`` ends each but the last of its word.

    Raises :class:`AlignmentError` where the line ends inside a word.
    """
    pieces: list[str] = []
    words: list[str] = []
    word_of: list[int] = []
    open_word = ""
    for token in tokens:
        word_of.append(len(words))
        if token.endswith("@@"):
            pieces.append(token[:-2])
            open_word += token[:-2]
        else:
            pieces.append(token)
            words.append(open_word + token)
            open_word = ""
    if word_of and word_of[-1] == len(words):
        raise AlignmentError(f"expected the line's last subword to end a word, found {short_repr(tokens[-1])}")
    return Subwords(pieces, words, word_of)


def sentencepiece(tokens: Sequence[str]) -> Subwords:
    """Pieces of sentencepiece: ``▁`` is white space, ``<0xE2>`` a byte of a character."""
    pieces: list[str] = []
    inside = []
    for bytes_follow, run in groupby(tokens, key=lambda token: _BYTE.fullmatch(token) is not None):
        if not bytes_follow:
            pieces += run
            continue
        decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        first_byte = -1
        for i, token in enumerate(run, start=len(pieces)):
            pieces.append("")
            if first_byte < 0:
                first_byte = i
            else:
                inside.append(i)
            if character := decoder.decode(bytes.fromhex(token[3:5])):
                pieces[first_byte] = character
                first_byte = -1
        if first_byte >= 0:
            pieces[first_byte] = decoder.decode(b"", final=True)
    words: list[list[str]] = []
    word_of = []
    for token, piece in zip(tokens, pieces, strict=True):
        if token.startswith("▁") or not words:
            words.append([])
        words[-1].append(piece.replace("▁", ""))
        word_of.append(len(words) - 1)
    return Subwords(pieces, ["".join(word) for word in words], word_of, frozenset(inside))


#: Marks of subwords: the choices of ``--subwords``.
SUBWORDS: dict[str, Callable[[Sequence[str]], Subwords]] = {
    "sentencepiece": sentencepiece,
    "subword_nmt": subword_nmt,
    "words": plain_words,
}

#: The message where :func:`first_marked_line` finds a line.
SENTENCEPIECE_HINT = "expected no marks of sentencepiece, found ▁ at the start of the lines: --subwords sentencepiece"


def first_marked_line(lines: Iterable[tuple[int, Sequence[str]]], subwords: str) -> int | None:
    """The first line that begins with ▁, if the lines seem to be sentencepiece's.

    ``None`` if `subwords`, a key of :data:`SUBWORDS`, is sentencepiece.

    Each line of sentencepiece begins with ▁. It may also be a character of the text, as in ▁▂▃.

    Args:
        lines: each with its number; the first :data:`_LINES_TO_JUDGE_BY` are looked at.
    """
    if subwords == "sentencepiece":
        return None
    some = [(n, tokens) for n, tokens in islice(lines, _LINES_TO_JUDGE_BY) if tokens]
    # As ▁A and ▁ alone, and not as ▁▂▃.
    marked = [(n, tokens) for n, tokens in some if tokens[0][0] == "▁" and (tokens[0] == "▁" or tokens[0][1].isalnum())]
    marks = sum(token.startswith("▁") for _, tokens in marked for token in tokens)
    return marked[0][0] if marks > 1 and len(marked) >= 0.9 * len(some) else None


def align(subwords: Subwords, tokens: Sequence[str]) -> list[int]:
    """Return the index of each of n subwords' token, 0 to m - 1, never falling.

    A subword belongs to the token with its first character; where subwords and tokens overlap crosswise, this leaves
    tokens without a subword. One with no character of its own (``▁``, an invisible character) belongs to
    the token of the character that follows, or at the end of the line to the last token. The bytes of a
    character, and the parts of an escape like ``&apos;``, stay together.

    Raises :class:`AlignmentError` unless `subwords` and `tokens` are the same text; it shows both from the first
    difference on.
    """
    if subwords.words == tokens:
        return subwords.word_of
    text, in_text = fold("".join(subwords.pieces), every_dash=True)
    parse, in_parse = fold("".join(tokens), every_dash=True)
    same = same_folded(text, parse)
    if not same:  # else it is known which dash is which
        starts = _starts(subwords.pieces, in_text)
        of_words = [start for i, start in enumerate(starts) if not i or subwords.word_of[i] != subwords.word_of[i - 1]]
        text, in_text = one_dash(text, in_text, of_words)
        parse, in_parse = one_dash(parse, in_parse, _starts(tokens, in_parse))
        same = same_folded(text, parse)
    if subwords.pieces and not (text or tokens):
        raise AlignmentError("expected a token in the parse for the invisible characters of the text, found none")
    if not same:
        raise AlignmentError(_difference(subwords.words, (text, in_text), tokens, (parse, in_parse)))
    token_starts = _starts(tokens, in_parse)
    last = len(tokens) - 1
    while last > 0 and token_starts[last] == len(parse):
        last -= 1  # tokens of invisible characters at the end of the line
    word_of: list[int] = []
    for i, start in enumerate(_starts(subwords.pieces, in_text)):
        same = i in subwords.inside
        word_of.append(word_of[-1] if same else min(bisect_right(token_starts, start) - 1, last))
    return word_of


def _starts(strings: Sequence[str], offsets: list[int]) -> list[int]:
    """The offset in the folded text of each of the strings that make up the original."""
    return [offsets[start] for start in accumulate(map(len, strings[:-1]), initial=0)] if strings else []


def _difference(
    words: Sequence[str], text: tuple[str, list[int]], tokens: Sequence[str], parse: tuple[str, list[int]]
) -> str:
    first = 0
    while first < min(len(text[0]), len(parse[0])) and text[0][first] == parse[0][first]:
        first += 1

    def rest(strings: Sequence[str], folded: tuple[str, list[int]]) -> str:
        starts = _starts(strings, folded[1])
        if first >= len(folded[0]):
            return "nothing"
        at = bisect_right(starts, first) - 1
        some = " ".join(map(short_repr, strings[at : at + _SHOWN]))
        return f"{some}{' …' * (len(strings) > at + _SHOWN)} (from word {at + 1} on)"

    hint = ""
    if not tokens:
        hint = "; where the parser failed, write (()), in CoNLL-U # no_parse = REASON; a file with blank lines between "
        hint += "its trees goes through fairseq-syntax-parse first"
    return (
        "expected the same text in both, found a difference: "
        f"the text has {rest(words, text)}, the parse {rest(tokens, parse)}{hint}"
    )

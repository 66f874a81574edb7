"""Pieces of sentencepiece."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import islice

from syntax_data.text.alignment import Subwords
from syntax_data.text.subwords.byte_level import decode
from syntax_data.text.subwords.kind import SubwordKind

_BYTE = re.compile(r"<0x([0-9A-F]{2})>")
_LINES_TO_JUDGE_BY = 1000


class Sentencepiece(SubwordKind):
    """Pieces of sentencepiece: ``▁`` is white space, ``<0xE2>`` a byte of a character."""

    marks = "▁ at the start of a word"

    def read(self, tokens: Sequence[str]) -> Subwords:
        pieces, inside = list(tokens), frozenset[int]()
        if any(map(_BYTE.fullmatch, tokens)):
            pieces, inside = decode([_bytes(token) for token in tokens])
        words: list[list[str]] = []
        word_of = []
        for token, piece in zip(tokens, pieces, strict=True):
            if token.startswith("▁") or not words:
                words.append([])
            words[-1].append(piece.replace("▁", ""))
            word_of.append(len(words) - 1)
        return Subwords(pieces, ["".join(word) for word in words], word_of, inside)


def _bytes(token: str) -> bytes:
    byte = _BYTE.fullmatch(token)
    return bytes.fromhex(byte[1]) if byte else token.encode("utf-8", "surrogatepass")


#: The message where :func:`first_marked_line` finds a line.
SENTENCEPIECE_HINT = "expected no marks of sentencepiece, found ▁ at the start of the lines: --subwords sentencepiece"


def first_marked_line(lines: Iterable[tuple[int, Sequence[str]]], subwords: str) -> int | None:
    """The first line that begins with ▁, if the lines seem to be sentencepiece's.

    ``None`` if `subwords`, the name of a kind, is sentencepiece.

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

"""Byte-level subwords: GPT-2's, whose every letter is a byte of the text in UTF-8."""

from __future__ import annotations

import codecs
from collections.abc import Sequence
from typing import Any

from syntax_data.errors import short_repr
from syntax_data.io.versioned_json import read_json
from syntax_data.text.alignment import Subwords
from syntax_data.text.subwords.kind import SubwordKind

_VISIBLE = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]  # bytes that are their own letters
_OTHERS = [byte for byte in range(256) if byte not in _VISIBLE]
#: The byte of each of GPT-2's letters, in the order of the first 256 numbers of its vocabulary.
LETTERS = {**{chr(byte): byte for byte in _VISIBLE}, **{chr(256 + i): byte for i, byte in enumerate(_OTHERS)}}
_CONTINUATION = bytes(range(0x80, 0xC0))  # bytes of a character in UTF-8 after its first


def decode(tokens: Sequence[bytes]) -> tuple[list[str], frozenset[int]]:
    """Decode the bytes of a line, and share its characters among the tokens.

    A character goes to the token with its first byte. Bytes that are not UTF-8 are U+FFFD.

    Returns the piece of each token, and the tokens that begin inside a character.
    """
    text = b"".join(tokens).decode("utf-8", "syntax_data.first_bytes")
    pieces = []
    end = 0
    for token in tokens:
        start, end = end, end + len(token.translate(None, _CONTINUATION))
        pieces.append(text[start:end])
    return pieces, frozenset(i for i, token in enumerate(tokens) if i and token[:1] and token[0] in _CONTINUATION)


def _replace_first_bytes(error: UnicodeError) -> tuple[str, int]:
    """Write U+FFFD for each byte that is no continuation, so that these are counted as all others."""
    assert isinstance(error, UnicodeDecodeError)
    wrong = error.object[error.start : error.end].translate(None, _CONTINUATION)
    return "\ufffd" * len(wrong), error.end


codecs.register_error("syntax_data.first_bytes", _replace_first_bytes)


class ByteBpe(SubwordKind):
    """GPT-2's byte-level subwords in its letters: ``Ġ`` is a space, ``Ã©`` an é."""

    marks = "in GPT-2's letters, Ġ for a space"

    def __init__(self, vocabulary: str | None = None, mark: str | None = None):
        super().__init__(vocabulary, mark)
        self._bytes: dict[str, bytes] = {}

    def read(self, tokens: Sequence[str]) -> Subwords:
        for token in tokens:
            if token not in self._bytes:
                self._bytes[token] = self._decode(token)
        return _split_at_spaces(*decode([self._bytes[token] for token in tokens]))

    def _decode(self, token: str) -> bytes:
        try:
            return bytes(LETTERS[letter] for letter in token)
        except KeyError as error:
            message = f"expected GPT-2's letters for bytes, found {error.args[0]!r} in {short_repr(token)}"
            raise ValueError(message) from None


class Gpt2(ByteBpe):
    """GPT-2's byte-level subwords as the numbers of fairseq's ``--bpe gpt2``."""

    marks = "numbers of GPT-2's encoder.json"
    vocabulary_option = "--gpt2-encoder-json"

    def __init__(self, vocabulary: str | None = None, mark: str | None = None):
        super().__init__(vocabulary, mark)
        what = "GPT-2's encoder.json, a number for each subword"
        self._letters = read_json(vocabulary or "", what, _letters_of_numbers)

    def _decode(self, token: str) -> bytes:
        if token not in self._letters:
            raise ValueError(f"expected numbers of {self.vocabulary}, found {short_repr(token)}")
        return super()._decode(self._letters[token])


def _letters_of_numbers(content: Any) -> dict[str, str]:
    """The letters of each number in the content of an encoder.json."""
    if not isinstance(content, dict) or not content:
        raise ValueError(short_repr(content))
    for subword, number in content.items():
        if type(number) is not int:
            raise ValueError(f"{short_repr(number)} for {short_repr(subword)}")
    letters = {str(number): subword for subword, number in content.items()}
    if len(letters) < len(content):
        raise ValueError("a number twice")
    return letters


def _split_at_spaces(pieces: list[str], inside: frozenset[int]) -> Subwords:
    """Subwords whose words have white space between them.

    A subword without another character belongs to the word that follows, at the end to the last one.
    """
    words = "".join(pieces).split() or [""]
    word_of: list[int] = []
    begun = 0  # words
    in_word = False
    for i, piece in enumerate(pieces):
        continued = in_word and not piece[:1].isspace()
        word_of.append(word_of[-1] if i in inside else min(begun - continued, len(words) - 1))
        if piece:
            begun += len(piece.split()) - continued
            in_word = not piece[-1].isspace()
    return Subwords(pieces, words, word_of, inside)

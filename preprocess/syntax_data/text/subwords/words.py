"""Words, and subwords of subword-nmt."""

from __future__ import annotations

from collections.abc import Sequence

from syntax_data.errors import short_repr
from syntax_data.text.alignment import AlignmentError, Subwords, plain_words
from syntax_data.text.subwords.kind import SubwordKind


class Words(SubwordKind):
    """Every token is a word."""

    marks = "not at all"

    def read(self, tokens: Sequence[str]) -> Subwords:
        return plain_words(tokens)


class SubwordNmt(SubwordKind):
    """Subwords of subword-nmt: ``@@`` ends each but the last of its word."""

    marks = "@@ at the end of all but a word's last"

    def read(self, tokens: Sequence[str]) -> Subwords:
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

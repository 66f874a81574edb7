"""Words, and subwords of subword-nmt and of OpenNMT's tokenizer."""

from __future__ import annotations

from collections.abc import Sequence

from syntax_data.text.alignment import Subwords, plain_words
from syntax_data.text.subwords.kind import MarkedSubwords, SubwordKind


class Words(SubwordKind):
    """Every token is a word."""

    marks = "not at all"

    def read(self, tokens: Sequence[str]) -> Subwords:
        return plain_words(tokens)


class SubwordNmt(MarkedSubwords):
    """Subwords of subword-nmt: ``@@``, its separator, ends each but the last of its word."""

    marks = "@@ at the end of all but a word's last"
    mark = "@@"

    def split(self, token: str) -> tuple[bool, str, bool]:
        piece = token.removesuffix(self.mark)
        return False, piece, len(piece) < len(token)


class OpenNmt(MarkedSubwords):
    """Tokens of OpenNMT's tokenizer with joiners: ``￭`` is where no space is, also a token of its own."""

    marks = "￭ on the sides without a space"
    mark = "￭"

    def split(self, token: str) -> tuple[bool, str, bool]:
        if token == self.mark:
            return True, "", True
        right = token.removeprefix(self.mark)
        piece = right.removesuffix(self.mark)
        return len(right) < len(token), piece, len(piece) < len(right)

"""The interface of a kind of subwords."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

from syntax_data.errors import short_repr
from syntax_data.text.alignment import AlignmentError, Subwords


class SubwordKind(ABC):
    """A kind of subwords: how the tokens of a line are pieces of its text.

    Args:
        vocabulary: path of the file of :attr:`vocabulary_option`; ``None`` for a kind without.
        mark: another mark than :attr:`mark`.

    Attributes:
        marks: how tokens are marked, for ``--help``.
        vocabulary_option: option that names the file with the tokens' text; ``None``: they have it themselves.
        mark: the mark of subwords, where ``--subwords KIND:MARK`` may name another; ``None``: it may not.
    """

    marks: ClassVar[str]
    vocabulary_option: ClassVar[str | None] = None
    mark: str | None = None

    def __init__(self, vocabulary: str | None = None, mark: str | None = None):
        self.vocabulary = vocabulary
        self.mark = mark or self.mark

    @classmethod
    def vocabulary_in(cls, options: Any) -> str | None:
        """The file that :attr:`vocabulary_option` names among parsed options."""
        if cls.vocabulary_option is None:
            return None
        return getattr(options, cls.vocabulary_option.removeprefix("--").replace("-", "_"), None)

    @abstractmethod
    def read(self, tokens: Sequence[str]) -> Subwords:
        """Return the subwords of a line.

        Raises :class:`AlignmentError` where the line ends inside a word, and another :class:`ValueError` for a token
        that is no subword of this kind.
        """


class MarkedSubwords(SubwordKind):
    """Subwords that say themselves which of their sides are inside a word."""

    @abstractmethod
    def split(self, token: str) -> tuple[bool, str, bool]:
        """Return a token's text, between whether the token before, and that after it, is of the same word."""

    def read(self, tokens: Sequence[str]) -> Subwords:
        pieces: list[str] = []
        words: list[list[str]] = []
        word_of: list[int] = []
        joined = False  # to the next
        for token in tokens:
            before, piece, after = self.split(token)
            if not (joined or before) or not words:
                words.append([])
            pieces.append(piece)
            words[-1].append(piece)
            word_of.append(len(words) - 1)
            joined = after
        if joined:
            raise AlignmentError(f"expected the line's last subword to end a word, found {short_repr(tokens[-1])}")
        return Subwords(pieces, ["".join(word) for word in words], word_of)

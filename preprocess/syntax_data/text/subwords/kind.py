"""The interface of a kind of subwords."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

from syntax_data.text.alignment import Subwords


class SubwordKind(ABC):
    """A kind of subwords: how the tokens of a line are pieces of its text.

    Args:
        vocabulary: path of the file of :attr:`vocabulary_option`; ``None`` for a kind without.

    Attributes:
        marks: how tokens are marked, for ``--help``.
        vocabulary_option: option that names the file with the tokens' text; ``None``: they have it themselves.
    """

    marks: ClassVar[str]
    vocabulary_option: ClassVar[str | None] = None

    def __init__(self, vocabulary: str | None = None):
        self.vocabulary = vocabulary

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

"""Kinds of subwords: from the tokens of a line to pieces of its text."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from syntax_data.errors import short_repr
from syntax_data.text.alignment import Subwords
from syntax_data.text.subwords.byte_level import ByteBpe, Gpt2
from syntax_data.text.subwords.kind import SubwordKind
from syntax_data.text.subwords.sentencepiece import SENTENCEPIECE_HINT, Sentencepiece, first_marked_line
from syntax_data.text.subwords.wordpiece import Wordpiece
from syntax_data.text.subwords.words import SubwordNmt, Words

__all__ = [
    "SENTENCEPIECE_HINT",
    "SUBWORDS",
    "SubwordKind",
    "check_vocabulary",
    "first_marked_line",
    "read_markers",
    "subword_reader",
]

#: Kinds of subwords by name: the choices of ``--subwords``.
SUBWORDS: dict[str, type[SubwordKind]] = {
    "byte_bpe": ByteBpe,
    "gpt2": Gpt2,
    "sentencepiece": Sentencepiece,
    "subword_nmt": SubwordNmt,
    "wordpiece": Wordpiece,
    "words": Words,
}


def check_vocabulary(kind: str, vocabulary: str | None) -> None:
    """Raise :class:`ValueError` unless a kind has just the vocabulary it needs."""
    option = SUBWORDS[kind].vocabulary_option
    if option and vocabulary is None:
        raise ValueError(f"--subwords {kind}: expected {option} FILE beside it, found none")
    if vocabulary is not None and not option:
        raise ValueError(f"--subwords {kind}: expected no file of its vocabulary, found {vocabulary}")


def read_markers(written: str) -> frozenset[str]:
    """The markers of a value of ``--markers``; :class:`ValueError` if one is no word."""
    markers = written.split(",") if written else []
    if any(marker.split() != [marker] for marker in markers) or len(set(markers)) < len(markers):
        raise ValueError(f"--markers: expected different symbols between commas, found {short_repr(written)}")
    return frozenset(markers)


def subword_reader(kind: str, vocabulary: str | None = None, markers: str = "") -> Callable[[Sequence[str]], Subwords]:
    """Return the function from the tokens of a line to its subwords.

    It raises as :meth:`SubwordKind.read` does.

    Args:
        kind: one of :data:`SUBWORDS`.
        vocabulary: path of the file of a kind that needs one.
        markers: tokens that are no text, comma-separated: each belongs to the word of the next token.
    """
    check_vocabulary(kind, vocabulary)
    read = SUBWORDS[kind](vocabulary).read
    named = read_markers(markers)

    def without_markers(tokens: Sequence[str]) -> Subwords:
        kept = [i for i, token in enumerate(tokens) if token not in named]
        subwords = read([tokens[i] for i in kept])
        return subwords if len(kept) == len(tokens) else subwords.spread(kept, len(tokens))

    return without_markers if named else read

"""Kinds of subwords: from the tokens of a line to pieces of its text."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib.metadata import entry_points

from syntax_data.errors import short_repr
from syntax_data.text.alignment import Subwords
from syntax_data.text.subwords.byte_level import ByteBpe, Gpt2
from syntax_data.text.subwords.kind import MarkedSubwords, SubwordKind
from syntax_data.text.subwords.sentencepiece import SENTENCEPIECE_HINT, Sentencepiece, first_marked_line
from syntax_data.text.subwords.wordpiece import Wordpiece
from syntax_data.text.subwords.words import OpenNmt, SubwordNmt, Words

__all__ = [
    "SENTENCEPIECE_HINT",
    "SUBWORDS",
    "MarkedSubwords",
    "SubwordKind",
    "check_vocabulary",
    "first_marked_line",
    "read_markers",
    "subword_kind",
    "subword_reader",
]

#: The group of entry points whose names are kinds of subwords and whose values are subclasses of :class:`SubwordKind`.
ENTRY_POINTS = "fairseq_syntax.subwords"

#: Our kinds of subwords by name.
SUBWORDS: dict[str, type[SubwordKind]] = {
    "byte_bpe": ByteBpe,
    "gpt2": Gpt2,
    "opennmt": OpenNmt,
    "sentencepiece": Sentencepiece,
    "subword_nmt": SubwordNmt,
    "wordpiece": Wordpiece,
    "words": Words,
}


def subword_kind(written: str) -> tuple[type[SubwordKind], str | None]:
    """The kind, and the mark if there is one, of a value of ``--subwords``: ``KIND`` or ``KIND:MARK``.

    Kinds are ours and the entry points of other packages. Raises :class:`ValueError` for another kind, one that cannot
    be loaded, or a mark that it cannot have.
    """
    name, colon, mark = written.partition(":")
    kind = SUBWORDS.get(name) or _load(name)
    if colon and kind.mark is None:
        raise ValueError(f"--subwords: expected {name} without a mark, found {short_repr(written)}")
    if colon and mark.split() != [mark]:
        raise ValueError(f"--subwords: expected a mark without spaces after {name}:, found {short_repr(mark)}")
    return kind, mark or None


def _load(name: str) -> type[SubwordKind]:
    others = {entry.name: entry for entry in entry_points(group=ENTRY_POINTS)}
    if name not in others:
        known = ", ".join(sorted({*SUBWORDS, *others}))
        raise ValueError(f"--subwords: expected one of {known}, found {short_repr(name)}")
    try:
        found: type[SubwordKind] = others[name].load()
    except Exception as error:  # anything that a module does when it is imported
        message = f"the subwords {name} ({others[name].value}) cannot be loaded: {short_repr(error)}"
        raise ValueError(message) from error
    return found


def check_vocabulary(written: str, vocabulary: str | None) -> None:
    """Raise :class:`ValueError` unless a kind has just the vocabulary it needs."""
    option = subword_kind(written)[0].vocabulary_option
    if option and vocabulary is None:
        raise ValueError(f"--subwords {written}: expected {option} FILE beside it, found none")
    if vocabulary is not None and not option:
        raise ValueError(f"--subwords {written}: expected no file of its vocabulary, found {vocabulary}")


def read_markers(written: str) -> frozenset[str]:
    """The markers of a value of ``--markers``; :class:`ValueError` if one is no word."""
    markers = written.split(",") if written else []
    if any(marker.split() != [marker] for marker in markers) or len(set(markers)) < len(markers):
        raise ValueError(f"--markers: expected different symbols between commas, found {short_repr(written)}")
    return frozenset(markers)


def subword_reader(
    written: str, vocabulary: str | None = None, markers: str = ""
) -> Callable[[Sequence[str]], Subwords]:
    """Return the function from the tokens of a line to its subwords.

    It raises as :meth:`SubwordKind.read` does.

    Args:
        written: as :func:`subword_kind` reads it.
        vocabulary: path of the file of a kind that needs one.
        markers: tokens that are no text, comma-separated: each belongs to the word of the next token.
    """
    check_vocabulary(written, vocabulary)
    kind, mark = subword_kind(written)
    read = kind(vocabulary, mark).read
    named = read_markers(markers)

    def without_markers(tokens: Sequence[str]) -> Subwords:
        kept = [i for i, token in enumerate(tokens) if token not in named]
        subwords = read([tokens[i] for i in kept])
        return subwords if len(kept) == len(tokens) else subwords.spread(kept, len(tokens))

    return without_markers if named else read

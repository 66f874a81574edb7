"""The interface of parsers, the lines they get, and the parses they return."""

from __future__ import annotations

import argparse
import io
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from syntax_data.errors import short_repr
from syntax_data.text.folding import fold, same_folded
from syntax_data.text.lines import decode_lines
from syntax_data.trees.formats import FORMATS, ParseFormat
from syntax_data.trees.tree import DependencyTree, NoParse, Tree

#: Default limits of a line that is parsed. A line of one word takes stanza's tokenizer the square of its length: 1.3 s
#: for 10,000 characters, 20 s for 40,000. Where more tokens are allowed, the limit of characters grows with them.
MAX_TOKENS = 250
MAX_CHARACTERS = 10_000
CHARACTERS_PER_TOKEN = 10

#: The name in MISC of a token's named entity.
NER = "NER"


@dataclass(frozen=True, slots=True)
class Line:
    """A line of text, and its number (from 1) in its file."""

    number: int
    text: str


@dataclass(slots=True)
class Parse:
    """The parse of a line: one kind or both, over the same surface tokens.

    Attributes:
        dependencies: the dependency trees of its sentences.
        trees: one constituency tree for each of its sentences.
        multiword: number of surface tokens of several words.
    """

    dependencies: DependencyTree | None = None
    trees: list[Tree] | None = None
    multiword: int = 0

    @property
    def tokens(self) -> list[str]:
        """The surface tokens."""
        return next((parses.tokens(entry) for parses, entry in self._entries()), [])

    @property
    def sentences(self) -> int:
        """Number of sentences of the line."""
        return next((parses.sentences(entry) for parses, entry in self._entries()), 0)

    def _entries(self) -> Iterator[tuple[ParseFormat, Any]]:
        """Yield each format and its parse, as far as there is one, the last format first."""
        for parses in reversed(FORMATS.values()):
            if (entry := getattr(self, parses.attribute)) is not None:
                yield parses, entry


class Parser(ABC):
    """A parser of lines of text.

    Attributes:
        sequential: whether lines must come one after another from the first on, none left out.
        restartable: whether :meth:`from_description` can start it, to parse new text as the training data was parsed.
        pretokenized: whether a line consists of tokens with spaces between them, which are kept.
        kinds: the kinds of parse that it makes: ``conllu``, ``trees`` or both.
        word_labels: names of labels of words that it writes in MISC, as ``NAME=label``. If it does so only where it is
            asked to, :meth:`describe` has them under the same key.
        default_max_tokens: default limit of the tokens of a line; ``None``: none, nor of characters.
    """

    sequential: ClassVar[bool] = False
    restartable: ClassVar[bool] = False
    pretokenized: bool = False
    kinds: Sequence[str]
    word_labels: Sequence[str] = ()
    default_max_tokens: ClassVar[int | None] = MAX_TOKENS

    @classmethod
    def add_arguments(cls, group: Any) -> None:
        """Add the parser's own options to a group of argparse's."""

    @classmethod
    def input_files(cls, args: argparse.Namespace) -> Sequence[str]:
        """Return the files that the parser reads, which no output may replace."""
        return ()

    @classmethod
    @abstractmethod
    def from_arguments(cls, args: argparse.Namespace) -> Parser:
        """Return the parser of a command line, with all its models loaded."""

    @classmethod
    def from_description(
        cls, description: Mapping[str, Any], *, kinds: Sequence[str], models: str | None, device: str | None
    ) -> Parser:
        """Return the parser that :meth:`describe` described, if the class is :attr:`restartable`.

        Args:
            description: may lack all but the name and, as ``lang``, the language. Its ``word_labels`` are those that
                are wanted.
            kinds: the kinds of parse that are wanted; it may make others besides.
            models: folder of its models; ``None``: its own.
            device: ``cpu`` or ``cuda``; ``None``: a GPU if there is one.

        Raises:
            ValueError: it cannot be started.
        """
        raise ValueError(f"the parser {description['name']} cannot be started from its description")

    @abstractmethod
    def describe(self) -> dict[str, Any]:
        """Return its name (of its entry point), version, models and all else that matters."""

    @abstractmethod
    def parse(self, lines: Sequence[Line]) -> list[Parse | NoParse]:
        """Return a parse for each line, or a ``NoParse`` with the reason.

        After an exception it is called with fewer lines, down to the one that fails; one of a sequential parser ends
        the run.
        """

    def check(self, line: Line, parse: Parse) -> None:
        """Raise unless this is a parse of the line, of all kinds, that can be read again."""
        for kind in self.kinds:
            if getattr(parse, FORMATS[kind].attribute) is None:
                raise ValueError(f"expected a parse of kind {kind}, found none")
        if not same_folded(fold("".join(parse.tokens))[0], fold(line.text)[0]):
            raise ValueError(f"expected the tokens of {short_repr(line.text)}, found {short_repr(parse.tokens)}")
        for kind, parses in FORMATS.items():
            if (entry := getattr(parse, parses.attribute)) is not None:
                if (found := parses.tokens(entry)) != parse.tokens:
                    raise ValueError(f"expected {short_repr(parse.tokens)} in {kind}, found {short_repr(found)}")
                written = io.BytesIO(parses.write(entry).encode("utf-8"))
                (_, unit), *more = parses.entries(decode_lines(written, path="the parse", first=1))
                again = parses.parse(unit, path="the parse", line=1)
                if more or isinstance(again, NoParse) or len(parses.tokens(again)) != len(found):
                    raise ValueError(f"expected words in {kind}, found {short_repr(found)}")
        int(parse.multiword)

    def finish(self) -> None:
        """Called after the last line, where all lines were parsed."""


def default_characters(max_tokens: int | None) -> int | None:
    """Return the default limit of characters of a line of that many tokens."""
    return None if max_tokens is None else max(MAX_CHARACTERS, CHARACTERS_PER_TOKEN * max_tokens)

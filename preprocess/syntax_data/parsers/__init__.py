"""Parsers behind one small interface. Others than ours are found by their entry points (:data:`ENTRY_POINTS`)."""

from __future__ import annotations

import argparse
import io
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from typing import Any, ClassVar

from syntax_data.errors import short_repr
from syntax_data.text.folding import fold, same_folded
from syntax_data.text.lines import decode_lines
from syntax_data.trees.formats import FORMATS, ParseFormat
from syntax_data.trees.tree import DependencyTree, NoParse, Tree

#: The group of entry points whose names are parsers and whose values are subclasses of :class:`Parser`.
ENTRY_POINTS = "fairseq_syntax.parsers"

#: Lines of more tokens than this are not parsed, unless one says otherwise.
MAX_TOKENS = 250
#: Nor are lines of more characters than this, or, if more tokens are allowed, so many a token. A line of one word takes
#: stanza's tokenizer the square of its length: 1.3 s for 10,000 characters, 20 s for 40,000.
MAX_CHARACTERS = 10_000
CHARACTERS_A_TOKEN = 10
#: A parser that fails on so many lines before it has parsed one is broken; not the text.
MAX_INITIAL_FAILURES = 10

_OURS = {
    "stanza": "syntax_data.parsers.stanza:StanzaParser",
    "spacy": "syntax_data.parsers.spacy:SpacyParser",
    "udpipe": "syntax_data.parsers.udpipe:UdpipeParser",
    "conllu": "syntax_data.parsers.files:ConlluParser",
    "trees": "syntax_data.parsers.files:TreesParser",
    "control": "syntax_data.parsers.control:ControlParser",
}


@dataclass(frozen=True, slots=True)
class Line:
    """A line of text, and its number (from 1) in its file."""

    number: int
    text: str


@dataclass(slots=True)
class Parse:
    """The parse of a line: either kind or both, over the same surface tokens.

    Attributes:
        dependencies: the dependency trees of its sentences.
        trees: one constituency tree for each of its sentences.
        multiword: how many surface tokens were made of several words.
    """

    dependencies: DependencyTree | None = None
    trees: list[Tree] | None = None
    multiword: int = 0

    @property
    def tokens(self) -> list[str]:
        """The surface tokens."""
        return next((parses.tokens(made) for parses, made in self._made()), [])

    @property
    def sentences(self) -> int:
        """How many sentences the line has."""
        return next((parses.sentences(made) for parses, made in self._made()), 0)

    def _made(self) -> Iterator[tuple[ParseFormat[Any, Any], Any]]:
        """What there is, and its format; first that of the last format."""
        for parses in reversed(FORMATS.values()):
            if (made := getattr(self, parses.attribute)) is not None:
                yield parses, made


class Parser(ABC):
    """Makes parses of lines of text.

    Attributes:
        sequential: whether lines must come one after another from the first on, none left out.
        restartable: whether :meth:`from_description` can start it, which parses new text as the training data was.
        pretokenized: whether it takes a line for tokens with spaces between them.
        kinds: the kinds of parse that it makes: ``conllu``, ``trees`` or both.
        default_max_tokens: how many tokens a line may have, unless one says otherwise; ``None``: any number, as may its
            characters.
    """

    sequential: ClassVar[bool] = False
    restartable: ClassVar[bool] = False
    pretokenized: bool = False
    kinds: Sequence[str]
    default_max_tokens: ClassVar[int | None] = MAX_TOKENS

    @classmethod
    def add_arguments(cls, group: Any) -> None:
        """Adds this parser's own options to a group of argparse's."""

    @classmethod
    def input_files(cls, args: argparse.Namespace) -> Sequence[str]:
        """The files that the command line tells this parser to read; no output takes their place."""
        return ()

    @classmethod
    @abstractmethod
    def from_arguments(cls, args: argparse.Namespace) -> Parser:
        """Makes the parser that the command line describes, with everything loaded that it needs."""

    @classmethod
    def from_description(
        cls, description: Mapping[str, Any], *, kinds: Sequence[str], models: str | None, device: str | None
    ) -> Parser:
        """The parser that :meth:`describe` tells of, to parse new text as the training data was parsed.

        Only asked of a class that is :attr:`restartable`, and defines this.

        Args:
            description: may lack all but the name and, as ``lang``, the language.
            kinds: the kinds of parse that are wanted; it may make others besides.
            models: folder of its models; ``None``: its own.
            device: ``cpu`` or ``cuda``; ``None``: a GPU if there is one.

        Raises:
            ValueError: this parser cannot be had so.
        """
        raise ValueError(f"the parser {description['name']} cannot be started from what is recorded of it")

    @abstractmethod
    def describe(self) -> dict[str, Any]:
        """Its name (that of its entry point), version, models and whatever else of it the parses depend on, as JSON can
        hold it."""

    @abstractmethod
    def parse(self, lines: Sequence[Line]) -> list[Parse | NoParse]:
        """One parse for each line, or :class:`~syntax_data.trees.tree.NoParse` with the reason why there is none.

        An exception means that it fails on some line. It is then called with fewer lines until that line is found;
        that of a sequential parser ends the run.
        """

    def check(self, line: Line, parse: Parse) -> None:
        """Raises an exception unless `parse` is a parse of `line`, of all of the parser's kinds, and what is written of
        it can be read."""
        for kind in self.kinds:
            if getattr(parse, FORMATS[kind].attribute) is None:
                raise ValueError(f"expected a parse of kind {kind}, found none")
        if not same_folded(fold("".join(parse.tokens))[0], fold(line.text)[0]):
            raise ValueError(f"expected the tokens of {short_repr(line.text)}, found {short_repr(parse.tokens)}")
        for kind, parses in FORMATS.items():
            if (made := getattr(parse, parses.attribute)) is not None:
                if (found := parses.tokens(made)) != parse.tokens:
                    raise ValueError(
                        f"expected the tokens {short_repr(parse.tokens)} in {kind}, found {short_repr(found)}"
                    )
                (_, unit), *more = parses.entries(_written(parses.write(made)))
                again = parses.parse(unit, path="the parse", line=1)
                if more or isinstance(again, NoParse) or len(parses.tokens(again)) != len(found):
                    raise ValueError(f"expected words in {kind}, found {short_repr(found)}")
        int(parse.multiword)

    def finish(self) -> None:
        """Called after the last line, where all lines were parsed."""


def _written(unit: str) -> Iterator[tuple[int, str]]:
    """The lines of a unit as whoever reads its file gets them."""
    return decode_lines(io.BytesIO(unit.encode("utf-8")), path="the parse", first=1)


def default_characters(max_tokens: int | None) -> int | None:
    """The most characters of a line of so many tokens, unless one says otherwise: more than any real line has."""
    return None if max_tokens is None else max(MAX_CHARACTERS, CHARACTERS_A_TOKEN * max_tokens)


def parse_lines(
    parser: Parser,
    lines: Sequence[Line],
    *,
    max_tokens: int | None,
    failed: Callable[[Line, Exception], None],
    max_characters: int | None = None,
) -> list[Parse | NoParse]:
    """The parses of some lines, checked.

    Where the parser fails, it gets fewer lines at a time, down to the one on which it fails. It gets no line that is
    known to be too long, unless it is sequential.

    Args:
        max_tokens: lines of more tokens have no parse; ``None``: no line has too many.
        failed: is told of each line on which the parser fails, and why.
        max_characters: lines of more characters have no parse; ``None``: :func:`default_characters`.

    Raises:
        ValueError: the parser ended the program.
    """
    if max_characters is None:
        max_characters = default_characters(max_tokens)
    most_tokens = math.inf if max_tokens is None else max_tokens
    most_characters = math.inf if max_characters is None else max_characters
    too_long = [
        len(line.text) > most_characters or (parser.pretokenized and len(line.text.split()) > most_tokens)
        for line in lines
    ]
    given = [line for line, long in zip(lines, too_long, strict=True) if parser.sequential or not long]
    parses = iter(_parse(parser, given, failed))
    checked: list[Parse | NoParse] = []
    for line, long in zip(lines, too_long, strict=True):
        parse = NoParse("too_long") if long and not parser.sequential else next(parses)
        if not isinstance(parse, NoParse):
            try:
                parser.check(line, parse)
                if long or len(parse.tokens) > most_tokens:
                    parse = NoParse("too_long")
            except Exception as error:  # not a parse of the line, or not a parse
                failed(line, error)
                parse = NoParse("failed")
        checked.append(parse)
    return checked


def _parse(
    parser: Parser, lines: Sequence[Line], failed: Callable[[Line, Exception], None]
) -> Sequence[Parse | NoParse]:
    if not lines:
        return []
    try:
        parses = parser.parse(lines)
        if len(parses) != len(lines):
            raise ValueError(f"expected {len(lines)} parses, found {len(parses)}")
        return parses
    except SystemExit as error:  # perhaps with status 0
        raise ValueError(f"the parser ended the program: {short_repr(error)}") from error
    except Exception as error:
        if parser.sequential:  # what it says of its file is the user's to know
            raise
        if len(lines) == 1:
            failed(lines[0], error)
            return [NoParse("failed")]
    middle = len(lines) // 2
    return [parse for half in (lines[:middle], lines[middle:]) for parse in _parse(parser, half, failed)]


def parser_names() -> list[str]:
    """The parsers that are installed."""
    return sorted(_entries())


def parser_class(name: str) -> type[Parser]:
    """The parser of that name; no other one is loaded. Raises :class:`ValueError` if it cannot be."""
    entry = _entries()[name]
    try:
        found: type[Parser] = entry.load()
    except Exception as error:  # whatever a module does when it is imported
        raise ValueError(f"the parser {name} ({entry.value}) cannot be loaded: {short_repr(error)}") from error
    return found


def _entries() -> dict[str, EntryPoint]:
    ours = [EntryPoint(name, value, ENTRY_POINTS) for name, value in _OURS.items()]
    return {entry.name: entry for entry in [*ours, *entry_points(group=ENTRY_POINTS)]}

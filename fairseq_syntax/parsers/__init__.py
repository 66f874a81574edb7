"""Parsers behind one small interface. Others than ours are found by their entry points (:data:`ENTRY_POINTS`)."""

from __future__ import annotations

import argparse
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from typing import Any, ClassVar

from fairseq_syntax.text import fold, same_folded
from fairseq_syntax.trees import DependencyTree, NoParse, Tree, format_conllu, parse_conllu

#: The group of entry points whose names are parsers and whose values are subclasses of :class:`Parser`.
ENTRY_POINTS = "fairseq_syntax.parsers"

#: Lines of more tokens than this are not parsed, unless one says otherwise.
MAX_TOKENS = 250
#: A parser that fails on so many lines, and has parsed none, is broken; not the text.
HOPELESS = 10

_OURS = {
    "stanza": "fairseq_syntax.parsers.stanza:StanzaParser",
    "conllu": "fairseq_syntax.parsers.files:ConlluParser",
    "trees": "fairseq_syntax.parsers.files:TreesParser",
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
        if self.dependencies is not None:
            return self.dependencies.tokens
        return [leaf for tree in self.trees or () for leaf in tree.leaves()]

    @property
    def sentences(self) -> int:
        """How many sentences the line has."""
        return self.dependencies.sentences if self.dependencies is not None else len(self.trees or ())


class Parser(ABC):
    """Makes parses of lines of text.

    Attributes:
        sequential: whether lines must come one after another from the first on, none left out.
        pretokenized: whether it takes a line for tokens with spaces between them.
        kinds: the kinds of parse that it makes: ``conllu``, ``trees`` or both.
    """

    sequential: ClassVar[bool] = False
    pretokenized: bool = False
    kinds: Sequence[str]

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
        """One parse for each line, or :class:`~fairseq_syntax.trees.NoParse` with the reason why there is none.

        An exception means that it fails on some line. It is then called with fewer lines until that line is found;
        that of a sequential parser ends the run.
        """

    def check(self, line: Line, parse: Parse) -> None:
        """Raises :class:`ValueError` unless `parse` is a parse of `line`, of all of the parser's kinds."""
        found = {"conllu": parse.dependencies, "trees": parse.trees}
        for kind in self.kinds:
            if found[kind] is None:
                raise ValueError(f"expected a parse of kind {kind}, found none")
        if not same_folded(fold("".join(parse.tokens))[0], fold(line.text)[0]):
            raise ValueError(f"expected the tokens of {line.text!r}, found {parse.tokens}")
        if parse.dependencies is not None:
            parse_conllu(format_conllu(parse.dependencies).split("\n")[:-2], path="the parse", line=1)
            leaves = [leaf for tree in parse.trees or () for leaf in tree.leaves()]
            if parse.trees is not None and leaves != parse.tokens:
                raise ValueError(f"expected the tokens {parse.tokens} in the trees, found {leaves}")

    def finish(self) -> None:
        """Called after the last line, where all lines were parsed."""


def parse_lines(
    parser: Parser, lines: Sequence[Line], *, max_tokens: int, failed: Callable[[Line, Exception], None]
) -> list[Parse | NoParse]:
    """The parses of some lines, checked.

    Where the parser fails, it gets fewer lines at a time, down to the one on which it fails.

    Args:
        max_tokens: lines of more tokens have no parse.
        failed: is told of each line on which the parser fails, and why.
    """
    try:
        parses = parser.parse(lines)
        if len(parses) != len(lines):
            raise ValueError(f"expected {len(lines)} parses, found {len(parses)}")
    except Exception as error:
        if parser.sequential:  # what it says of its file is the user's to know
            raise
        if len(lines) == 1:
            failed(lines[0], error)
            return [NoParse("failed")]
        middle = len(lines) // 2
        halves = lines[:middle], lines[middle:]
        return [p for half in halves for p in parse_lines(parser, half, max_tokens=max_tokens, failed=failed)]
    checked: list[Parse | NoParse] = []
    for line, parse in zip(lines, parses, strict=True):
        if not isinstance(parse, NoParse):
            try:
                parser.check(line, parse)
                if len(parse.tokens) > max_tokens:
                    parse = NoParse("too_long")
            except (ValueError, AttributeError) as error:  # not a parse of the line, or not a parse
                failed(line, error)
                parse = NoParse("failed")
        checked.append(parse)
    return checked


def parser_names() -> list[str]:
    """The parsers that are installed."""
    return sorted(_entries())


def parser_class(name: str) -> type[Parser]:
    """The parser of that name."""
    found: type[Parser] = _entries()[name].load()
    return found


def _entries() -> dict[str, EntryPoint]:
    ours = [EntryPoint(name, value, ENTRY_POINTS) for name, value in _OURS.items()]
    return {entry.name: entry for entry in [*ours, *entry_points(group=ENTRY_POINTS)]}

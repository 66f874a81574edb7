"""Parses that were made elsewhere and lie in a file."""

from __future__ import annotations

import argparse
import os
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, Generic, TypeVar

from syntax_preprocess.alignment import AlignmentError, align, plain_words
from syntax_preprocess.brackets import parse_brackets
from syntax_preprocess.errors import InputError
from syntax_preprocess.folding import fold, marks_in_order
from syntax_preprocess.formats import CONLLU, TREES, ParseFormat
from syntax_preprocess.lines import read_lines
from syntax_preprocess.parsers import Line, Parse, Parser
from syntax_preprocess.ranges import line_unit_ranges
from syntax_preprocess.record import file_hash
from syntax_preprocess.trees import DependencyTree, NoParse, Tree

T = TypeVar("T")


class FileParser(Parser, Generic[T]):
    """Reads a file of parses of a text, and checks that they are that text's.

    The file goes through the text from its first line on. A line of text has one unit of the file, or, if whoever
    made it split lines into sentences, as many as it takes until all of its characters have come. An empty line
    of text may have an empty unit or none; one without a parse is taken for the empty line's if it says so
    (``empty``), or if there are as many units as lines.

    Args:
        path: of the file.
        text: path of the text, for messages.
        name: who made the parses, for the record.
    """

    sequential = True
    default_max_tokens = None  # long lines cost no memory here
    format: ClassVar[ParseFormat[Any, Any]]

    def __init__(self, path: str, text: str, name: str | None = None):
        self.path = path
        self.name = name
        self.text = text
        for needed in (path, text):
            if not os.path.isfile(needed):  # nor can it be a pipe: it is read several times
                raise InputError(needed, None, "expected a file, found none")
        self._paired = self._count() == sum(lines.count for lines in line_unit_ranges(text, 1 << 20))
        self._units = self._read()
        self._next = next(self._units, None)

    @classmethod
    def add_arguments(cls, group: Any) -> None:
        group.add_argument("--parse-file", required=True, metavar="FILE", help="the parses of the text, in its order")
        group.add_argument("--parser-name", metavar="NAME", help="name and version of the parser, for the record")

    @classmethod
    def input_files(cls, args: argparse.Namespace) -> Sequence[str]:
        return [args.parse_file]

    @classmethod
    def from_arguments(cls, args: argparse.Namespace) -> FileParser[T]:
        return cls(args.parse_file, args.input, args.parser_name)

    def describe(self) -> dict[str, Any]:
        name = self.name or self.format.maker(read_lines(self.path)) or f"not stated ({self.kinds[0]} file)"
        return {"name": name, "file": {os.path.basename(self.path): file_hash(self.path)}}

    def parse(self, lines: Sequence[Line]) -> list[Parse | NoParse]:
        return [self._parse(line) for line in lines]

    def finish(self) -> None:
        """Raises :class:`InputError` if the file goes on after the text."""
        if self._next is not None:
            raise InputError(
                self.path, self._next[0], f"expected no parse after the last line of {self.text}, found one"
            )

    def _parse(self, line: Line) -> Parse | NoParse:
        expected, _ = fold(line.text)
        if not expected:
            if self._next and self._is_empty(self._next[1]):
                self._advance()
            return NoParse("empty")
        expected = marks_in_order(expected)
        units: list[T] = []
        tokens: list[str] = []
        found = 0  # characters of what is expected
        while found < len(expected):
            if self._next is None:
                missing = "the rest of it" if units else "it"
                raise InputError(
                    self.path, None, f"expected a parse of {self.text}:{line.number}, found none of {missing}"
                )
            place, unit = self._next
            if isinstance(unit, NoParse):
                if units:
                    raise InputError(
                        self.path, place, f"expected the rest of {self.text}:{line.number}, found no parse"
                    )
                self._advance()
                return unit
            self._advance()
            more = self.format.tokens(unit)
            if not more:  # comments
                continue
            units.append(unit)
            tokens += more
            folded = _folded(more)
            if expected.startswith(folded, found) and found + len(folded) < len(expected):
                found += len(folded)
                continue
            # The end, a difference, or an escape that goes over from one sentence to the next.
            folded = _folded(tokens)
            found = len(folded)
            if found >= len(expected) or not expected.startswith(folded):
                try:
                    align(plain_words(line.text.split()), tokens)
                except AlignmentError as error:
                    raise InputError(self.path, place, f"{self.text}:{line.number}: {error}") from None
        return self._join(units)

    def _advance(self) -> None:
        self._next = next(self._units, None)

    def _is_empty(self, unit: T | NoParse) -> bool:
        if isinstance(unit, NoParse):
            return self._paired or unit.reason == "empty"
        return not fold("".join(self.format.tokens(unit)))[0]

    def _count(self) -> int:
        """How many units the file has."""
        return sum(units.count for units in self.format.ranges(self.path, 1 << 20))

    def _read(self) -> Iterator[tuple[int, T | NoParse]]:
        """The units, each with the number of its first line."""
        return self.format.read(self.path)

    @abstractmethod
    def _join(self, units: list[T]) -> Parse:
        """One parse of the units of a line."""


def _folded(tokens: Sequence[str]) -> str:
    return marks_in_order(fold("".join(tokens))[0])


class ConlluParser(FileParser[DependencyTree]):
    """Parses in CoNLL-U."""

    format = CONLLU
    kinds = (CONLLU.name,)

    def _join(self, units: list[DependencyTree]) -> Parse:
        whole = DependencyTree([], [], sentences=sum(unit.sentences for unit in units))
        multiword = 0
        for unit in units:
            first = len(whole.tokens)
            whole.tokens += unit.tokens
            whole.heads += [head and head + first for head in unit.heads]
            whole.columns += unit.columns
            multiword += unit.multiword
        return Parse(dependencies=whole, multiword=multiword)


class TreesParser(FileParser[list[Tree]]):
    """Bracketed trees, one or several on a line, or one over several lines."""

    format = TREES
    kinds = (TREES.name,)

    def _count(self) -> int:
        return sum(1 for _ in self._lines())

    def _lines(self) -> Iterator[tuple[int, str]]:
        """Lines, joined until all brackets are closed."""
        held: list[str] = []
        first = opened = 0
        for place, line in read_lines(self.path):
            first = first if held else place
            held.append(line)
            opened += line.count("(") - line.count(")")
            if opened <= 0:
                yield first, " ".join(held)
                held, opened = [], 0
        if held:
            yield first, " ".join(held)

    def _read(self) -> Iterator[tuple[int, list[Tree] | NoParse]]:
        for place, line in self._lines():
            yield place, parse_brackets(line, path=self.path, line=place)

    def _join(self, units: list[list[Tree]]) -> Parse:
        return Parse(trees=[tree for unit in units for tree in unit])

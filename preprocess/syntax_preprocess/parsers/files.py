"""Parses that were made elsewhere and lie in a file."""

from __future__ import annotations

import argparse
import os
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, Generic, TypeVar

from syntax_preprocess.alignment import AlignmentError, align, plain_words
from syntax_preprocess.brackets import parse_brackets, still_open
from syntax_preprocess.errors import InputError
from syntax_preprocess.folding import fold, marks_in_order
from syntax_preprocess.formats import CONLLU, TREES, ParseFormat
from syntax_preprocess.lines import read_lines
from syntax_preprocess.parsers import Line, Parse, Parser
from syntax_preprocess.ranges import line_unit_ranges
from syntax_preprocess.record import file_hash
from syntax_preprocess.trees import DependencyTree, NoParse, Tree, trace_hint, without_traces

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
        return cls(args.parse_file, args.input, args.parser_name, **cls._own_options(args))

    @classmethod
    def _own_options(cls, args: argparse.Namespace) -> dict[str, Any]:
        """What a format's parser is made with besides, by name."""
        return {}

    def describe(self) -> dict[str, Any]:
        name = self.name or self.format.maker(read_lines(self.path)) or f"not stated ({self.kinds[0]} file)"
        return {"name": name, "file": {os.path.basename(self.path): file_hash(self.path)}}

    def parse(self, lines: Sequence[Line]) -> list[Parse | NoParse]:
        return [self._parse(line) for line in lines]

    def finish(self) -> None:
        """Raises :class:`InputError` if the file goes on after the text, other than with blank lines and comments."""
        while self._next and not isinstance(self._next[1], NoParse) and self._is_empty(self._next[1]):
            self._advance()
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
        blank = None  # where a unit before them says nothing
        found = 0  # characters of what is expected
        while found < len(expected):
            if self._next is None:
                missing = "the rest of it" if units else "it"
                raise InputError(
                    self.path,
                    None,
                    f"expected a parse of {self.text}:{line.number}, found none of {missing}{self._blank_hint(blank)}",
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
                blank = blank or (place if not units else None)
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
                    hint = f"{self._hint(units)}{self._blank_hint(blank)}"
                    raise InputError(self.path, place, f"{self.text}:{line.number}: {error}{hint}") from None
        return self._join(units)

    def _blank_hint(self, place: int | None) -> str:
        """What to do if a blank unit stands where the parser failed."""
        if place is None:
            return ""
        expected = self.format.write(NoParse("failed")).strip()
        return f"; {self.path}:{place} has no parse: if the parser failed there, write {expected!r}"

    def _hint(self, units: list[T]) -> str:
        """What to do about units that are of another text."""
        return ""

    def _advance(self) -> None:
        self._next = next(self._units, None)

    def _is_empty(self, unit: T | NoParse) -> bool:
        if isinstance(unit, NoParse):
            return self._paired or unit.reason == "empty"
        return not fold("".join(self.format.tokens(unit)))[0]

    def _count(self) -> int:
        """How many units the file has, without blank ones at its end for which the text has no line."""
        lines = sum(lines.count for lines in line_unit_ranges(self.text, 1 << 20))
        count = needed = 0
        for count, (_, unit) in enumerate(self._unread(), start=1):
            if not self.format.blank(unit):
                needed = count
        return min(count, max(needed, lines))

    def _unread(self) -> Iterator[tuple[int, Any]]:
        """The units as they are in the file, each with the number of its first line."""
        return self.format.units(read_lines(self.path))

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

    def __init__(self, *args: Any, drop_traces: bool = False, **options: Any):
        self._drops_traces = drop_traces
        self._dropped = 0
        super().__init__(*args, **options)

    @classmethod
    def add_arguments(cls, group: Any) -> None:
        super().add_arguments(group)
        group.add_argument(
            "--drop-traces",
            action="store_true",
            help="leave out the Penn Treebank's traces (-NONE-) and the constituents that are empty without them; how "
            "many they are is printed",
        )

    @classmethod
    def _own_options(cls, args: argparse.Namespace) -> dict[str, Any]:
        return {"drop_traces": args.drop_traces}

    def _unread(self) -> Iterator[tuple[int, str]]:
        """Lines, joined until all brackets are closed.

        Where a backslash stands before brackets, they may be closed with these alone. The tree then ends before a line
        that is not indented.
        """
        held: list[str] = []
        first = opened = without_escaped = 0
        for place, line in read_lines(self.path):
            if held and opened <= 0 and not (line.strip() and line[0].isspace()):
                yield first, " ".join(held)
                held, opened, without_escaped = [], 0, 0
            first = first if held else place
            held.append(line)
            more, more_without_escaped = still_open(line)
            opened += more
            without_escaped += more_without_escaped
            if without_escaped <= 0:
                yield first, " ".join(held)
                held, opened, without_escaped = [], 0, 0
        if held:
            yield first, " ".join(held)

    def _read(self) -> Iterator[tuple[int, list[Tree] | NoParse]]:
        for place, line in self._unread():
            yield place, self._with_or_without_traces(parse_brackets(line, path=self.path, line=place))

    def _with_or_without_traces(self, trees: list[Tree] | NoParse) -> list[Tree] | NoParse:
        if isinstance(trees, NoParse) or not self._drops_traces:
            return trees
        trees, dropped = without_traces(trees)
        self._dropped += dropped
        return trees

    def describe(self) -> dict[str, Any]:
        return {**super().describe(), **({"drop_traces": True} if self._drops_traces else {})}

    def finish(self) -> None:
        super().finish()
        if self._drops_traces:
            print(f"{self.path}: {self._dropped} traces were dropped")

    def _hint(self, units: list[list[Tree]]) -> str:
        return trace_hint([tree for unit in units for tree in unit])

    def _join(self, units: list[list[Tree]]) -> Parse:
        return Parse(trees=[tree for unit in units for tree in unit])

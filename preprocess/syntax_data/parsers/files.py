"""Parses that were made elsewhere and lie in a file."""

from __future__ import annotations

import argparse
import os
import sys
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Generic, TypeVar

from tqdm import tqdm

from syntax_data.errors import BadParse, InputError
from syntax_data.parsers import Line, Parse, Parser
from syntax_data.parsers.record import file_hash
from syntax_data.text.alignment import AlignmentError, align, plain_words
from syntax_data.text.folding import fold, marks_in_order
from syntax_data.text.lines import read_lines
from syntax_data.text.ranges import line_ranges
from syntax_data.trees import bad_parses
from syntax_data.trees.bad_parses import BadParses
from syntax_data.trees.brackets import still_open
from syntax_data.trees.formats import CONLLU, TREES, ParseFormat
from syntax_data.trees.tree import DependencyTree, NoParse, Tree, trace_hint, without_traces

T = TypeVar("T")


@dataclass(frozen=True)
class _Broken:
    """A unit that cannot be read: why, and its words as far as they can be."""

    error: BadParse
    words: list[str]


class FileParser(Parser, Generic[T]):
    """Reads a file of parses of a text, and checks that they are that text's.

    The file goes through the text from its first line on. A line of text has one unit of the file, or, if lines were
    split into sentences, as many as it takes until all of its characters have come. An empty line of text may have an
    empty unit or none; one without a parse is taken for the empty line's if it says so (``empty``), or if there are as
    many units as lines.

    A bad parse is skipped where the units of the lines after it are known: if there are as many units with words as
    lines with words, or as many units as lines, each line has its own by their order; else a broken unit's words must
    be the next words of the text.

    Args:
        path: of the file.
        text: path of the text, for messages.
        name: who made the parses, for the record.
        bad: what becomes of bad parses.
    """

    sequential = True
    default_max_tokens = None  # long lines cost no memory here
    format: ClassVar[ParseFormat[Any, Any]]

    def __init__(self, path: str, text: str, name: str | None = None, *, bad: BadParses):
        self.path = path
        self.name = name
        self.text = text
        for needed in (path, text):
            if not os.path.isfile(needed):  # nor can it be a pipe: it is read several times
                raise InputError(needed, None, "expected a file, found none")
        self._bad = bad
        self._lines = sum(lines.count for lines in line_ranges(text, 1 << 20))
        self._paired = self._count() == self._lines
        self._units = self._parsed()
        self._next = next(self._units, None)

    @classmethod
    def add_arguments(cls, group: Any) -> None:
        group.add_argument("--parse-file", required=True, metavar="FILE", help="the parses of the text, in its order")
        group.add_argument("--parser-name", metavar="NAME", help="name and version of the parser, for the record")
        bad_parses.add_option(group)

    @classmethod
    def input_files(cls, args: argparse.Namespace) -> Sequence[str]:
        return [args.parse_file]

    @classmethod
    def from_arguments(cls, args: argparse.Namespace) -> FileParser[T]:
        bad = BadParses(args.on_bad_parse, lambda error: tqdm.write(f"skipped ({error.reason}): {error}", sys.stderr))
        return cls(args.parse_file, args.input, args.parser_name, bad=bad, **cls._own_options(args))

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
        in_order = self._bad.skips and self._order == "words"
        while self._next and not (self._has_words(self._next[1]) if in_order else self._says_something(self._next[1])):
            self._advance()
        if self._next is not None:
            raise InputError(
                self.path, self._next[0], f"expected no parse after the last line of {self.text}, found one"
            )

    def _parse(self, line: Line) -> Parse | NoParse:
        if self._bad.skips and self._order is not None:
            return self._parse_in_order(line)
        expected, _ = fold(line.text)
        try:
            if expected:
                return self._parse_words(line, marks_in_order(expected))
            if self._next and self._is_empty(unit := self._next[1]):
                self._advance()
                if isinstance(unit, _Broken):
                    raise unit.error
            return NoParse("empty")
        except BadParse as error:
            if self._bad.skips:
                why = f"the file has not one for each line of {self.text}"
                message = f"{error.message}; it is not known which parses are those of the lines after it, since {why}"
                raise InputError(error.path, error.line, message) from None
            return self._bad.no_parse(error)

    def _parse_in_order(self, line: Line) -> Parse | NoParse:
        """The parse of a line that has a unit of its own."""
        has_words = bool(fold(line.text)[0])
        if self._order == "words":
            if not has_words:
                return NoParse("empty")
            while self._next and not self._has_words(self._next[1]):
                self._advance()
        assert self._next is not None  # as they were counted
        place, unit = self._next
        self._advance()
        try:
            if isinstance(unit, _Broken):
                raise unit.error
            if not has_words and (isinstance(unit, NoParse) or self._is_empty(unit)):
                return NoParse("empty")
            if isinstance(unit, NoParse):
                return self._no_parse(unit, line, place)
            self._compare(line, self.format.tokens(unit), place, [unit], None)
        except BadParse as error:
            return self._bad.no_parse(error)
        return self._join([unit])

    def _parse_words(self, line: Line, expected: str) -> Parse | NoParse:
        """The parse of a line, which is folded to `expected`. Raises :class:`BadParse` if it is none."""
        units: list[T] = []
        tokens: list[str] = []
        blank = None  # where a unit before them says nothing
        broken: BadParse | None = None
        found = 0  # characters of what is expected
        while found < len(expected):
            if self._next is None:
                missing = "the rest of it" if tokens else "it"
                message = f"expected a parse of {self.text}:{line.number}, found none of {missing}"
                message += self._blank_hint(blank)
                raise BadParse(self.path, None, message, "mismatch") if tokens else InputError(self.path, None, message)
            place, unit = self._next
            if tokens and isinstance(unit, NoParse):
                message = f"expected the rest of {self.text}:{line.number}, found no parse"
                raise BadParse(self.path, place, message, "mismatch")
            self._advance()
            if isinstance(unit, NoParse):
                return self._no_parse(unit, line, place)
            if isinstance(unit, _Broken):
                broken = broken or unit.error
                if not (self._bad.skips and unit.words):
                    raise broken
                more = unit.words
            else:
                more = self.format.tokens(unit)
                if not more:  # comments
                    blank = blank or (None if tokens else place)
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
                    self._compare(line, tokens, place, units, blank)
                except BadParse as error:
                    raise broken or error from None
        return self._bad.no_parse(broken) if broken else self._join(units)

    def _no_parse(self, unit: NoParse, line: Line, place: int) -> NoParse:
        """What a line with words has of a unit that has none. Raises :class:`BadParse` if the unit says it is empty."""
        if unit.reason == "empty":
            message = f"expected a parse of {self.text}:{line.number}, found that of an empty line"
            raise BadParse(self.path, place, message, "mismatch")
        return unit

    def _compare(self, line: Line, tokens: list[str], place: int, units: list[T], blank: int | None) -> None:
        """Raises :class:`BadParse` unless these tokens, of these units, are the line's text."""
        try:
            align(plain_words(line.text.split()), tokens)
        except AlignmentError as error:
            message = f"{self.text}:{line.number}: {error}{self._hint(units)}{self._blank_hint(blank)}"
            raise BadParse(self.path, place, message, "mismatch") from None

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

    @cached_property
    def _order(self) -> str | None:
        """How units and lines belong together by their order alone: those with ``words``, all ``lines``, or not."""
        if sum(self._has_words(unit) for _, unit in self._parsed()) == self._lines_with_words:
            return "words"
        return "lines" if self._paired else None

    @cached_property
    def _lines_with_words(self) -> int:
        return sum(bool(fold(text)[0]) for _, text in read_lines(self.text))

    def _has_words(self, unit: T | NoParse | _Broken) -> bool:
        """Whether a unit can be that of a line with words alone."""
        if isinstance(unit, NoParse):
            return unit.reason != "empty"
        return isinstance(unit, _Broken) or bool(self.format.tokens(unit))

    def _says_something(self, unit: T | NoParse | _Broken) -> bool:
        return isinstance(unit, NoParse) or not self._is_empty(unit)

    def _is_empty(self, unit: T | NoParse | _Broken) -> bool:
        if isinstance(unit, _Broken):
            return self._paired and not unit.words
        if isinstance(unit, NoParse):
            return self._paired or unit.reason == "empty"
        return not fold("".join(self.format.tokens(unit)))[0]

    def _count(self) -> int:
        """How many units the file has, without blank ones at its end for which the text has no line."""
        count = needed = 0
        for count, (_, unit) in enumerate(self._unread(), start=1):
            if not self.format.blank(unit):
                needed = count
        return min(count, max(needed, self._lines))

    def _unread(self) -> Iterator[tuple[int, Any]]:
        """The units as they are in the file, each with the number of its first line."""
        return self.format.entries(read_lines(self.path))

    def _parsed(self) -> Iterator[tuple[int, T | NoParse | _Broken]]:
        """The units, read, each with the number of its first line."""
        for place, unit in self._unread():
            try:
                yield place, self.format.parse(unit, path=self.path, line=place)
            except BadParse as error:
                yield place, _Broken(error, self.format.words(unit))

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

    def _count(self) -> int:
        # Where does a tree end? Of a file with an unbalanced one, perhaps where the next one begins.
        joined, apart = (self._balanced(apart) for apart in (False, True))
        if joined == apart:
            self._apart = False
        elif False in joined:
            self._apart = self._one_a_line(apart) or apart.count(True) > joined.count(True)
        else:
            self._apart = self._one_a_line(apart) and not self._one_a_line(joined)
        return len(apart if self._apart else joined)

    def _balanced(self, apart: bool) -> list[bool | None]:
        """Of each tree whether its brackets are; without blank ones at the end for which the text has no line."""
        found = [_is_balanced(unit) for unit in self._trees(apart)]
        while len(found) > self._lines and found[-1] is None:
            found.pop()
        return found

    def _one_a_line(self, units: list[bool | None]) -> bool:
        return len(units) == self._lines or len(units) - units.count(None) == self._lines_with_words

    def _trees(self, apart: bool) -> Iterator[tuple[int, str]]:
        """Lines, joined until all brackets are closed.

        Where a backslash stands before brackets, they may be closed with these alone. The tree then ends before a line
        that is not indented.

        Args:
            apart: also before an empty line, and before one that begins with a bracket where the first tree does.
        """
        held: list[str] = []
        first = opened = without_escaped = 0
        margin: int | None = None
        for place, line in read_lines(self.path):
            inside = line.lstrip()
            indent = len(line) - len(inside)
            if inside and margin is None:
                margin = indent
            closed = opened <= 0 and not (inside and indent)
            if held and (closed or (apart and (not inside or (inside[0] == "(" and indent == margin)))):
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

    def _unread(self) -> Iterator[tuple[int, str]]:
        return self._trees(self._apart)

    def _parsed(self) -> Iterator[tuple[int, list[Tree] | NoParse | _Broken]]:
        for place, trees in super()._parsed():
            if self._drops_traces and not isinstance(trees, NoParse | _Broken):
                trees, _ = without_traces(trees)
            yield place, trees

    def describe(self) -> dict[str, Any]:
        return {**super().describe(), **({"drop_traces": True} if self._drops_traces else {})}

    def finish(self) -> None:
        super().finish()
        if self._drops_traces:
            read = (trees for _, trees in super()._parsed() if not isinstance(trees, NoParse | _Broken))
            print(f"{self.path}: {sum(without_traces(trees)[1] for trees in read)} traces were dropped")

    def _hint(self, units: list[list[Tree]]) -> str:
        return trace_hint([tree for unit in units for tree in unit])

    def _join(self, units: list[list[Tree]]) -> Parse:
        return Parse(trees=[tree for unit in units for tree in unit])


def _is_balanced(unit: tuple[int, str]) -> bool | None:
    """Whether a tree's brackets are; ``None`` without a tree."""
    _, text = unit
    return 0 in still_open(text) if text.strip() else None

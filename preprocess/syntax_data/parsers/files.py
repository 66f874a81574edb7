"""Parses from a file that another parser made."""

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
from syntax_data.parsers.parser import Line, Parse, Parser
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
    """An entry that cannot be read: the error, and its words as far as they can be read."""

    error: BadParse
    words: list[str]


class FileParser(Parser, Generic[T]):
    """A parser that reads the parses of a text from a file, and checks them.

    A line of text has one entry of the file, or, if lines were split into sentences, as many as its characters need. An
    empty line may have an empty entry or none; an entry without a parse belongs to it if its reason is ``empty``, or if
    there are as many entries as lines.

    A bad parse can be skipped where the entries of the later lines are known: if there are as many entries with words
    as lines with words, or as many entries as lines, they belong together in their order; else the words of the broken
    entry must be the next words of the text.

    Args:
        path: of the file.
        text: path of the text.
        name: of the parser, for the record.
        bad: what to do with bad parses.
    """

    sequential = True
    default_max_tokens = None  # long lines cost no memory here
    format: ClassVar[ParseFormat]

    def __init__(self, path: str, text: str, name: str | None = None, *, bad: BadParses):
        self.path = path
        self.name = name
        self.text = text
        for needed in (path, text):
            if not os.path.isfile(needed):  # a pipe cannot be read several times
                raise InputError(needed, None, "expected a file, found none")
        self._bad = bad
        self._lines = sum(lines.count for lines in line_ranges(text, 1 << 20))
        self._paired = self._count() == self._lines
        self._entries = self._parsed()
        self._next = next(self._entries, None)

    @classmethod
    def add_arguments(cls, group: Any) -> None:
        group.add_argument("--parse-file", required=True, metavar="FILE", help="parses of the text, in its order")
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
        """Return further arguments of a format's parser, by name."""
        return {}

    def describe(self) -> dict[str, Any]:
        name = self.name or self.format.maker(read_lines(self.path)) or f"not stated ({self.kinds[0]} file)"
        return {"name": name, "file": {os.path.basename(self.path): file_hash(self.path)}}

    def parse(self, lines: Sequence[Line]) -> list[Parse | NoParse]:
        return [self._parse(line) for line in lines]

    def finish(self) -> None:
        """Raise :class:`InputError` if there are more parses after those of the text."""
        in_order = self._bad.skips and self._order == "words"
        while self._next and not (self._has_words(self._next[1]) if in_order else self._has_content(self._next[1])):
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
            if self._next and self._is_empty(entry := self._next[1]):
                self._advance()
                if isinstance(entry, _Broken):
                    raise entry.error
            return NoParse("empty")
        except BadParse as error:
            if self._bad.skips:
                why = f"the file has not one for each line of {self.text}"
                message = f"{error.message}; it is not known which parses are those of the lines after it, since {why}"
                raise InputError(error.path, error.line, message) from None
            return self._bad.no_parse(error)

    def _parse_in_order(self, line: Line) -> Parse | NoParse:
        """Return the parse of a line that has an entry of its own."""
        has_words = bool(fold(line.text)[0])
        if self._order == "words":
            if not has_words:
                return NoParse("empty")
            while self._next and not self._has_words(self._next[1]):
                self._advance()
        assert self._next is not None  # as they were counted
        number, entry = self._next
        self._advance()
        try:
            if isinstance(entry, _Broken):
                raise entry.error
            if not has_words and (isinstance(entry, NoParse) or self._is_empty(entry)):
                return NoParse("empty")
            if isinstance(entry, NoParse):
                return self._no_parse(entry, line, number)
            self._compare(line, self.format.tokens(entry), number, [entry], None)
        except BadParse as error:
            return self._bad.no_parse(error)
        return self._join([entry])

    def _parse_words(self, line: Line, expected: str) -> Parse | NoParse:
        """Return the parse of a line, whose folded characters are `expected`."""
        entries: list[T] = []
        tokens: list[str] = []
        blank = None  # line of a blank entry before them
        broken: BadParse | None = None
        found = 0  # number of expected characters
        while found < len(expected):
            if self._next is None:
                missing = "the rest of it" if tokens else "it"
                message = f"expected a parse of {self.text}:{line.number}, found none of {missing}"
                message += self._blank_hint(blank)
                raise BadParse(self.path, None, message, "mismatch") if tokens else InputError(self.path, None, message)
            number, entry = self._next
            if tokens and isinstance(entry, NoParse):
                message = f"expected the rest of {self.text}:{line.number}, found no parse"
                raise BadParse(self.path, number, message, "mismatch")
            self._advance()
            if isinstance(entry, NoParse):
                return self._no_parse(entry, line, number)
            if isinstance(entry, _Broken):
                broken = broken or entry.error
                if not (self._bad.skips and entry.words):
                    raise broken
                more = entry.words
            else:
                more = self.format.tokens(entry)
                if not more:  # comments
                    blank = blank or (None if tokens else number)
                    continue
                entries.append(entry)
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
                    self._compare(line, tokens, number, entries, blank)
                except BadParse as error:
                    raise broken or error from None
        return self._bad.no_parse(broken) if broken else self._join(entries)

    def _no_parse(self, entry: NoParse, line: Line, number: int) -> NoParse:
        """Return the lack of a parse. Raises :class:`BadParse` for that of an empty line."""
        if entry.reason == "empty":
            message = f"expected a parse of {self.text}:{line.number}, found that of an empty line"
            raise BadParse(self.path, number, message, "mismatch")
        return entry

    def _compare(self, line: Line, tokens: list[str], number: int, entries: list[T], blank: int | None) -> None:
        """Raise :class:`BadParse` unless the tokens are those of the line."""
        try:
            align(plain_words(line.text.split()), tokens)
        except AlignmentError as error:
            message = f"{self.text}:{line.number}: {error}{self._hint(entries)}{self._blank_hint(blank)}"
            raise BadParse(self.path, number, message, "mismatch") from None

    def _blank_hint(self, number: int | None) -> str:
        """Return a hint for a blank entry where the parser perhaps failed."""
        if number is None:
            return ""
        expected = self.format.write(NoParse("failed")).strip()
        return f"; {self.path}:{number} has no parse: if the parser failed there, write {expected!r}"

    def _hint(self, entries: list[T]) -> str:
        """Return a hint for entries of another text."""
        return ""

    def _advance(self) -> None:
        self._next = next(self._entries, None)

    @cached_property
    def _order(self) -> str | None:
        """What corresponds by order: entries with ``words``, all ``lines``, or ``None``."""
        if sum(self._has_words(entry) for _, entry in self._parsed()) == self._lines_with_words:
            return "words"
        return "lines" if self._paired else None

    @cached_property
    def _lines_with_words(self) -> int:
        return sum(bool(fold(text)[0]) for _, text in read_lines(self.text))

    def _has_words(self, entry: T | NoParse | _Broken) -> bool:
        """Return whether an entry can only belong to a line with words."""
        if isinstance(entry, NoParse):
            return entry.reason != "empty"
        return isinstance(entry, _Broken) or bool(self.format.tokens(entry))

    def _has_content(self, entry: T | NoParse | _Broken) -> bool:
        return isinstance(entry, NoParse) or not self._is_empty(entry)

    def _is_empty(self, entry: T | NoParse | _Broken) -> bool:
        if isinstance(entry, _Broken):
            return self._paired and not entry.words
        if isinstance(entry, NoParse):
            return self._paired or entry.reason == "empty"
        return not fold("".join(self.format.tokens(entry)))[0]

    def _count(self) -> int:
        """Return the number of entries, without blank ones after the last line."""
        count = needed = 0
        for count, (_, entry) in enumerate(self._raw_entries(), start=1):
            if not self.format.blank(entry):
                needed = count
        return min(count, max(needed, self._lines))

    def _raw_entries(self) -> Iterator[tuple[int, Any]]:
        """Yield the entries as they are in the file, each with the number of its first line."""
        return self.format.entries(read_lines(self.path))

    def _parsed(self) -> Iterator[tuple[int, T | NoParse | _Broken]]:
        """Yield the parses of the entries, each with the number of its first line."""
        for number, entry in self._raw_entries():
            try:
                yield number, self.format.parse(entry, path=self.path, line=number)
            except BadParse as error:
                yield number, _Broken(error, self.format.words(entry))

    @abstractmethod
    def _join(self, entries: list[T]) -> Parse:
        """Return one parse from the entries of a line."""


def _folded(tokens: Sequence[str]) -> str:
    return marks_in_order(fold("".join(tokens))[0])


class ConlluParser(FileParser[DependencyTree]):
    """Parses in CoNLL-U."""

    format = CONLLU
    kinds = (CONLLU.name,)

    def _join(self, entries: list[DependencyTree]) -> Parse:
        whole = DependencyTree([], [], sentences=sum(entry.sentences for entry in entries))
        multiword = 0
        for entry in entries:
            first = len(whole.tokens)
            whole.tokens += entry.tokens
            whole.heads += [head and head + first for head in entry.heads]
            whole.columns += entry.columns
            multiword += entry.multiword
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
            help="leave out the Penn Treebank's traces (-NONE-) and the constituents that are empty without them, "
            "and print their number",
        )

    @classmethod
    def _own_options(cls, args: argparse.Namespace) -> dict[str, Any]:
        return {"drop_traces": args.drop_traces}

    def _count(self) -> int:
        # A tree ends where its brackets are closed, or, in a file with an unbalanced one, where the next one begins.
        joined, apart = (self._balanced(apart) for apart in (False, True))
        if joined == apart:
            self._apart = False
        elif False in joined:
            self._apart = self._one_a_line(apart) or apart.count(True) > joined.count(True)
        else:
            self._apart = self._one_a_line(apart) and not self._one_a_line(joined)
        return len(apart if self._apart else joined)

    def _balanced(self, apart: bool) -> list[bool | None]:
        """Return :func:`_is_balanced` of each tree, without blank ones after the last line."""
        found = [_is_balanced(entry) for entry in self._trees(apart)]
        while len(found) > self._lines and found[-1] is None:
            found.pop()
        return found

    def _one_a_line(self, entries: list[bool | None]) -> bool:
        return len(entries) == self._lines or len(entries) - entries.count(None) == self._lines_with_words

    def _trees(self, apart: bool) -> Iterator[tuple[int, str]]:
        """Yield lines, joined until all brackets are closed.

        Brackets after a backslash count only if nothing else closes a tree, which then ends before a line that is not
        indented.

        Args:
            apart: a tree also ends before an empty line, and before a line that begins as the first tree does.
        """
        held: list[str] = []
        first = opened = without_escaped = 0
        margin: int | None = None
        for number, line in read_lines(self.path):
            inside = line.lstrip()
            indent = len(line) - len(inside)
            if inside and margin is None:
                margin = indent
            closed = opened <= 0 and not (inside and indent)
            if held and (closed or (apart and (not inside or (inside[0] == "(" and indent == margin)))):
                yield first, " ".join(held)
                held, opened, without_escaped = [], 0, 0
            first = first if held else number
            held.append(line)
            more, more_without_escaped = still_open(line)
            opened += more
            without_escaped += more_without_escaped
            if without_escaped <= 0:
                yield first, " ".join(held)
                held, opened, without_escaped = [], 0, 0
        if held:
            yield first, " ".join(held)

    def _raw_entries(self) -> Iterator[tuple[int, str]]:
        return self._trees(self._apart)

    def _parsed(self) -> Iterator[tuple[int, list[Tree] | NoParse | _Broken]]:
        for number, trees in super()._parsed():
            if self._drops_traces and not isinstance(trees, NoParse | _Broken):
                trees, _ = without_traces(trees)
            yield number, trees

    def describe(self) -> dict[str, Any]:
        return {**super().describe(), **({"drop_traces": True} if self._drops_traces else {})}

    def finish(self) -> None:
        super().finish()
        if self._drops_traces:
            read = (trees for _, trees in super()._parsed() if not isinstance(trees, NoParse | _Broken))
            print(f"{self.path}: {sum(without_traces(trees)[1] for trees in read)} traces were dropped")

    def _hint(self, entries: list[list[Tree]]) -> str:
        return trace_hint([tree for entry in entries for tree in entry])

    def _join(self, entries: list[list[Tree]]) -> Parse:
        return Parse(trees=[tree for entry in entries for tree in entry])


def _is_balanced(entry: tuple[int, str]) -> bool | None:
    """Return whether a tree's brackets are balanced; ``None`` without a tree."""
    _, text = entry
    return 0 in still_open(text) if text.strip() else None

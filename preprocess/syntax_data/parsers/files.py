"""Parses from a file that another parser made."""

from __future__ import annotations

import argparse
import os
import sys
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from tqdm import tqdm

from syntax_data.errors import BadParse, InputError
from syntax_data.parsers.parser import Line, Parse, Parser
from syntax_data.parsers.record import file_hash
from syntax_data.text.alignment import AlignmentError, align, plain_words
from syntax_data.text.folding import fold, marks_in_order
from syntax_data.text.lines import read_lines
from syntax_data.trees import bad_parses
from syntax_data.trees.bad_parses import BadParses
from syntax_data.trees.brackets import still_open
from syntax_data.trees.formats import CONLL09, CONLL09_PREDICTED, CONLLU, CONLLUP, FORMATS, TREES, EntryFormat
from syntax_data.trees.tree import DependencyTree, NoParse, Tree, without_traces


@dataclass(frozen=True)
class _Broken:
    """An entry that cannot be read: the error, and its words as far as they can be read."""

    error: BadParse
    words: list[str]


class FileParser(Parser):
    """A parser that reads the parses of text from a file, and checks them.

    A line takes entries until they have its characters: one, or several of sentences. Blank entries are passed over,
    unless the file has an entry for each line: then they, and those without a parse, may be those of empty lines.
    An entry with multi-word tokens is over words where the line goes on with these, and not with the tokens.

    Where there is one entry for each line, or one that is not blank for each line with words, a bad parse that is
    skipped costs its line alone. Elsewhere this is so if its words, as far as they can be read, are those of the line.

    `name` is the parser's, for the record; `bad` says what to do with bad parses.
    """

    sequential = True
    default_max_tokens = None  # long lines cost no memory here
    format: EntryFormat

    def __init__(self, path: str, text: str, name: str | None = None, *, bad: BadParses):
        self.path = path
        self.name = name
        self.text = text
        for needed in (path, text):
            if not os.path.isfile(needed):  # a pipe cannot be read several times
                raise InputError(needed, None, "expected a file, found none")
        self._bad = bad
        lines = [any(fold(word)[0] for word in line.split()) for _, line in read_lines(text)]
        entries = [not self.format.blank(entry) for _, entry in self._entries()]
        one_for_words = sum(entries) == sum(lines)
        #: Whether blank entries count.
        self._paired = not one_for_words and len(entries) >= len(lines) and not any(entries[len(lines) :])
        self._one_a_line = bad.skips and (one_for_words or self._paired)
        self._parses = self._parsed()
        self._advance()

    @classmethod
    def add_arguments(cls, group: Any) -> None:
        group.add_argument("--parse-file", required=True, metavar="FILE", help="parses of the text, in its order")
        group.add_argument("--parser-name", metavar="NAME", help="name and version of the parser, for the record")
        bad_parses.add_option(group)

    @classmethod
    def input_files(cls, args: argparse.Namespace) -> Sequence[str]:
        return [args.parse_file]

    @classmethod
    def from_arguments(cls, args: argparse.Namespace, **options: Any) -> FileParser:
        bad = BadParses(args.on_bad_parse, lambda error: tqdm.write(f"skipped ({error.reason}): {error}", sys.stderr))
        return cls(args.parse_file, args.input, args.parser_name, bad=bad, **options)

    def describe(self) -> dict[str, Any]:
        name = self.name or self.format.maker(read_lines(self.path)) or f"not stated ({self.format.name} file)"
        return {"name": name, "file": {os.path.basename(self.path): file_hash(self.path)}}

    def parse(self, lines: Sequence[Line]) -> list[Parse | NoParse]:
        return [self._parse(line) for line in lines]

    def finish(self) -> None:
        """Raise :class:`InputError` if there are more parses after those of the text."""
        self._paired = False
        while self._next and self._is_blank(self._next[1]):
            self._advance()
        if self._next is not None:
            message = f"expected no parse after the last line of {self.text}, found one"
            raise InputError(self.path, self._next[0], message)

    def _parse(self, line: Line) -> Parse | NoParse:
        expected = marks_in_order(fold(line.text)[0])
        if not expected and not self._is_of_empty_line():
            return NoParse("empty")
        try:
            parse = self._join_entries(line, expected)
        except BadParse as error:
            if self._bad.skips and not self._one_a_line:
                why = f"the file has not one for each line of {self.text}"
                message = f"{error.message}; it is not known which parses are those of the lines after it, since {why}"
                raise InputError(error.path, error.line, message) from None
            return self._bad.no_parse(error)
        return parse if expected else NoParse("empty")

    def _is_of_empty_line(self) -> bool:
        """Return whether the next entry is that of a line without words."""
        if self._next is None or (self._one_a_line and self._paired):
            return self._next is not None
        _, entry = self._next
        if isinstance(entry, NoParse):
            return self._paired or entry.reason == "empty"
        return not isinstance(entry, _Broken) and not _folded(self.format.tokens(entry))

    def _join_entries(self, line: Line, expected: str) -> Parse | NoParse:
        """Return the parse of a line, whose folded characters are `expected`, from its entries."""
        entries: list[Any] = []
        tokens: list[str] = []
        broken: BadParse | None = None
        found = 0  # number of expected characters
        while True:
            wanted = f"expected {'the rest' if tokens else 'a parse'} of {self.text}:{line.number}"
            if self._next is None:
                message = f"{wanted}, found the end of the file"
                raise BadParse(self.path, None, message, "mismatch") if tokens else InputError(self.path, None, message)
            number, entry = self._next
            self._advance()
            if isinstance(entry, NoParse):
                if tokens or (expected and entry.reason == "empty"):
                    what = "no parse" if tokens else "that of an empty line"
                    raise BadParse(self.path, number, f"{wanted}, found {what}", "mismatch")
                return entry
            if isinstance(entry, _Broken):
                broken = broken or entry.error
                if self._one_a_line or not (self._bad.skips and entry.words):
                    raise broken
                more = entry.words
            else:
                entry = self._as_in_text(entry, expected, found)
                entries.append(entry)
                more = self.format.tokens(entry)
                if expected and self._is_blank(entry):
                    failed = FORMATS[self.kinds[0]].write(NoParse("failed")).strip()
                    message = f"{wanted}, found a blank entry: where the parser failed, write {failed!r}"
                    raise BadParse(self.path, number, message, "mismatch")
            tokens += more
            folded = _folded(more)
            if not self._one_a_line and expected.startswith(folded, found) and found + len(folded) < len(expected):
                found += len(folded)
                continue
            # The end, a difference, or an escape that goes over from one sentence to the next.
            folded = _folded(tokens)
            found = len(folded)
            if not self._one_a_line and found < len(expected) and expected.startswith(folded):
                continue
            try:
                align(plain_words(line.text.split()), tokens)
            except AlignmentError as error:
                hint = self.format.hint(entries[-1]) if entries else ""
                message = f"{self.text}:{line.number}: {error}{hint}"
                raise broken or BadParse(self.path, number, message, "mismatch") from None
            return self._bad.no_parse(broken) if broken else self._join(entries)

    def _as_in_text(self, entry: Any, expected: str, found: int) -> Any:
        """Return an entry over words instead of tokens if the line goes on with these, and not with the tokens."""
        over_words = self.format.over_words(entry)
        if over_words is None or expected.startswith(_folded(self.format.tokens(entry)), found):
            return entry
        return over_words if expected.startswith(_folded(self.format.tokens(over_words)), found) else entry

    def _advance(self) -> None:
        self._next = next(self._parses, None)
        while self._next and not self._paired and self._is_blank(self._next[1]):
            self._next = next(self._parses, None)

    def _is_blank(self, entry: Any) -> bool:
        return not isinstance(entry, NoParse | _Broken) and not self.format.tokens(entry)

    def _entries(self) -> Iterator[tuple[int, Any]]:
        """Yield the entries as they are in the file, each with the number of its first line."""
        return self.format.entries(read_lines(self.path))

    def _parsed(self) -> Iterator[tuple[int, Any]]:
        """Yield the parses of the entries, each with the number of its first line."""
        for number, entry in self._entries():
            try:
                yield number, self.format.parse(entry, path=self.path, line=number)
            except BadParse as error:
                yield number, _Broken(error, self.format.words(entry))

    @abstractmethod
    def _join(self, entries: list[Any]) -> Parse:
        """Return one parse from the entries of a line."""


def _folded(tokens: Sequence[str]) -> str:
    return marks_in_order(fold("".join(tokens))[0])


class ConlluParser(FileParser):
    """Parses in CoNLL-U."""

    format = CONLLU
    kinds = (CONLLU.name,)

    def _join(self, entries: list[DependencyTree]) -> Parse:
        multiword = sum(entry.multiword for entry in entries)
        return Parse(dependencies=DependencyTree.join(entries), multiword=multiword)


class Conll09Parser(ConlluParser):
    """Parses in CoNLL-09, by its gold or its predicted columns; those of semantic roles are not read."""

    format = CONLL09

    def __init__(self, *args: Any, predicted: bool = False, **options: Any):
        self._predicted = predicted
        if predicted:
            self.format = CONLL09_PREDICTED
        super().__init__(*args, **options)

    @classmethod
    def add_arguments(cls, group: Any) -> None:
        super().add_arguments(group)
        group.add_argument(
            "--predicted", action="store_true", help="read PLEMMA, PPOS, PFEAT, PHEAD and PDEPREL (default: gold ones)"
        )

    @classmethod
    def from_arguments(cls, args: argparse.Namespace, **options: Any) -> FileParser:
        return super().from_arguments(args, predicted=args.predicted)

    def describe(self) -> dict[str, Any]:
        return {**super().describe(), **({"predicted": True} if self._predicted else {})}


class ConllupParser(ConlluParser):
    """Parses in CoNLL-U Plus, whose first line names the columns."""

    format = CONLLUP


class TreesParser(FileParser):
    """Bracketed trees, one or several on a line, or one over several lines.

    A tree ends where its brackets are closed, before an empty line, and before a line with a bracket that is indented
    no more than the file's first tree.
    """

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
            help="leave out the Penn Treebank's traces (-NONE-) and the constituents that are empty without them, "
            "and print their number",
        )

    @classmethod
    def from_arguments(cls, args: argparse.Namespace, **options: Any) -> FileParser:
        return super().from_arguments(args, drop_traces=args.drop_traces)

    def _entries(self) -> Iterator[tuple[int, str]]:
        held: list[str] = []
        first = opened = 0
        margin: int | None = None
        for number, line in read_lines(self.path):
            inside = line.lstrip()
            indent = len(line) - len(inside)
            if inside and margin is None:
                margin = indent
            begins = not inside or (inside[0] == "(" and margin is not None and indent <= margin)
            if held and (begins or opened <= 0):
                yield first, " ".join(held)
                held, opened = [], 0
            first = first if held else number
            held.append(line)
            # Brackets after a backslash do not count; where it ends a word, the next tree's beginning ends this one.
            opened += still_open(line)[1]
        if held:
            yield first, " ".join(held)

    def _parsed(self) -> Iterator[tuple[int, Any]]:
        for number, trees in super()._parsed():
            if self._drops_traces and not isinstance(trees, NoParse | _Broken):
                trees, dropped = without_traces(trees)
                self._dropped += dropped
            yield number, trees

    def describe(self) -> dict[str, Any]:
        return {**super().describe(), **({"drop_traces": True} if self._drops_traces else {})}

    def finish(self) -> None:
        super().finish()
        if self._drops_traces:
            print(f"{self.path}: {self._dropped} traces were dropped")

    def _join(self, entries: list[list[Tree]]) -> Parse:
        return Parse(trees=[tree for entry in entries for tree in entry])

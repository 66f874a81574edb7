"""The formats that parses come in, in one table: whoever reads, writes, cuts, aligns or counts parses goes by it.

Another format needs an entry in :data:`FORMATS`; a field of :class:`~syntax_data.parsers.Parse` that holds its
parses; and features whose source it is. Beyond that it gets what is written for it, as the others have it:

    a parser that reads its files          parsers/files.py, and its name in parsers/__init__.py
    a control's parses in place of its own controls/
    a number for people beside the counts  data_bin/split_counts.py
    a property that has its parses' type   features/aligned.py
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from syntax_data.text.lines import read_lines
from syntax_data.text.ranges import Range, conllu_ranges, line_ranges
from syntax_data.trees.brackets import format_brackets, parse_brackets, words_in_brackets
from syntax_data.trees.conllu import (
    conllu_entries,
    format_conllu,
    generator_comment,
    is_comment,
    parse_conllu,
    words_in_conllu,
)
from syntax_data.trees.tree import DependencyTree, NoParse, Tree

E = TypeVar("E")
P = TypeVar("P")
E_contra = TypeVar("E_contra", contravariant=True)
P_co = TypeVar("P_co", covariant=True)

#: Lines of a file, each with its number (from 1).
NumberedLines = Iterable[tuple[int, str]]


class ParseEntry(Protocol[E_contra, P_co]):
    """Reads an entry whose first line is line `line` of `path`; raises :class:`BadParse` where it is broken."""

    def __call__(self, entry: E_contra, /, *, path: str, line: int) -> P_co | NoParse: ...


@dataclass(frozen=True)
class ParseFormat(Generic[E, P]):
    """A file format with one entry for each line of a text.

    Attributes:
        name: also the ending of its files, and the key of its parses wherever parses go by kind.
        attribute: which field of a ``Parse`` holds such a parse.
        ranges: cuts a file into byte ranges of so many entries.
        entries: the entries among the lines of a file or range, each with the number of its first line.
        parse: reads an entry.
        words: the surface tokens of an entry as far as they can be read, though `parse` cannot read it.
        write: an entry as `parse` reads it, with its end.
        tokens: the surface tokens of a parse.
        sentences: how many sentences a parse has.
        blank: whether an entry says nothing of a sentence: the parse of an empty line, or none, after the last parse.
        maker: who made the parses, if the lines of a file say so.
    """

    name: str
    attribute: str
    ranges: Callable[[str, int], Iterator[Range]]
    entries: Callable[[NumberedLines], Iterator[tuple[int, E]]]
    parse: ParseEntry[E, P]
    words: Callable[[E], list[str]]
    write: Callable[[P | NoParse], str]
    tokens: Callable[[P], list[str]]
    sentences: Callable[[P], int]
    blank: Callable[[E], bool]
    maker: Callable[[NumberedLines], str | None] = lambda lines: None

    def path(self, prefix: str) -> str:
        """Path of the file with the parses of the text `prefix`."""
        return f"{prefix}.{self.name}"

    def read(self, path: str) -> Iterator[tuple[int, P | NoParse]]:
        """Yields each entry of a file, read, with the number of its first line."""
        for line, entry in self.entries(read_lines(path)):
            yield line, self.parse(entry, path=path, line=line)


def _leaves(trees: Iterable[Tree]) -> list[str]:
    return [leaf for tree in trees for leaf in tree.leaves()]


def _is_empty(line: str) -> bool:
    return not line.strip()


def _tokens(tree: DependencyTree) -> list[str]:
    return tree.tokens


def _sentences(tree: DependencyTree) -> int:
    return tree.sentences


TREES: ParseFormat[str, list[Tree]] = ParseFormat(
    name="trees",
    attribute="trees",
    ranges=line_ranges,
    entries=iter,
    parse=parse_brackets,
    words=words_in_brackets,
    write=format_brackets,
    tokens=_leaves,
    sentences=len,
    blank=_is_empty,
)
CONLLU: ParseFormat[list[str], DependencyTree] = ParseFormat(
    name="conllu",
    attribute="dependencies",
    ranges=conllu_ranges,
    entries=conllu_entries,
    parse=parse_conllu,
    words=words_in_conllu,
    write=format_conllu,
    tokens=_tokens,
    sentences=_sentences,
    blank=is_comment,
    maker=generator_comment,
)

#: Every format, by name. Where a line has parses of several, its words are those of the last one.
FORMATS: dict[str, ParseFormat[Any, Any]] = {"trees": TREES, "conllu": CONLLU}

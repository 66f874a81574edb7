"""The file formats of parses, in one table that all readers and writers use.

Another kind of parse needs an entry in :data:`FORMATS`; a field of :class:`~syntax_data.parsers.Parse`; and features
whose source it is. Optional are a parser that reads its files (``parsers/files.py``, ``parsers/registry.py``),
a control's parses (``controls/``), and a number in the report (``data_bin/split_counts.py``).

Another file format of these kinds, which is only read, is an :class:`EntryFormat`, and a parser that reads its files.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from syntax_data.text.lines import read_lines
from syntax_data.text.ranges import Range, line_ranges
from syntax_data.trees import conllu
from syntax_data.trees.brackets import format_brackets, parse_brackets, words_in_brackets
from syntax_data.trees.columns import GOLD_COLUMNS, PREDICTED_COLUMNS, Columns
from syntax_data.trees.tree import multiword_hint, trace_hint

#: Lines of a file, each with its number (from 1).
NumberedLines = Iterable[tuple[int, str]]


@dataclass(frozen=True, kw_only=True)
class EntryFormat:
    """A file format that parsers read, whose entries are parses in the order of the text.

    Attributes:
        name: for ``--parser``.
        entries: the entries among the lines of a file or range, each with the number of its first line.
        parse: reads an entry whose first line is line `line` of `path`; raises :class:`BadParse` where it is broken.
        words: the surface tokens of an entry as far as they can be read, also of a broken one.
        tokens: the surface tokens of a parse.
        over_words: the parse over the words of multi-word tokens; ``None`` where there are none.
        hint: the rest of a message about a parse of another text.
        blank: whether an entry states no parse: that of an empty line, or none, after the last parse.
        maker: the parser, if the lines of a file name it.
    """

    name: str
    entries: Callable[[NumberedLines], Iterator[tuple[int, Any]]]
    parse: Callable[..., Any]
    words: Callable[[Any], list[str]]
    tokens: Callable[[Any], list[str]]
    blank: Callable[[Any], bool]
    over_words: Callable[[Any], Any] = lambda parse: None
    hint: Callable[[Any], str] = lambda parse: ""
    maker: Callable[[NumberedLines], str | None] = lambda lines: None


@dataclass(frozen=True, kw_only=True)
class ParseFormat(EntryFormat):
    """A file format with one entry for each line of text, which is also written.

    Attributes:
        name: also the ending of its files.
        attribute: the field of a ``Parse`` for such a parse.
        ranges: cuts a file into byte ranges of a number of entries.
        write: an entry as `parse` reads it, with its end.
        sentences: the number of a parse's sentences.
    """

    attribute: str
    ranges: Callable[[str, int], Iterator[Range]]
    write: Callable[[Any], str]
    sentences: Callable[[Any], int]

    def path(self, prefix: str) -> str:
        """Path of the file with the parses of the text `prefix`."""
        return f"{prefix}.{self.name}"

    def read(self, path: str) -> Iterator[tuple[int, Any]]:
        """Yield each entry of a file, read, with the number of its first line."""
        for line, entry in self.entries(read_lines(path)):
            yield line, self.parse(entry, path=path, line=line)


TREES = ParseFormat(
    name="trees",
    attribute="trees",
    ranges=line_ranges,
    entries=iter,
    parse=parse_brackets,
    words=words_in_brackets,
    write=format_brackets,
    tokens=lambda trees: [leaf for tree in trees for leaf in tree.leaves()],
    sentences=len,
    blank=lambda line: not line.strip(),
    hint=trace_hint,
)
CONLLU = ParseFormat(
    name="conllu",
    attribute="dependencies",
    ranges=partial(line_ranges, conllu=True),
    entries=conllu.conllu_entries,
    parse=conllu.parse_conllu,
    words=conllu.words_in_conllu,
    write=conllu.format_conllu,
    tokens=lambda tree: tree.tokens,
    sentences=lambda tree: tree.sentences,
    blank=conllu.is_comment,
    over_words=lambda tree: tree.words,
    hint=multiword_hint,
    maker=conllu.generator_comment,
)

#: Every format, by name. Where a line has parses of several, its words are those of the last one.
FORMATS = {parses.name: parses for parses in (TREES, CONLLU)}


def _conll09(columns: Columns) -> ParseFormat:
    parse = partial(conllu.parse_conllu, columns=columns)
    return replace(CONLLU, name="conll09", parse=parse, words=partial(conllu.words_in_conllu, columns=columns))


CONLL09, CONLL09_PREDICTED = map(_conll09, (GOLD_COLUMNS, PREDICTED_COLUMNS))
CONLLUP = replace(
    CONLLU,
    name="conllup",
    entries=conllu.conllup_entries,
    parse=conllu.parse_conllup,
    words=conllu.words_in_conllup,
    blank=lambda entry: conllu.is_comment(entry[1]),
)

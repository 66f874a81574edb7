"""Files cut into byte ranges where entries end.

An entry is a line of text or of a file of bracketed trees; in CoNLL-U, lines up to an empty one.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import dataclass

from syntax_data.text.lines import decode_lines


@dataclass(frozen=True, slots=True)
class Range:
    """Consecutive entries of a file: bytes `start` to `end`."""

    path: str
    start: int
    end: int
    first_line: int
    count: int

    def lines(self) -> Iterator[tuple[int, str]]:
        """The lines with their numbers, as :func:`~syntax_data.text.lines.read_lines`."""
        with open(self.path, "rb") as file:
            file.seek(self.start)
            content = file.read(self.end - self.start)
        yield from decode_lines(io.BytesIO(content), path=self.path, first=self.first_line)


def line_ranges(path: str, count: int, *, conllu: bool = False) -> Iterator[Range]:
    """Cut a file into ranges of `count` entries; the last one may have fewer.

    Entries are lines, or those of CoNLL-U; empty lines before one belong to it.
    """
    start = position = line = found = 0
    first_line = 1
    inside = False  # an entry of CoNLL-U
    with open(path, "rb") as file:
        for line, raw in enumerate(file, start=1):
            position += len(raw)
            blank = raw.isspace()
            found += (inside and blank) if conllu else 1
            inside = conllu and not blank
            if found == count:
                yield Range(path, start, position, first_line, count)
                start, first_line, found = position, line + 1, 0
    if found + inside:
        yield Range(path, start, position, first_line, found + inside)

"""Files cut into byte ranges where entries end.

An entry is a line of a text or of a file of bracketed trees; in CoNLL-U, lines up to an empty one.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from syntax_data.text.lines import decode_lines


@dataclass(frozen=True, slots=True)
class Range:
    """Consecutive entries of a file: bytes `start` to `end`, the number of the first line, and the count of entries."""

    path: str
    start: int
    end: int
    first_line: int
    count: int

    def lines(self) -> Iterator[tuple[int, str]]:
        """The lines with their numbers. Raises :class:`InputError` as :func:`~syntax_data.text.lines.read_lines`."""
        with open(self.path, "rb") as file:
            file.seek(self.start)
            content = file.read(self.end - self.start)
        yield from decode_lines(io.BytesIO(content), path=self.path, first=self.first_line)


def line_ranges(path: str, count: int) -> Iterator[Range]:
    """Cut a file whose entries are its lines into ranges of `count` entries; the last one may have fewer."""
    return _ranges(path, count, lambda file: (1 for _ in file))


def conllu_ranges(path: str, count: int) -> Iterator[Range]:
    """Cut a CoNLL-U file into ranges of `count` entries; empty lines before an entry belong to it."""
    return _ranges(path, count, _conllu_ends)


def _conllu_ends(lines: Iterable[bytes]) -> Iterator[int]:
    """For each line of a CoNLL-U file 1 if an entry ends there, else 0; a last 1 if the file's end ends one."""
    inside = False
    for line in lines:
        blank = line.isspace()
        yield int(inside and blank)
        inside = not blank
    if inside:
        yield 1


def _ranges(path: str, count: int, ends: Callable[[Iterable[bytes]], Iterator[int]]) -> Iterator[Range]:
    start = position = line = found = 0
    first_line = 1

    with open(path, "rb") as file:

        def measured() -> Iterator[bytes]:
            nonlocal position, line
            for raw in file:
                position += len(raw)
                line += 1
                yield raw

        for ended in ends(measured()):
            found += ended
            if found == count:
                yield Range(path, start, position, first_line, count)
                start, first_line, found = position, line + 1, 0
    if found:
        yield Range(path, start, position, first_line, found)

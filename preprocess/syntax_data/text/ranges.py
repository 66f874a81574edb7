"""Files cut into byte ranges where units end.

A unit is a line of a text or of a file of bracketed trees; in CoNLL-U, lines up to an empty one.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from syntax_data.text.lines import decode_lines


@dataclass(frozen=True, slots=True)
class Range:
    """Consecutive units of a file: bytes `start` to `end`, the number of the first line, and the count of units."""

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


def line_unit_ranges(path: str, units: int) -> Iterator[Range]:
    """Cuts a file whose units are its lines into ranges of so many `units`, the last of which may have fewer."""
    return _ranges(path, units, lambda file: (1 for _ in file))


def conllu_unit_ranges(path: str, units: int) -> Iterator[Range]:
    """Cuts a CoNLL-U file into ranges of so many `units`; empty lines before a unit belong to it."""
    return _ranges(path, units, _conllu_unit_ends)


def _conllu_unit_ends(lines: Iterable[bytes]) -> Iterator[int]:
    """For each line of a CoNLL-U file 1 if a unit ends there, else 0; a last 1 if the file's end ends one."""
    inside = False
    for line in lines:
        if line.isspace():
            yield int(inside)
            inside = False
        elif not inside:
            inside = True
            yield 0
        else:
            yield 0
    if inside:
        yield 1


def _ranges(path: str, units: int, ends: Callable[[Iterable[bytes]], Iterator[int]]) -> Iterator[Range]:
    start = position = line = seen = 0
    first_line = 1

    with open(path, "rb") as file:

        def measured() -> Iterator[bytes]:
            nonlocal position, line
            for raw in file:
                position += len(raw)
                line += 1
                yield raw

        for ended in ends(measured()):
            seen += ended
            if seen == units:
                yield Range(path, start, position, first_line, units)
                start, first_line, seen = position, line + 1, 0
    if seen:
        yield Range(path, start, position, first_line, seen)

"""Files cut into byte ranges at the ends of units: lines of a text or of bracketed trees, or blocks of CoNLL-U."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from syntax_preprocess.lines import decode_lines


@dataclass(frozen=True, slots=True)
class Range:
    """Consecutive units of a file: bytes `start` to `end`, the number of the first line, and how many units."""

    path: str
    start: int
    end: int
    first_line: int
    units: int

    def lines(self) -> Iterator[tuple[int, str]]:
        """The lines with their numbers. Raises :class:`InputError` as :func:`~syntax_preprocess.lines.read_lines`."""
        with open(self.path, "rb") as file:
            file.seek(self.start)
            content = file.read(self.end - self.start)
        yield from decode_lines(io.BytesIO(content), path=self.path, first=self.first_line)


def line_ranges(path: str, units: int) -> Iterator[Range]:
    """Cuts a file into ranges of so many lines."""
    return _ranges(path, units, lambda file: (1 for _ in file))


def block_ranges(path: str, units: int) -> Iterator[Range]:
    """Cuts a CoNLL-U file into ranges of so many blocks; empty lines before a block belong to it."""
    return _ranges(path, units, _block_ends)


def _block_ends(lines: Iterable[bytes]) -> Iterator[int]:
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

"""Files that belong together unit by unit, cut into byte ranges.

A unit is a line of a text or of a file of bracketed trees, or a block of a CoNLL-U file.
"""

from __future__ import annotations

import io
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from syntax_preprocess.errors import InputError
from syntax_preprocess.trees import conllu_blocks, decode_lines


@dataclass(frozen=True, slots=True)
class Range:
    """Consecutive units of a file: bytes `start` to `end`, the number of the first line, and how many units."""

    path: str
    start: int
    end: int
    first_line: int
    units: int

    def lines(self) -> Iterator[tuple[int, str]]:
        """The lines with their numbers. Raises :class:`InputError` as :func:`~syntax_preprocess.trees.read_lines`."""
        with open(self.path, "rb") as file:
            file.seek(self.start)
            content = file.read(self.end - self.start)
        yield from decode_lines(io.BytesIO(content), path=self.path, first=self.first_line)

    def blocks(self) -> Iterator[tuple[int, list[str]]]:
        """The CoNLL-U blocks, each with the number of its first line."""
        return conllu_blocks(self.lines())


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


def in_lockstep(text: str, parses: Mapping[str, str], units: int) -> Iterator[dict[str, Range]]:
    """Yields ranges of a text (``text``) and, by kind of parse, of the files `parses` that belong to it.

    Raises :class:`InputError` where one file has more units than another. The units before come first, in ranges of
    which the last ones may differ in length: an error among them (a line too many, say) explains more.
    """
    ranges = {kind: {"conllu": block_ranges, "trees": line_ranges}[kind](path, units) for kind, path in parses.items()}
    lines = 0
    for rows in itertools.zip_longest(line_ranges(text, units), *ranges.values()):
        of_text, *of_parses = rows
        expected = of_text.units if of_text else 0
        if all(rows):
            yield dict(zip(["text", *ranges], rows, strict=True))
        for kind, row in zip(ranges, of_parses, strict=True):
            found = row.units if row else 0
            if found < expected:
                raise InputError(
                    parses[kind], None, f"expected a parse for every line of {text}, found only {lines + found}"
                )
            if row and found > expected:
                units_of_row = row.blocks() if kind == "conllu" else row.lines()
                first_line, _ = next(itertools.islice(units_of_row, expected, None))
                raise InputError(
                    parses[kind],
                    first_line,
                    f"expected {lines + expected} parses, one for each line of {text}, found more",
                )
        lines += expected

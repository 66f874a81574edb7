"""A text and its parses, entry by entry, cut at the same places."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from typing import Any

from syntax_data.errors import InputError
from syntax_data.text.ranges import Range, line_ranges
from syntax_data.trees.formats import FORMATS


def parallel_ranges(text: str, parses: Mapping[str, str], count: int) -> Iterator[dict[str, Range]]:
    """Yield ranges of `count` entries of a file (``text``) and, by kind, its parses.

    Raises :class:`InputError` where one file has more entries than another, but for blank ones after the last parse.
    The entries before come first, in ranges of which the last ones may differ in length: an error among them (a line
    too many, say) explains more.
    """
    ranges = {kind: FORMATS[kind].ranges(path, count) for kind, path in parses.items()}
    lines = 0
    for rows in itertools.zip_longest(line_ranges(text, count), *ranges.values()):
        of_text, *of_parses = rows
        expected = of_text.count if of_text else 0
        if all(rows):
            yield dict(zip(["text", *ranges], rows, strict=True))
        for kind, row in zip(ranges, of_parses, strict=True):
            found = row.count if row else 0
            if found < expected:
                message = f"expected a parse for every line of {text}, found only {lines + found}"
                raise InputError(parses[kind], None, message)
            if row and found > expected:
                for line, entry in itertools.islice(FORMATS[kind].entries(row.lines()), expected, None):
                    if not FORMATS[kind].blank(entry):
                        message = f"expected {lines + expected} parses, one for each line of {text}, found more"
                        raise InputError(parses[kind], line, message)
        lines += expected


def parallel_entries(ranges: Mapping[str, Range]) -> Iterator[tuple[int, str, dict[str, tuple[int, Any]]]]:
    """Yield a line's number and text, and by kind the line and entry of its parse."""
    kinds = [kind for kind in ranges if kind != "text"]
    entries = (FORMATS[kind].entries(ranges[kind].lines()) for kind in kinds)
    for (number, line), *row in zip(ranges["text"].lines(), *entries, strict=False):
        yield number, line, dict(zip(kinds, row, strict=True))

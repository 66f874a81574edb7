"""A text and its parses, which belong together unit by unit, cut at the same places."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping

from syntax_data.errors import InputError
from syntax_data.text.ranges import Range, line_unit_ranges
from syntax_data.trees.formats import FORMATS


def parallel_ranges(text: str, parses: Mapping[str, str], units: int) -> Iterator[dict[str, Range]]:
    """Yields ranges of a text (``text``) and, by kind of parse, of the files `parses` that belong to it.

    Raises :class:`InputError` where one file has more units than another, but for blank ones after the last parse. The
    units before come first, in ranges of which the last ones may differ in length: an error among them (a line too
    many, say) explains more.
    """
    ranges = {kind: FORMATS[kind].ranges(path, units) for kind, path in parses.items()}
    lines = 0
    for rows in itertools.zip_longest(line_unit_ranges(text, units), *ranges.values()):
        of_text, *of_parses = rows
        expected = of_text.count if of_text else 0
        if all(rows):
            yield dict(zip(["text", *ranges], rows, strict=True))
        for kind, row in zip(ranges, of_parses, strict=True):
            found = row.count if row else 0
            if found < expected:
                raise InputError(
                    parses[kind], None, f"expected a parse for every line of {text}, found only {lines + found}"
                )
            if row and found > expected:
                more = itertools.islice(FORMATS[kind].units(row.lines()), expected, None)
                for first_line, unit in more:
                    if not FORMATS[kind].blank(unit):
                        raise InputError(
                            parses[kind],
                            first_line,
                            f"expected {lines + expected} parses, one for each line of {text}, found more",
                        )
        lines += expected

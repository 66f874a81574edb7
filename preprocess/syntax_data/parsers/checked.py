"""Parses that are checked, one for each line, also where a parser fails."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from syntax_data.errors import short_repr
from syntax_data.parsers.parser import Line, Parse, Parser, default_characters
from syntax_data.trees.tree import NoParse

#: A parser that fails on this many lines before it has parsed one is broken, not the text.
MAX_INITIAL_FAILURES = 10


def parse_lines(
    parser: Parser,
    lines: Sequence[Line],
    *,
    max_tokens: int | None,
    failed: Callable[[Line, Exception], None],
    max_characters: int | None = None,
) -> list[Parse | NoParse]:
    """Return the parse of each line, checked.

    A parser that fails gets fewer lines at a time, down to the one on which it fails. Unless it is sequential, it gets
    no line that is known to be too long.

    Args:
        max_tokens: lines of more tokens have no parse; ``None``: no limit.
        failed: called with each line on which the parser fails, and the reason.
        max_characters: the same of characters; ``None``: :func:`default_characters`.

    Raises :class:`ValueError` if the parser ended the program.
    """
    most_tokens = math.inf if max_tokens is None else max_tokens
    most_characters = max_characters or default_characters(max_tokens) or math.inf
    too_long = [
        len(line.text) > most_characters or (parser.pretokenized and len(line.text.split()) > most_tokens)
        for line in lines
    ]
    given = [line for line, long in zip(lines, too_long, strict=True) if parser.sequential or not long]
    parses = iter(_parse(parser, given, failed))
    checked: list[Parse | NoParse] = []
    for line, long in zip(lines, too_long, strict=True):
        parse = NoParse("too_long") if long and not parser.sequential else next(parses)
        if not isinstance(parse, NoParse):
            try:
                parser.check(line, parse)
                if long or len(parse.tokens) > most_tokens:
                    parse = NoParse("too_long")
            except Exception as error:  # not a parse of the line, or not a parse
                failed(line, error)
                parse = NoParse("failed")
        checked.append(parse)
    return checked


def _parse(
    parser: Parser, lines: Sequence[Line], failed: Callable[[Line, Exception], None]
) -> Sequence[Parse | NoParse]:
    if not lines:
        return []
    try:
        parses = parser.parse(lines)
        if len(parses) != len(lines):
            raise ValueError(f"expected {len(lines)} parses, found {len(parses)}")
        return parses
    except SystemExit as error:  # perhaps with status 0
        raise ValueError(f"the parser ended the program: {short_repr(error)}") from error
    except Exception as error:
        if parser.sequential:  # its message is about the user's file
            raise
        if len(lines) == 1:
            failed(lines[0], error)
            return [NoParse("failed")]
    middle = len(lines) // 2
    return [parse for half in (lines[:middle], lines[middle:]) for parse in _parse(parser, half, failed)]

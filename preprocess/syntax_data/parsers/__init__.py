"""Parsers behind one interface; other packages may add theirs as entry points."""

from syntax_data.parsers.checked import MAX_INITIAL_FAILURES, parse_lines
from syntax_data.parsers.parser import (
    CHARACTERS_PER_TOKEN,
    MAX_CHARACTERS,
    MAX_TOKENS,
    Line,
    Parse,
    Parser,
    default_characters,
)
from syntax_data.parsers.registry import ENTRY_POINTS, parser_class, parser_names

__all__ = [
    "CHARACTERS_PER_TOKEN",
    "ENTRY_POINTS",
    "MAX_CHARACTERS",
    "MAX_INITIAL_FAILURES",
    "MAX_TOKENS",
    "Line",
    "Parse",
    "Parser",
    "default_characters",
    "parse_lines",
    "parser_class",
    "parser_names",
]

"""Parsers behind one interface; other packages may add theirs as entry points."""

from syntax_data.parsers.checked import MAX_INITIAL_FAILURES, parse_lines
from syntax_data.parsers.parser import MAX_TOKENS, Line, Parse, Parser
from syntax_data.parsers.registry import parser_class, parser_names

__all__ = [
    "MAX_INITIAL_FAILURES",
    "MAX_TOKENS",
    "Line",
    "Parse",
    "Parser",
    "parse_lines",
    "parser_class",
    "parser_names",
]

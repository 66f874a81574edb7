"""Parsers behind one interface; other packages may add theirs as entry points."""

from syntax_data.parsers.checked import MAX_INITIAL_FAILURES, parse_lines
from syntax_data.parsers.parser import MAX_TOKENS, Line, Parse, Parser
from syntax_data.parsers.registry import FILE_PARSERS, parser_class, parser_names

__all__ = [
    "FILE_PARSERS",
    "MAX_INITIAL_FAILURES",
    "MAX_TOKENS",
    "Line",
    "Parse",
    "Parser",
    "parse_lines",
    "parser_class",
    "parser_names",
]

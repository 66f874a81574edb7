"""Parses that are broken or of another text: the option ``--on-bad-parse``."""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Callable
from typing import Any

from syntax_data.errors import BadParse
from syntax_data.trees.tree import NoParse

#: The choices of ``--on-bad-parse``.
ON_BAD_PARSE = ("error", "skip")


def add_option(group: ArgumentParser | Any) -> None:
    """Add ``--on-bad-parse`` to a parser or group of argparse's."""
    group.add_argument(
        "--on-bad-parse",
        choices=ON_BAD_PARSE,
        default="error",
        help="a parse that is broken (several roots, a cycle, unbalanced brackets …), or of another text than its "
        "line: an error, or skip it, so that the line has no parse; lines are counted by reason, and the first of "
        "each reason is shown (default: error)",
    )


class BadParses:
    """Raises or skips bad parses; shows the first skipped one of a reason."""

    def __init__(self, choice: str, show: Callable[[BadParse], object] | None = None):
        self.skips = choice == "skip"
        self._show = show
        self._shown: set[tuple[str, str]] = set()

    def no_parse(self, error: BadParse) -> NoParse:
        """The reason instead of a bad parse; raises `error` unless they are skipped."""
        if not self.skips:
            message = f"{error.message} (--on-bad-parse skip takes the line without its parse, and counts it)"
            raise BadParse(error.path, error.line, message, error.reason) from None
        self.show(error)
        return NoParse(error.reason)

    def show(self, error: BadParse) -> None:
        """Show a bad parse if it is the first of its file and reason."""
        if self._show and (error.path, error.reason) not in self._shown:
            self._shown.add((error.path, error.reason))
            self._show(error)

    def read(self, parse: Callable[..., Any], entry: Any, *, path: str, line: int) -> Any:
        """The parse in an entry, whose first line is line `line` of `path`."""
        try:
            return parse(entry, path=path, line=line)
        except BadParse as error:
            return self.no_parse(error)

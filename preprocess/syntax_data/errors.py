"""The exceptions that broken input raises, and what messages show of it."""

from __future__ import annotations

import os
from reprlib import Repr

_REPR = Repr()
_REPR.maxstring, _REPR.maxother = 100, 1000
_REPR.maxlist = _REPR.maxtuple = _REPR.maxdict = 8


def short_repr(value: object) -> str:
    """repr() of a value for a message: what is long is cut in the middle, or after the first items."""
    return _REPR.repr(value)


def one_line(error: BaseException) -> str:
    """What an exception of a library says, for a message: on one line, and cut where it goes on and on."""
    return " ".join(str(error).split())[:200]


def describe_path(path: str) -> str:
    """What stands where a file was expected and is none, for a message."""
    return "a folder" if os.path.isdir(path) else "no file"


class InputError(ValueError):
    """Input that cannot be used, with the place where it was found.

    Printed as ``path:line: message``; `message` says what was expected. `line` counts from 1, and is
    ``None`` where the whole file is meant.
    """

    def __init__(self, path: str, line: int | None, message: str):
        super().__init__(path, line, message)  # plain arguments, so that it survives pickling
        self.path = path
        self.line = line
        self.message = message

    def __str__(self) -> str:
        place = self.path if self.line is None else f"{self.path}:{self.line}"
        return f"{place}: {self.message}"


class BadParse(InputError):
    """A unit that is no parse of its line, though where it begins and ends is known: no other unit is touched.

    Attributes:
        reason: in a word, as reports count it.
    """

    def __init__(self, path: str, line: int | None, message: str, reason: str):
        super().__init__(path, line, message)
        self.args = (path, line, message, reason)  # for pickling
        self.reason = reason

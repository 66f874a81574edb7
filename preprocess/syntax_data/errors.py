"""Exceptions for broken input, and representations for messages."""

from __future__ import annotations

import os
from reprlib import Repr

_REPR = Repr()
_REPR.maxstring, _REPR.maxother = 100, 1000
_REPR.maxlist = _REPR.maxtuple = _REPR.maxdict = 8


def short_repr(value: object) -> str:
    """repr() of a value for a message, cut if it is long."""
    return _REPR.repr(value)


def one_line(error: BaseException) -> str:
    """The message of a library's exception, on one line, cut if it is long."""
    return " ".join(str(error).split())[:200]


def describe_path(path: str) -> str:
    """A description of a path that is no file, for a message."""
    return "a folder" if os.path.isdir(path) else "no file"


class InputError(ValueError):
    """Broken input, printed as ``path:line: message``.

    Attributes:
        line: from 1; ``None``: the whole file.
        message: expected …, found …
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
    """An entry that is no parse of its line; other entries are not concerned.

    Attributes:
        reason: in a word, as reports count it.
    """

    def __init__(self, path: str, line: int | None, message: str, reason: str):
        super().__init__(path, line, message)
        self.args = (path, line, message, reason)  # for pickling
        self.reason = reason

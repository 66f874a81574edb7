"""Files that must stay as they are while they are read."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from syntax_data.errors import InputError


@contextmanager
def unchanged(paths: Iterable[str]) -> Iterator[None]:
    """Raises :class:`InputError` at the end if a file was replaced or written to meanwhile, be it with what it held."""
    before = {path: _identity(path) for path in paths}
    yield
    for path, identity in before.items():
        if _identity(path) != identity:
            raise InputError(path, None, "expected a file that stays as it is, found that it changed while it was read")


def _identity(path: str) -> tuple[int, ...] | None:
    # Unlike a second hash, this also sees what was changed and changed back, and costs nothing. A file is opened for
    # it, because only then does NFS ask its server.
    try:
        with open(path, "rb") as file:
            found = os.fstat(file.fileno())
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns

"""Files that must stay as they are while they are read."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from syntax_data.errors import InputError


@contextmanager
def assert_unmodified(paths: Iterable[str]) -> Iterator[None]:
    """Raise :class:`InputError` at the end if a file was written to meanwhile."""
    before = {path: _identity(path) for path in paths}
    yield
    for path, identity in before.items():
        if _identity(path) != identity:
            raise InputError(path, None, "expected a file that stays as it is, found that it changed while it was read")


def _identity(path: str) -> tuple[int, ...] | None:
    # Unlike a second hash, this also detects a change that was undone, and costs nothing. The file is opened because
    # NFS asks its server only then.
    try:
        with open(path, "rb") as file:
            found = os.fstat(file.fileno())
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns

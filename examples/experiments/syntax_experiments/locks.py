"""Locks that the commands which a process starts hold with it, so that one that outlives it still counts."""

from __future__ import annotations

import fcntl
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def held(path: str | os.PathLike[str], *, busy: str, wait: bool) -> Iterator[None]:
    """Holds the lock file `path`; it is let go when this process and all that inherit it have ended.

    Commands inherit it that are started with ``close_fds=False``.

    Args:
        busy: what is said where another process holds it.
        wait: whether to wait then.

    Raises:
        ValueError: another process holds it, and it is not waited for.
    """
    lock = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if not wait:
                raise ValueError(busy) from None
            print(busy, file=sys.stderr)
            fcntl.flock(lock, fcntl.LOCK_EX)
        os.set_inheritable(lock, True)
        yield
    finally:
        os.close(lock)

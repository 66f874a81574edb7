"""Locks between processes, also between machines that share a disk."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from filelock import FileLock, Timeout

from syntax_data.errors import InputError


@contextmanager
def locked(path: str, *, seconds: float, expected: str) -> Iterator[None]:
    """Hold the lock file `path`; it is released when this process ends, however it ends.

    Where the disk supports no locks, a message is printed, and nothing is locked.

    Raises:
        InputError: another process holds it for these `seconds`, which prevents what is `expected`.
        OSError: the file cannot be made or opened, as when its folder is missing or it is a link.
    """
    lock = FileLock(path, timeout=seconds, mode=0o666)  # for other users who may write to the folder
    try:
        lock.acquire()
    except Timeout:
        raise InputError(path, None, f"expected {expected}, found this lock held by another process") from None
    except (OSError, NotImplementedError) as error:
        if isinstance(error, OSError) and error.filename is not None:  # from opening it
            raise
        reason = getattr(error, "strerror", None) or error
        print(f"{path}: {reason}: make sure that no other process writes the same files", file=sys.stderr)
    try:
        yield
    finally:
        lock.release()

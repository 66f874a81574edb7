"""Locks among processes, those of other machines that share the disk included."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from filelock import FileLock, Timeout

from fairseq_syntax.errors import InputError

logging.getLogger("filelock").setLevel(logging.INFO)  # fairseq shows what it says of each lock


@contextmanager
def locked(path: str, *, seconds: float, expected: str) -> Iterator[None]:
    """Holds a lock, which is the file `path`; it stays there, because deleting it would let in two at a time.

    Raises :class:`InputError`, saying what was `expected`, if another process holds it for so many seconds.
    """
    lock = FileLock(path, mode=0o666)  # for whoever else may write to the folder
    try:
        lock.acquire(timeout=seconds)
    except Timeout:
        raise InputError(path, None, f"expected {expected}, found this lock held by another process") from None
    try:
        yield
    finally:
        lock.release()

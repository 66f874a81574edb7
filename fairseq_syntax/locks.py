"""Locks among processes, those of other machines that share the disk included."""

from __future__ import annotations

import fcntl
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from fairseq_syntax.errors import InputError


@contextmanager
def locked(path: str, *, seconds: float, expected: str, shared: bool = False) -> Iterator[None]:
    """Holds a lock, which is the file `path`; it is let go when this process ends, however that does.

    The file stays, because deleting it alone would let in two at a time. Where the disk knows no locks, a message says
    so, and nothing is locked.

    Args:
        seconds: how long to wait for others that hold it.
        expected: what others keep from being true, for the message.
        shared: whether others may hold it too who share it.

    Raises:
        InputError: others hold it for so long.
    """
    end = time.monotonic() + seconds
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    try:
        with suppress(PermissionError):  # it is somebody else's
            os.fchmod(descriptor, 0o666)  # for whoever else may write to the folder
        while not _taken(descriptor, path, fcntl.LOCK_SH if shared else fcntl.LOCK_EX):
            if time.monotonic() >= end:
                raise InputError(path, None, f"expected {expected}, found this lock held by another process")
            time.sleep(0.05)
        yield
    finally:
        os.close(descriptor)


def _taken(descriptor: int, path: str, kind: int) -> bool:
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        print(f"{path}: {error.strerror}: see that no other process does the same", file=sys.stderr)
        return True
    # Who held it may have deleted it, with its folder.
    return os.path.exists(path) and os.path.samestat(os.fstat(descriptor), os.stat(path))

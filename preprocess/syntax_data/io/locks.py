"""Locks among processes, those of other machines that share the disk included."""

from __future__ import annotations

import errno
import fcntl
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from syntax_data.errors import InputError


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
        InputError: others hold it for so long; it is a link; or there is no folder for it.
    """
    end = time.monotonic() + seconds
    descriptor = _opened(path)
    try:
        while True:
            if not _taken(descriptor, path, fcntl.LOCK_SH if shared else fcntl.LOCK_EX):
                found = "this lock held by another process"
            elif _is_at(descriptor, path):
                break
            else:
                # Who held it has deleted it, or renamed its folder: what is there now is another lock.
                os.close(descriptor)
                descriptor = -1
                descriptor = _opened(path)
                if time.monotonic() < end + 1:
                    continue
                found = "another file in its place again and again"
            if time.monotonic() >= end:
                raise InputError(path, None, f"expected {expected}, found {found}")
            time.sleep(0.05)
        yield
    finally:
        if descriptor >= 0:
            os.close(descriptor)


def _opened(path: str) -> int:
    while True:
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o666)
        except FileExistsError:
            with suppress(FileNotFoundError):  # deleted just now
                return _opened_again(path)
        except FileNotFoundError:
            raise InputError(path, None, "expected a folder for this lock, found none, or none any more") from None
        else:
            with suppress(PermissionError):  # of disks without permissions
                os.fchmod(descriptor, 0o666)  # for whoever else may write to the folder
            return descriptor


def _opened_again(path: str) -> int:
    """Opens a file that somebody made, and changes nothing of it."""
    flags = os.O_NOFOLLOW | os.O_NONBLOCK
    try:
        try:
            return os.open(path, os.O_RDWR | flags)
        except PermissionError:
            return os.open(path, os.O_RDONLY | flags)  # enough for a lock, but for those of NFS
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise
        raise InputError(path, None, "expected a file to be locked, found a link") from None


def _taken(descriptor: int, path: str, kind: int) -> bool:
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        print(f"{path}: {error.strerror}: see that no other process does the same", file=sys.stderr)
    return True


def _is_at(descriptor: int, path: str) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), os.lstat(path))
    except FileNotFoundError:
        return False

"""Files and folders that are written whole or not at all, and never over their inputs."""

from __future__ import annotations

import errno
import os
import platform
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress

from syntax_data.errors import InputError

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


@contextmanager
def atomic_write(path: str) -> Iterator[str]:
    """Yield a temporary file's name, which becomes `path`, or is deleted after a failure."""
    folder = os.path.dirname(path) or "."
    if not os.path.isdir(folder):
        raise InputError(path, None, f"expected the folder {folder} to write to, found none")
    if os.path.exists(path) and not os.path.isfile(path):
        raise InputError(path, None, "expected a file to write to, found something else of this name")
    temporary = f"{path}.{platform.node()}.{os.getpid()}.tmp"
    try:
        with named_errors(path):
            yield temporary
        os.replace(temporary, path)
    except BaseException:
        with suppress(FileNotFoundError):
            os.remove(temporary)
        raise


@contextmanager
def atomic_folder(path: str) -> Iterator[str]:
    """Yield a temporary folder's name, which becomes the new folder `path`, or is deleted after a failure."""
    path = os.path.normpath(path)
    if os.path.lexists(path):
        raise InputError(path, None, "expected the name of a new folder to write, found that it exists")
    temporary = f"{path}.{platform.node()}.{os.getpid()}.tmp"
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    try:
        os.mkdir(temporary)
        with named_errors(path):
            yield temporary
        os.rename(temporary, path)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise


@contextmanager
def named_errors(path: str) -> Iterator[None]:
    """Add the name of a file to the error of a full disk."""
    try:
        yield
    except OSError as error:
        if error.filename is None and error.errno in _FULL:
            error.filename = path
        raise


def refuse_to_overwrite(output: str, inputs: Iterable[str]) -> None:
    """Raise :class:`InputError` if `output` is one of `inputs`, also by a link.

    A file that does not exist is no input.
    """
    for path in inputs:
        if os.path.exists(output) and os.path.exists(path) and os.path.samefile(output, path):
            raise InputError(output, None, f"expected another file to write to than those that are read, found {path}")

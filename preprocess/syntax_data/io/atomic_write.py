"""Files that are there whole or not at all, and never in the place of what they are made from."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress

from syntax_data.errors import InputError


@contextmanager
def atomic_write(path: str) -> Iterator[str]:
    """The name of a temporary file to write to, which becomes `path` at the end, or is deleted where writing fails."""
    folder = os.path.dirname(path) or "."
    if not os.path.isdir(folder):
        raise InputError(path, None, f"expected the folder {folder} to write to, found none")
    if os.path.exists(path) and not os.path.isfile(path):
        raise InputError(path, None, "expected a file to write to, found something else of this name")
    temporary = f"{path}.{platform.node()}.{os.getpid()}.tmp"
    try:
        yield temporary
        os.replace(temporary, path)
    except BaseException:
        with suppress(FileNotFoundError):
            os.remove(temporary)
        raise


def refuse_to_overwrite(output: str, inputs: Iterable[str]) -> None:
    """Raises :class:`InputError` if `output` is one of the files `inputs`, be it by a link or by another path.

    What is not there yet is no input.
    """
    for path in inputs:
        if os.path.exists(output) and os.path.exists(path) and os.path.samefile(output, path):
            raise InputError(output, None, f"expected another file to write to than those that are read, found {path}")

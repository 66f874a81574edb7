"""Files that are there whole or not at all."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from fairseq_syntax.errors import InputError


@contextmanager
def whole(path: str) -> Iterator[str]:
    """The name of a temporary file to write to, which becomes `path` at the end, or is deleted where writing fails."""
    folder = os.path.dirname(path) or "."
    if not os.path.isdir(folder):
        raise InputError(path, None, f"expected the folder {folder} to write to, found none")
    temporary = f"{path}.{platform.node()}.{os.getpid()}.tmp"
    try:
        yield temporary
        os.replace(temporary, path)
    except BaseException:
        with suppress(FileNotFoundError):
            os.remove(temporary)
        raise

"""The folder of a page, which is there whole or not at all."""

from __future__ import annotations

import os
import platform
import shutil
from collections.abc import Iterator
from contextlib import contextmanager

from syntax_data.errors import InputError
from syntax_data.io.workers import signals_afterwards

_ENDINGS = (".svg", ".png", ".csv")
PAGE = "index.html"


@contextmanager
def whole_folder(path: str) -> Iterator[str]:
    """The name of a new folder to write to, which takes the place of `path` at the end, or goes where writing fails.

    Raises :class:`InputError` if something else than an earlier page is there.
    """
    path = os.path.normpath(path)
    check(path)
    temporary = f"{path}.{platform.node()}.{os.getpid()}.tmp"
    try:
        os.makedirs(temporary)
        yield temporary
        check(path)
        with signals_afterwards():
            if os.path.isdir(path):
                before = f"{temporary}.before"
                os.rename(path, before)
                os.rename(temporary, path)
                shutil.rmtree(before)
            else:
                os.rename(temporary, path)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def check(path: str) -> None:
    """Raises :class:`InputError` unless there is nothing, an empty folder, or a page with its pictures."""
    if not os.path.lexists(path):
        return
    if os.path.islink(path) or not os.path.isdir(path):
        raise InputError(path, None, "expected a folder to write to, found a file or a link of this name")
    names = os.listdir(path)
    others = sorted(name for name in names if name != PAGE and not name.endswith(_ENDINGS))
    if others or (names and PAGE not in names):
        found = others[0] if others else f"no {PAGE} beside {min(names)}"
        raise InputError(path, None, f"expected a new folder, or one that this command wrote, found {found}")

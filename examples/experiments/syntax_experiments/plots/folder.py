"""The folder of a page, which is there whole or not at all."""

from __future__ import annotations

import html
import os
import platform
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import unquote

from syntax_data.errors import InputError

PAGE = "index.html"
#: A line of the page, by which this command knows its own.
GENERATOR = '<meta name="generator" content="fairseq-syntax-analyze">'


@contextmanager
def whole_folder(path: str) -> Iterator[str]:
    """Yield the name of a new folder to write to, which replaces an earlier page at `path` if all goes well.

    Raises:
        InputError: there is anything else than an earlier page.
    """
    path = os.path.normpath(path)
    check_folder(path)
    temporary = f"{path}.{platform.node()}.{os.getpid()}.tmp"
    before = f"{temporary}.before"
    try:
        os.makedirs(temporary)
        yield temporary
        check_folder(path)
        if os.path.isdir(path):
            os.rename(path, before)
        os.rename(temporary, path)
        shutil.rmtree(before, ignore_errors=True)
    finally:
        if os.path.isdir(before) and not os.path.lexists(path):
            os.rename(before, path)
        shutil.rmtree(temporary, ignore_errors=True)


def check_folder(path: str) -> None:
    """Raise :class:`InputError` unless `path` is nothing, an empty folder, or a page with its pictures and no more."""
    if not os.path.lexists(path):
        return
    if os.path.islink(path) or not os.path.isdir(path):
        raise InputError(path, None, "expected a folder to write to, found a file or a link of this name")
    names, page = sorted(os.listdir(path)), os.path.join(path, PAGE)
    if not names:
        return
    text = ""
    if os.path.isfile(page):
        with open(page, encoding="utf-8", errors="replace") as file:
            text = file.read()
    own = {unquote(html.unescape(name)) for name in re.findall(r'(?:src|href)="([^"#]+)"', text)} | {PAGE}
    others = [name for name in names if name not in own] if GENERATOR in text else names
    if others:
        expected = "expected a new folder, or one that this command wrote"
        raise InputError(path, None, f"{expected}, found {others[0]}; --output names another folder")

"""A browser, if one is installed."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

#: Names of browsers that playwright has not installed.
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


@contextmanager
def browser() -> Iterator[Any]:
    """Open playwright's browser, or one of this machine; without either the test is skipped."""
    playwright = pytest.importorskip("playwright.sync_api")
    with playwright.sync_playwright() as started:
        own = started.chromium.executable_path
        path = own if os.path.exists(own) else next(filter(None, map(shutil.which, BROWSERS)), None)
        if path is None:
            pytest.skip(f"neither playwright's browser nor one of {', '.join(BROWSERS)} is installed")
        opened = started.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield opened
        opened.close()

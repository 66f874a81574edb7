"""Recipes may parse by stanza: planning one asks for its version, and it need not be installed."""

from __future__ import annotations

from importlib.metadata import version

import pytest

from syntax_experiments import plan


@pytest.fixture(autouse=True)
def version_of_stanza(monkeypatch):
    monkeypatch.setattr(plan, "version", lambda package: "9.0" if package == "stanza" else version(package))

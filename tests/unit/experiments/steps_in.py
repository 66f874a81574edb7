"""Steps of a workflow, done in a test's folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from syntax_experiments.make import Step


def step_in(folder: Path, settings: dict[str, Any], *, inputs=None, local=None, threads: int = 1) -> Step:
    """A step that makes its target in `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    return Step(settings, inputs or {}, local or {"folder": None}, threads, folder)

"""Steps of a workflow, done in a test's folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from syntax_experiments.make import Step


def step_in(folder: Path, settings: dict[str, Any], **told: Any) -> Step:
    """A step that makes its artefact in `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    inputs, places = told.get("inputs", {}), told.get("places", {"folder": None})
    return Step(settings, inputs, places, threads=told.get("threads", 1), folder=folder)


def lines_of(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").split("\n")[:-1]

"""fairseq-syntax-experiment, as a process."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from forked import ForkedCommand
from places import EXPERIMENTS
from syntax_experiments.__main__ import main
from syntax_experiments.make import make, spec_path


def experiment(recipe: object, *options: object) -> dict[str, Any]:
    """Arguments of :class:`subprocess.Popen` that run a recipe."""
    return {
        "args": [sys.executable, "-m", "syntax_experiments", str(recipe), *map(str, options)],
        "env": {**os.environ, "PYTHONPATH": str(EXPERIMENTS.parent)},
        "text": True,
    }


def run_here(recipe: str, *options: object, monkeypatch: pytest.MonkeyPatch, cwd: Path) -> None:
    """Runs a recipe by this process and copies of it, which need not import everything again for each step.

    A recursion stands for the engine, one step at a time; its options are not known here.
    """
    monkeypatch.chdir(cwd)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")  # as --smoke sets it; put back at the end
    monkeypatch.setattr("syntax_experiments.engine.subprocess", SimpleNamespace(Popen=_Engine))
    monkeypatch.setattr("syntax_experiments.commands.subprocess", SimpleNamespace(Popen=ForkedCommand))
    with pytest.raises(SystemExit) as ended:
        main([recipe, *map(str, options)])
    assert ended.value.code == 0, ended.value.code


class _Engine:
    """Stands for :class:`subprocess.Popen` of Snakemake."""

    def __init__(self, words: Sequence[str], **_: object):
        (self._targets,) = (word.removeprefix("targets=") for word in words if word.startswith("targets="))

    def wait(self) -> int:
        for path in self._targets.split(","):
            _make(path)
        return 0


def _make(path: str) -> None:
    if not Path(path, "made.json").exists():
        for needed in json.loads(spec_path(path).read_text())["inputs"].values():
            _make(needed)
        make(path)

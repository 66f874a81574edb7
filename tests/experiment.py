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
from syntax_experiments.make import is_made, make, spec_path


def experiment(recipe: object, *options: object) -> dict[str, Any]:
    """Arguments of :class:`subprocess.Popen` that run a recipe."""
    return {
        "args": [sys.executable, "-m", "syntax_experiments", str(recipe), *map(str, options)],
        "env": {**os.environ, "PYTHONPATH": str(EXPERIMENTS.parent)},
        "text": True,
    }


def run_here(recipe: str, *options: object, monkeypatch: pytest.MonkeyPatch, cwd: Path) -> None:
    """Run a recipe by this process and copies of it, which need not import everything again for each step.

    A recursion replaces Snakemake, one step at a time; its options are not known here.
    """
    monkeypatch.chdir(cwd)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")  # as --smoke sets it; put back at the end
    monkeypatch.setattr("syntax_experiments.workflow.run_snakemake", _make_all)
    forks = SimpleNamespace(call=lambda words, **streams: ForkedCommand(words, **streams).wait())
    monkeypatch.setattr("syntax_experiments.make.subprocess", forks)
    with pytest.raises(SystemExit) as ended:
        main([recipe, *map(str, options)])
    assert ended.value.code == 0, ended.value.code


def _make_all(words: Sequence[str]) -> int:
    (targets,) = (word.removeprefix("targets=") for word in words if word.startswith("targets="))
    for path in targets.split(","):
        _make(path)
    return 0


def _make(path: str) -> None:
    if not is_made(path):
        for needed in json.loads(spec_path(path).read_text())["inputs"].values():
            _make(needed)
        make(path)

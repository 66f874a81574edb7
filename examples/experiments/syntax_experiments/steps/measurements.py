"""Numbers of a trained model that the recipe asks for, by a command of its own."""

from __future__ import annotations

import json
import math
import shlex
from typing import Any

from syntax_experiments.commands import run
from syntax_experiments.gpus import on_a_gpu
from syntax_experiments.make import Step
from syntax_preprocess.errors import InputError, shown


def measure(step: Step) -> None:
    """Writes ``measured.json``: the last line that the command prints, a number or an object of numbers.

    Raises:
        InputError: the command fails, or prints something else.
    """
    words = shlex.split(step.places["command"])
    for name, path in step.inputs.items():
        words = [word.replace(f"{{{name}}}", str(path)) for word in words]
    output = step.folder / "output"
    with on_a_gpu():
        run(*words, log=step.folder / "log", stdout=output, threads=step.threads)
    last = output.read_text(encoding="utf-8").rstrip().rpartition("\n")[2]
    try:
        found = json.loads(last)
    except ValueError:
        found = None
    if not _numbers(found):
        expected = "a finite number, or a JSON object of them, as the last line"
        raise InputError(str(output), None, f"expected {expected}, found {shown(last)}")
    (step.folder / "measured.json").write_text(json.dumps(found))


def _numbers(found: Any) -> bool:
    values = list(found.values()) if isinstance(found, dict) else [found]
    return bool(values) and all(type(value) in (int, float) and math.isfinite(value) for value in values)

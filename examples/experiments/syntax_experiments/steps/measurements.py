"""Numbers of a trained model that the recipe asks for, by a command of its own."""

from __future__ import annotations

import json
import sys
from typing import Any

from syntax_data.errors import InputError, short_repr
from syntax_experiments.fairseq_options import with_user_dir
from syntax_experiments.make import Step, fill, on_a_gpu, run
from syntax_experiments.texts import data_folder


def measure(step: Step) -> None:
    """Write ``measured.json``: the command's last line, a number or an object of them.

    Raises:
        InputError: the command fails, or prints something else.
    """
    output = step.folder / "output"
    paths = {name: data_folder(path, step.settings) if name == "data" else path for name, path in step.inputs.items()}
    paths |= {"user_dir": with_user_dir({}, step.local)["user-dir"]}
    with on_a_gpu():
        run(*fill(step.local["command"], paths), log=step.folder / "log", stdout=output, threads=step.threads)
    last = output.read_text(encoding="utf-8").rstrip().rpartition("\n")[2]
    try:
        found = json.loads(last)
    except (ValueError, RecursionError):
        found = None
    if not _numbers(found):
        expected = "a finite number, or a JSON object of them, as the last line"
        raise InputError(str(output), None, f"expected {expected}, found {short_repr(last)}")
    (step.folder / "measured.json").write_text(json.dumps(found))


def _numbers(found: Any) -> bool:
    values = list(found.values()) if isinstance(found, dict) else [found]
    return bool(values) and all(type(value) in (int, float) and abs(value) <= sys.float_info.max for value in values)

"""A check of a recipe's architectures and options by fairseq."""

from __future__ import annotations

import contextlib
import io
import json
import logging
import re
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from syntax_data.errors import InputError, one_line
from syntax_experiments.make import is_made, options
from syntax_experiments.plan import Plan
from syntax_experiments.schema import place
from syntax_experiments.texts import task_options


def with_user_dir(settings: Mapping[str, Any], local: Mapping[str, Any]) -> dict[str, Any]:
    """Return options of fairseq with ``user-dir``: fairseq_syntax, or a system's."""
    return {"user-dir": "fairseq_syntax", **settings, **local.get("options", {})}


def errors_of(commands: Sequence[Sequence[str]]) -> list[str | None]:
    """Return fairseq's errors about ``train`` or ``generate`` and their options."""
    return [_error(kind, words) for kind, *words in commands]


def _errors_by_process(commands: Sequence[Sequence[str]]) -> Any:
    """Return the same from another process, so that this one does not import fairseq."""
    command = [sys.executable, "-m", "syntax_experiments.fairseq_options"]
    done = subprocess.run(command, input=json.dumps(commands), text=True, check=True, stdout=subprocess.PIPE)
    return json.loads(done.stdout)


def refuse_unknown(plan: Plan, *, ask: Callable[[list[list[str]]], list[str | None]] = _errors_by_process) -> None:
    """Refuse options that fairseq would refuse in a training or translation later.

    Raises:
        InputError: an architecture, an option or its value is unknown; with its place in the recipe.
    """
    recipe = plan.recipe
    asked: dict[str, dict[str, Any]] = {}
    missing = {name: run.inputs["model"] for (name, _), run in plan.runs.items() if not is_made(run.path)}
    if not missing:
        return
    for name, model in missing.items():
        if not is_made(model.path):
            asked[name] = with_user_dir(model.settings["options"], model.local)
    common = ["data", *task_options(recipe.texts)]
    commands = [["train", *common, *options(given)] for given in asked.values()]
    keys = [[f"systems.{name}.options", f"systems.{name}.train", "train"] for name in asked]
    if not recipe.classifies:
        commands.append(["generate", "--path", "x", *common, *options(with_user_dir(recipe.generate, {}))])
        keys.append(["generate"])
    for within, error in zip(keys, ask(commands), strict=True):
        if error is not None:
            named = re.findall(r"(?<![\w-])--([\w-]+)", error)
            candidates = [f"{key}.{option}" for option in named for key in within]
            candidates += [within[0].replace(".options", ".architecture")] if "arch" in named else []
            key = next((key for key in candidates if key in recipe.lines), within[0].removesuffix(".options"))
            raise InputError(*place(recipe.lines, key), f"{key}: {error}")


def _error(kind: str, words: list[str]) -> str | None:
    from fairseq import options as of_fairseq

    make = {"train": of_fairseq.get_training_parser, "generate": of_fairseq.get_generation_parser}[kind]
    printed = io.StringIO()
    argv = sys.argv
    sys.argv = [f"fairseq-{kind}", *words]  # where it looks for --task and --user-dir
    try:
        with contextlib.redirect_stderr(printed), contextlib.redirect_stdout(printed):  # of a user's module, too
            _, unknown = of_fairseq.parse_args_and_arch(make(), input_args=words, parse_known=True)
    except SystemExit:
        error = " ".join(printed.getvalue().rpartition("error: ")[2].split())
        return error if len(error) < 300 else error.partition(" (choose from ")[0][:300]
    except Exception as error:  # of the module that --user-dir names
        return f"--user-dir: {type(error).__name__}: {one_line(error)}"
    finally:
        sys.argv = argv
    names = [word for word in unknown if word.startswith("--")]
    return f"fairseq-{kind} knows no {', '.join(names or unknown)}" if unknown else None


if __name__ == "__main__":
    logging.disable(logging.INFO)  # of what fairseq imports
    print(json.dumps(errors_of(json.load(sys.stdin))))

"""Asks fairseq, before anything is made, whether it knows a recipe's architectures and options."""

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
from syntax_experiments.commands import options
from syntax_experiments.plan import Plan, existing
from syntax_experiments.recipe import Recipe


def with_user_dir(settings: Mapping[str, Any], places: Mapping[str, Any]) -> dict[str, Any]:
    """Options of fairseq, with fairseq_syntax as ``user-dir``, or the system's own."""
    return {"user-dir": "fairseq_syntax", **settings, **places.get("options", {})}


def errors_of(commands: Sequence[Sequence[str]]) -> list[str | None]:
    """What fairseq has against command lines, each with its kind, ``train`` or ``generate``, before it."""
    return [_error(kind, words) for kind, *words in commands]


def asked_elsewhere(commands: Sequence[Sequence[str]]) -> list[str | None]:
    """The same, in another process, so that this one need not load fairseq for good."""
    command = [sys.executable, "-m", "syntax_experiments.fairseq_options"]
    asked = json.dumps(commands)
    answer = subprocess.run(command, input=asked, text=True, check=True, stdout=subprocess.PIPE).stdout
    found: list[str | None] = json.loads(answer)
    return found


def refuse_unknown(plan: Plan, *, ask: Callable[[Sequence[Sequence[str]]], list[str | None]] = asked_elsewhere) -> None:
    """Refuses what fairseq would refuse hours later: of each system that is still to be trained, and of translating.

    Raises:
        InputError: an architecture, an option or its value is unknown; with its place in the recipe.
    """
    recipe = plan.recipe
    there = existing([of for run in plan.runs.values() for of in (run, run.inputs["model"])], ".")
    if all(run.path in there for run in plan.runs.values()):
        return
    asked: dict[str, dict[str, Any]] = {}
    for (name, _), run in plan.runs.items():
        model = run.inputs["model"]
        if model.path not in there:
            asked.setdefault(name, with_user_dir(model.settings["options"], model.places))
    commands = [["train", *_words(recipe, given)] for given in asked.values()]
    commands.append(["generate", "--path", "x", *_words(recipe, with_user_dir(recipe.generate, {}))])
    for system, error in zip([*asked, None], ask(commands), strict=True):
        if error is not None:
            raise _refusal(recipe, system, error)


def _words(recipe: Recipe, given: Mapping[str, Any]) -> list[str]:
    languages = ["--source-lang", recipe.source, "--target-lang", recipe.target]
    return ["data", "--task", "syntax_translation", *languages, *options(given)]


def _refusal(recipe: Recipe, system: str | None, error: str) -> InputError:
    """The error, at the key that it names."""
    within = ["generate"] if system is None else [f"systems.{system}.options", f"systems.{system}.train", "train"]
    for option in re.findall(r"(?<![\w-])--([\w-]+)", error):
        places = [f"systems.{system}.architecture"] if option == "arch" else [f"{keys}.{option}" for keys in within]
        for place in places:
            if (line := recipe.lines.get(place)) is not None:
                return InputError(*line, f"{place}: {error}")
    return InputError(recipe.name, None, f"{within[0].removesuffix('.options')}: {error}")


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

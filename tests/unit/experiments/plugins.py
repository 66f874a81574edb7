"""Plugins of recipes, as --user-dir imports them; they register models, so each test of one runs in a fork."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import wraps
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace

import torch
from fairseq import options
from fairseq.models import build_model

import small
from forked import Forked
from places import EXPERIMENTS
from syntax_experiments.make import options as command_line


def with_plugin(name: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Run a test, which takes `tmp_path`, in a fork with this plugin."""

    def decorated(test: Callable[..., None]) -> Callable[..., None]:
        @wraps(test)
        def run(tmp_path: Path, **arguments: object) -> None:
            def work() -> None:
                sys.path.insert(0, str(EXPERIMENTS))
                import_module(name)
                test(tmp_path=tmp_path, **arguments)

            process = Forked(work, tmp_path / "log")
            assert process.end() == 0, process.said

        return run

    return decorated


def model(arch: str, **more: object):
    """A model of an architecture, by a command line."""
    words = command_line({"task": "syntax_translation", "arch": arch, "dropout": 0, **more})
    args = options.parse_args_and_arch(options.get_training_parser(), ["data", *words])
    torch.manual_seed(1)
    symbols = small.dictionary()
    return build_model(args, SimpleNamespace(source_dictionary=symbols, target_dictionary=symbols)).eval()

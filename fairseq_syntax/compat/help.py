"""``fairseq-train --arch ARCH --help`` lists the options of ARCH.

What is wrong: fairseq prints the help as soon as it has read the command line once, which is before it has added the
options of the architecture and the task. So no option of a model is in it.
https://github.com/facebookresearch/fairseq/blob/main/fairseq/options.py (``parse_args_and_arch``)

The repair: the help is printed before fairseq reads the command line, with those options.
"""

from __future__ import annotations

import argparse
import functools
import sys
from collections.abc import Sequence
from typing import Any

from fairseq import options
from fairseq.models import ARCH_MODEL_REGISTRY
from fairseq.tasks import TASK_REGISTRY


def list_all_options_in_help() -> None:
    """Include the options of ``--arch`` and ``--task`` in the help of a command line that has them."""
    original = options.parse_args_and_arch

    @functools.wraps(original)
    def parse_args_and_arch(
        parser: argparse.ArgumentParser, input_args: Sequence[str] | None = None, *args: Any, **kwargs: Any
    ) -> Any:
        _print_help_if_asked(parser, sys.argv[1:] if input_args is None else input_args)
        return original(parser, input_args, *args, **kwargs)

    options.parse_args_and_arch = parse_args_and_arch


def _print_help_if_asked(parser: argparse.ArgumentParser, arguments: Sequence[str]) -> None:
    asked = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    asked.add_argument("-h", "--help", action="store_true")
    asked.add_argument("-a", "--arch")
    asked.add_argument("--task")
    found, _ = asked.parse_known_args(arguments)
    if not found.help:
        return
    if found.arch in ARCH_MODEL_REGISTRY:
        ARCH_MODEL_REGISTRY[found.arch].add_args(parser.add_argument_group("Model-specific configuration"))
    if found.task in TASK_REGISTRY:
        TASK_REGISTRY[found.task].add_args(parser.add_argument_group("Task-specific configuration"))
    parser.print_help()
    parser.exit()

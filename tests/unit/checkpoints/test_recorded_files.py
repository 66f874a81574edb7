"""No option of fairseq or ours that names a file, an address or a program is taken from a checkpoint."""

from __future__ import annotations

import argparse
import re
from argparse import Namespace
from collections.abc import Iterator
from dataclasses import fields, is_dataclass

from fairseq import options
from fairseq.dataclass.configs import FairseqConfig
from fairseq.dataclass.utils import gen_parser_from_dataclass
from fairseq.models import MODEL_REGISTRY
from fairseq.models.transformer import TransformerConfig
from fairseq.registry import REGISTRIES
from fairseq.tasks import TASK_REGISTRY

import fairseq_syntax  # noqa: F401  (registers our task and models)
from fairseq_syntax.checkpoints.recorded_files import OF_COMMANDS, OPENED, drop

_NAME = re.compile(
    r"(^|_)(path|file|dir|logdir|repo|pref|dict|dictionary|json|yaml|codes|merges|vocab|lexicon|url|script|module|model|"
    r"checkpoint|method|data|input)$|_from$|_from_|(^|_)(dict|checkpoint|kenlm)_"
)
_HELP = re.compile(
    r"\b(path|file|filename|director(y|ies)|folder|dir|prefix|prefixes|tcp|url|script|module to)\b", re.I
)
#: Options that look like one, and name parts of data or of a checkpoint's name, which are theirs who load it.
_NONE = {
    "align_suffix", "best_checkpoint_metric", "channels", "labels", "langs", "latency_gather_method", "project_input",
    "syntax_masks",
}  # fmt: skip


def actions() -> Iterator[argparse.Action]:
    """What all parts of fairseq and ours add to a command line."""
    for get in (
        options.get_training_parser, options.get_generation_parser, options.get_interactive_generation_parser,
        options.get_validation_parser, options.get_eval_lm_parser, options.get_preprocessing_parser,
    ):  # fmt: skip
        yield from get()._actions
    classes = [*MODEL_REGISTRY.values(), *TASK_REGISTRY.values()]
    configurations = [field.default for field in FairseqConfig.__dataclass_fields__.values()]
    for registry in REGISTRIES.values():
        configurations += registry["dataclass_registry"].values()
        classes += [c for name, c in registry["registry"].items() if name not in registry["dataclass_registry"]]
    for part in (*classes, *configurations):
        parser = argparse.ArgumentParser(add_help=False, conflict_handler="resolve")
        if hasattr(part, "add_args"):
            part.add_args(parser)
        elif is_dataclass(part):
            gen_parser_from_dataclass(parser, part() if isinstance(part, type) else part)
        yield from parser._actions


def nested(configuration: type) -> Iterator[argparse.Action]:
    """The options of dataclasses within one, under their own names, as a dictionary of dictionaries has them."""
    for field in fields(configuration):
        if is_dataclass(field.type) and field.type is not configuration:
            parser = argparse.ArgumentParser(add_help=False, conflict_handler="resolve")
            gen_parser_from_dataclass(parser, field.type())
            yield from parser._actions
            yield from nested(field.type)


def test_every_option_that_names_a_file_is_known():
    found = {action.dest: action for action in (*actions(), *nested(TransformerConfig))}
    assert len(found) > 600
    assert "embed_path" in found
    looks = {
        name
        for name, action in found.items()
        if action.nargs != 0 and action.type not in (int, float) and not action.choices
        if _NAME.search(name) or _HELP.search(action.help or "")
    }
    unknown = looks - {*OPENED, *OF_COMMANDS, "data", *_NONE}
    assert not unknown, {name: found[name].help for name in unknown}


def test_options_that_name_files_are_left_out():
    named = dict.fromkeys([*OPENED, *OF_COMMANDS], "/dev/zero")
    other = {"data": "data-bin", "dropout": 0.1}
    within = {**named, **other}
    configuration = {"model": Namespace(**within), "bpe": None, "task": {"w2v_args": [within, {"model": dict(within)}]}}
    assert {*drop(configuration)} == {*OPENED}
    expected = {**OPENED, **OF_COMMANDS, **other}
    assert configuration == {
        "model": Namespace(**expected), "bpe": None, "task": {"w2v_args": [expected, {"model": expected}]},
    }  # fmt: skip
    assert not drop(configuration)

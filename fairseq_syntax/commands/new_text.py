"""Models that read new text: their options, and loading."""

from __future__ import annotations

import argparse
import glob
import os
import warnings
from typing import Any

import torch
from fairseq import utils

from fairseq_syntax.inference.hub import SyntaxHubInterface
from fairseq_syntax.inference.reader import NEW_TEXT_OPTIONS
from fairseq_syntax.models.transformer import SyntaxTransformerModel
from fairseq_syntax.tasks.translation_options import SyntaxTranslationConfig
from syntax_data.commands.main import UsageError
from syntax_data.errors import InputError, describe_path
from syntax_data.features.aligned import Settings
from syntax_data.trees.bad_parses import ON_BAD_PARSE

#: Files of subwords by their option: fairseq's name of their kind, and that of the file beside a checkpoint.
SUBWORD_FILES = {
    "bpe_codes": ("subword_nmt", "bpecodes"),
    "sentencepiece_model": ("sentencepiece", "sentencepiece.bpe.model"),
}
_NONE = "none"


def add_data_argument(parser: argparse.ArgumentParser) -> None:
    """Add --data."""
    parser.add_argument(
        "--data", metavar="DIR",
        help="the data-bin of the training (default: the checkpoint's folder, if fairseq-syntax-export wrote it)",
    )  # fmt: skip


def add_subword_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options about tokens and subwords, and --user-dir."""
    parser.add_argument("--tokenizer", metavar="NAME", help="fairseq's tokenizer, such as moses (default: the model's)")
    parser.add_argument("--bpe-codes", metavar="FILE", help="merges of subword-nmt, of both languages")
    parser.add_argument("--sentencepiece-model", metavar="FILE", help="sentencepiece's model, of both languages")
    parser.add_argument("--bpe", choices=[_NONE], help="none: lines are split into subwords already")
    parser.add_argument("--user-dir", metavar="DIR", help="Python code that registers biases, models and tasks")


def add_parse_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options about the source of parses, and --cpu."""
    of_task = SyntaxTranslationConfig.__dataclass_fields__
    for name in NEW_TEXT_OPTIONS:
        choices = ON_BAD_PARSE if name == "on_bad_parse" else None
        parser.add_argument(f"--{name.replace('_', '-')}", choices=choices, help=of_task[name].metadata["help"])
    parser.add_argument("--cpu", action="store_true", help="use no GPU")


def load(args: argparse.Namespace, **options: Any) -> SyntaxHubInterface:
    """Return the models of ``--path`` with the tokens, subwords and parses that were asked for, on a GPU if wanted.

    Args:
        **options: more options that replace the checkpoint's.

    Raises:
        InputError: there is no data-bin, or it or the subwords do not fit the checkpoint.
        UsageError: two kinds of subwords were asked for.
    """
    utils.import_user_module(args)
    warnings.filterwarnings("ignore", "'pin_memory' argument")  # which fairseq asks for on a CPU, too
    given = {name: value for name, value in vars(args).items() if value is not None}
    asked = {name: given[name] for name in (*SUBWORD_FILES, *NEW_TEXT_OPTIONS) if name in given}
    kinds = [kind for option, (kind, _) in SUBWORD_FILES.items() if option in asked]
    if len(kinds) + ("bpe" in given) > 1:
        raise UsageError("expected one of --bpe-codes, --sentencepiece-model and --bpe none, found several")
    asked |= {"bpe": kinds[0]} if kinds else {}
    asked |= {name: None if given[name] == _NONE else given[name] for name in ("tokenizer", "bpe") if name in given}
    paths = utils.split_paths(args.path)
    for path in paths:
        if not os.path.isfile(path):
            raise InputError(path, None, f"expected a checkpoint, found {describe_path(path)}")
    folder = os.path.dirname(paths[0]) or "."
    if args.data is None and not glob.glob(f"{glob.escape(folder)}/dict.*.txt"):
        raise InputError(
            folder,
            None,
            "expected dictionaries beside the checkpoint, as fairseq-syntax-export writes them, found none; "
            "--data names the data-bin of the training",
        )
    data = folder if args.data is None else args.data
    names = os.pathsep.join(os.path.relpath(path, folder) for path in paths)
    model: SyntaxHubInterface = SyntaxTransformerModel.from_pretrained(
        folder, names, os.path.abspath(data), **asked, **options
    )
    return model.cuda() if torch.cuda.is_available() and not args.cpu else model


def check_subwords(model: SyntaxHubInterface, args: argparse.Namespace) -> None:
    """Raise :class:`InputError` if raw text would not be split into subwords as the training data was."""
    path, split = model.task.texts[0].recorded_split()
    kind = Settings(**split.settings).subwords if split else "words"
    if model.bpe is not None or args.bpe == _NONE or kind == "words":
        return
    options = [f"--{name.replace('_', '-')} FILE" for name, (of, _) in SUBWORD_FILES.items() if of == kind]
    expected = " or ".join([*options, "--bpe none (for lines that are split already)"])
    raise InputError(path, None, f"the training data has subwords ({kind}): expected {expected}, found neither")

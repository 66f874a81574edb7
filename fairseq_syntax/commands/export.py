"""fairseq-syntax-export: a folder with all that a model needs to translate text.

    fairseq-syntax-export exported --path checkpoints/checkpoint_best.pt --data data-bin/en-de \\
        --tokenizer moses --bpe-codes codes
    fairseq-syntax-translate --path exported/model.pt < raw.en > translated.de

It writes the checkpoint without the optimizer's state, with its languages, tokenizer and kind of subwords (model.pt);
both dictionaries; the codes of BPE or sentencepiece's model; and the signature of the training data, which records how
text is parsed. The parser itself and its models are installed where the folder is used. In Python,
from_pretrained("exported") loads it.
"""

from __future__ import annotations

import argparse
import os
import shutil
from typing import Any

from omegaconf import OmegaConf

from fairseq_syntax.checkpoints.safe_loading import read
from fairseq_syntax.checkpoints.saving import drop_training_state, save
from fairseq_syntax.commands.new_text import (
    SUBWORD_FILES,
    add_data_argument,
    add_subword_arguments,
    check_subwords,
    load,
)
from fairseq_syntax.compat import remarks
from fairseq_syntax.inference.hub import SyntaxHubInterface
from syntax_data.commands.main import command_line, run
from syntax_data.errors import InputError
from syntax_data.io.atomic_write import atomic_folder


def export(args: argparse.Namespace, folder: str) -> None:
    """Write the files of a model into a folder.

    Raises:
        InputError: the checkpoint, the data-bin and the subwords do not fit each other, or a file is missing.
    """
    model = load(args)  # which is the check that all fits
    check_subwords(model, args)
    state = read(args.path)
    if state.get("cfg") is None:
        raise InputError(args.path, None, "expected a checkpoint with its configuration, found none")
    _record(state, model)
    drop_training_state(state)
    save(state, os.path.join(folder, "model.pt"))
    for path, name in _files_of_data(model).items() | _files_of_subwords(model.cfg.bpe).items():
        shutil.copyfile(path, os.path.join(folder, name))


def _record(state: dict[str, Any], model: SyntaxHubInterface) -> None:
    """Record the languages, the tokenizer and the kind of subwords in a checkpoint's configuration."""
    cfg = state["cfg"]
    task = vars(cfg["task"]) if isinstance(cfg["task"], argparse.Namespace) else cfg["task"]
    task.update(source_lang=model.task.cfg.source_lang, target_lang=model.task.cfg.target_lang)
    for kind in ("tokenizer", "bpe"):
        found: Any = model.cfg[kind] and OmegaConf.to_container(model.cfg[kind], resolve=True, enum_to_str=True)
        # Their files are beside the checkpoint, where fairseq finds them by name.
        cfg[kind] = found and {name: None if name in SUBWORD_FILES else value for name, value in found.items()}


def _files_of_data(model: SyntaxHubInterface) -> dict[str, str]:
    """Return the paths of dictionaries and signature, and their names in the folder."""
    cfg, (text,) = model.task.cfg, model.task.texts
    names = [f"dict.{lang}.txt" for lang in (cfg.source_lang, cfg.target_lang)]
    paths = [os.path.join(text.folders[0], name) for name in names]
    path, signature = text.recorded_split()
    if signature is not None:
        paths.append(path)
    elif model.task.syntax_features:
        raise InputError(path, None, "expected the signature of the training data, found none")
    return {path: os.path.basename(path) for path in paths}


def _files_of_subwords(bpe: Any) -> dict[str, str]:
    return {bpe[option]: name for option, (_, name) in SUBWORD_FILES.items() if option in (bpe or ())}


def get_parser() -> argparse.ArgumentParser:
    """The command line; fairseq's names where fairseq has the option."""
    parser = command_line("fairseq-syntax-export", __doc__)
    parser.add_argument("folder", help="the new folder")
    parser.add_argument("--path", required=True, metavar="FILE", help="the checkpoint")
    add_data_argument(parser)
    add_subword_arguments(parser)
    parser.set_defaults(cpu=True)
    return parser


def main(argv: list[str] | None = None) -> None:
    """Run the command; invalid input ends it with a message and exit status 1."""
    run("fairseq-syntax-export", get_parser, _run, argv)


def _run(args: argparse.Namespace) -> None:
    with remarks.left_out("fairseq"), atomic_folder(args.folder) as folder:
        export(args, folder)
    for name in sorted(os.listdir(args.folder)):
        print(os.path.join(args.folder, name))

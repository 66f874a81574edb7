"""fairseq-syntax-binarize: subword text and its parses to feature files beside fairseq-preprocess's output.

    fairseq-syntax-binarize --source-lang en --target-lang de --destdir data-bin/en-de \\
        --trainpref bpe/train --validpref bpe/valid --testpref bpe/test \\
        --trainparse raw/train --validparse raw/valid --testparse raw/test
    fairseq-syntax-binarize --source-lang en --target-lang de --destdir data-bin/en-de --verify

It runs before or after fairseq-preprocess, on the subword text that it reads. For each split, PREFIX.LANG is that
text; PARSE.LANG.trees (one bracketed tree a line) and PARSE.LANG.conllu (CoNLL-U, one unit a line), either or both, are
its parses: see brackets.py and conllu.py in syntax_data/ for how they say that a line has no parse. If
fairseq-syntax-parse made them, PARSE.LANG.parse.json tells how, and that neither they nor the text they were made from
have changed.

Several of these commands may run at once on different splits of one data-bin. On a split that another one is busy with,
the command stops at once. They tell by locks: empty files DIR/.syntax.SRC-TGT.LANG.SPLIT.lock, and one without SPLIT.
These stay, for a lock that is deleted can be had twice, and may be deleted when no such command runs.

With --verify it writes nothing, and checks all that it wrote to --destdir against the signature and the tokens there.
"""

from __future__ import annotations

import argparse
import itertools
import os
import platform
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict
from importlib import metadata
from typing import Any

import syntax_data
from syntax_data.commands.main import command_line, run
from syntax_data.controls import Control
from syntax_data.data_bin.encoding import Split, write_split
from syntax_data.data_bin.places import TokenFiles, signature_path
from syntax_data.data_bin.signature import Signature, SplitSignature
from syntax_data.data_bin.transaction import hidden_files, make_folder, move_into_place, read_signature
from syntax_data.data_bin.verification import verify
from syntax_data.errors import InputError, describe_path
from syntax_data.features import FEATURES
from syntax_data.features.aligned import Settings
from syntax_data.io.atomic_write import refuse_to_overwrite
from syntax_data.io.unmodified import assert_unmodified
from syntax_data.io.workers import Workers, check_workers
from syntax_data.parsers.record import check_unchanged, file_hash, read_records
from syntax_data.text import symbols
from syntax_data.text.alignment import SUBWORDS
from syntax_data.text.lines import read_lines
from syntax_data.trees import bad_parses
from syntax_data.trees.formats import FORMATS


def get_parser() -> argparse.ArgumentParser:
    """The command line."""
    parser = command_line("fairseq-syntax-binarize", __doc__)
    parser.add_argument("-s", "--source-lang", required=True, metavar="SRC", help="language of the text and its parses")
    parser.add_argument("-t", "--target-lang", required=True, metavar="TGT", help="the other language of the pair")
    for split, numbered in (("train", "train, train1"), ("valid", "valid, valid1"), ("test", "test, test1")):
        parser.add_argument(
            f"--{split}pref",
            metavar="PREFIX",
            help=f"prefix of the subword text of {split}; comma-separated ones become {numbered}, …",
        )
        parser.add_argument(
            f"--{split}parse",
            metavar="PREFIX",
            help=f"prefix of the parse files of {split}, as many as --{split}pref has (default: --{split}pref)",
        )
    parser.add_argument("--destdir", default="data-bin", metavar="DIR", help="data-bin (default: data-bin)")
    parser.add_argument(
        "--subwords",
        choices=sorted(SUBWORDS),
        default="subword_nmt",
        help="how the text marks subwords: @@ at the end of a subword, ▁ at the start of a word, or not at all "
        "(default: subword_nmt, that is @@)",
    )
    parser.add_argument(
        "--features",
        metavar="LIST",
        help=f"comma-separated ones of {', '.join(FEATURES)} (default: all that the parses allow)",
    )
    parser.add_argument("--symbols", default="", metavar="LIST", help=symbols.HELP)
    bad_parses.add_option(parser)
    parser.add_argument(
        "--binarize-trees",
        choices=["none", "left", "right"],
        default="none",
        help="make constituents of more than two children binary before taking syntactic distances: (a b c) to "
        "((a b) c) or to (a (b c)) (default: none)",
    )
    parser.add_argument(
        "--control",
        metavar="KIND",
        help="for comparisons, in the place of the real trees and heads write others: right-branching, left-branching, "
        "random or flat ones over the same words; shuffled: those of another sentence of the split with as many words; "
        "noise:P: P percent of the heads and brackets are random wrong ones; no-parse: none. random@2 draws other ones "
        "than random does, likewise shuffled@2 and noise:P@2; what each keeps and destroys is in "
        "docs/raw-text-to-data-bin.md (default: the real ones)",
    )
    parser.add_argument(
        "--parser-name",
        metavar="NAME",
        help="for the signature, who made the parses of which PARSE.LANG.parse.json does not tell (default: what the "
        "'# generator =' comment of the CoNLL-U file's first unit says)",
    )
    parser.add_argument(
        "--verify",
        action="store_true",
        help="check the features of all splits in --destdir: every file's size and hash, every sentence's length and "
        "text against the tokens, every value",
    )
    parser.add_argument("--workers", type=int, default=1, metavar="N", help="number of parallel processes (default: 1)")
    return parser


def find_splits(args: argparse.Namespace) -> list[Split]:
    """The splits that the options name. Raises :class:`InputError` for a file that is not there."""
    splits = []
    for name in ("train", "valid", "test"):
        prefixes = getattr(args, f"{name}pref")
        if not prefixes:
            if getattr(args, f"{name}parse"):
                raise ValueError(f"--{name}parse: expected --{name}pref beside it")
            continue
        texts = prefixes.split(",")
        parses = (getattr(args, f"{name}parse") or prefixes).split(",")
        if len(texts) != len(parses):
            raise ValueError(f"--{name}parse: expected {len(texts)} prefixes, as --{name}pref has, found {len(parses)}")
        for k, (text, parse) in enumerate(zip(texts, parses, strict=True)):
            splits.append(_find_split(f"{name}{k or ''}", text, parse, args.source_lang, args.features))
    if not splits:
        raise ValueError("expected at least one of --trainpref, --validpref and --testpref")
    return splits


def _find_split(name: str, text: str, parse: str, lang: str, features: str | None) -> Split:
    text_path = f"{text}.{lang}"
    if not os.path.isfile(text_path):
        raise InputError(text_path, None, f"expected a file of subword text, found {describe_path(text_path)}")
    prefix = f"{parse}.{lang}"
    paths = {kind: form.path(prefix) for kind, form in FORMATS.items()}
    parses = {kind: path for kind, path in paths.items() if os.path.isfile(path)}
    if not parses:
        raise InputError(
            prefix,
            None,
            f"expected parses in {' or '.join(paths.values())}, found neither; other places are named by --trainparse, "
            "--validparse, --testparse",
        )
    possible = [name for name, feature in FEATURES.items() if feature.source in (None, *parses)]
    wanted = features.split(",") if features else possible
    for feature in wanted:
        if feature not in FEATURES:
            raise ValueError(f"--features: expected some of {', '.join(FEATURES)}, found {feature!r}")
        if feature not in possible:
            raise InputError(f"{prefix}.{FEATURES[feature].source}", None, f"expected parses to make {feature} of")
    return Split(name, text_path, prefix, parses, [name for name in possible if name in wanted])


def describe_parsers(split: Split, name: str | None) -> dict[str, Any]:
    """What is known of the parser of each kind of a split's parses, for the signature.

    Args:
        name: who made those that have no record.

    Raises:
        InputError: the parses or their text changed after fairseq-syntax-parse.
    """
    records = check_unchanged(split.parse_prefix, list(split.parses))
    described: dict[str, dict[str, Any]] = {}
    for kind, path in split.parses.items():
        if record := records.get(kind):
            described[kind] = {
                **record.parser,
                "settings": record.settings,
                "text": record.text,
                "sha256": record.sha256,
            }
            if name:
                print(f"--parser-name is not used for {path}: {split.record} tells who made it")
        else:
            described[kind] = {"sha256": file_hash(path)}
            if maker := name or FORMATS[kind].maker(read_lines(path)):
                described[kind]["name"] = maker
    return described


def binarize(args: argparse.Namespace) -> None:
    """Binarizes the splits that `args` name. All of the output appears at the end, or none."""
    check_workers(args.workers)
    control = str(Control.read(args.control)) if args.control is not None else None
    named = symbols.read_option(args.symbols)
    splits = find_splits(args)
    if args.parser_name:
        _check_use_of_name(splits)
    languages = args.source_lang, args.target_lang
    # A data-bin made in the other direction keeps its names.
    found = (TokenFiles.find(args.destdir, split.name, *languages) for split in splits)
    pair = next((files.pair for files in found if files), languages)
    places = [TokenFiles(args.destdir, split.name, pair, args.source_lang) for split in splits]
    settings = Settings(args.subwords, args.on_bad_parse, args.binarize_trees, control, named)
    target = signature_path(args.destdir, pair, args.source_lang)
    _refuse_to_overwrite_input(splits, places, target)
    make_folder(args.destdir)
    read_signature(target)  # what is broken shows now, not in some hours
    labels = {name: ["</s>"] for name, feature in FEATURES.items() if feature.labels == ()}
    made = {}
    with Workers(args.workers) as workers, ExitStack() as stack:
        hidden = [stack.enter_context(hidden_files(files)) for files in places]
        for split, files in zip(splits, hidden, strict=True):
            with assert_unmodified(split.files):  # its hash, too, is taken here
                parser = describe_parsers(split, args.parser_name)
                counts = write_split(split, files, settings=settings, labels=labels, workers=workers)
            print(f"{split.name}: {counts}")
            if named and not counts.symbols:
                print(f"{split.name}: no --symbols in {split.text}")
            made[split.name] = SplitSignature(
                features=split.features,
                parser=parser,
                settings=asdict(settings),
                versions=_versions(),
                counts=counts.as_dict(),
                files={},  # when their labels have their last numbers
            )
        move_into_place(Signature(made, labels), hidden, target)
    if not all("name" in parser for split in made.values() for parser in split.parser.values()):
        print("the parser of some parses is not known: say --parser-name NAME to have it in the signature")
    print(f"wrote {target}")


def _check_use_of_name(splits: Sequence[Split]) -> None:
    """Raises :class:`ValueError` if records tell who made all parses, so that ``--parser-name`` has nothing to name."""
    if all(read_records(split.record).keys() >= split.parses.keys() for split in splits):
        records = ", ".join(dict.fromkeys(split.record for split in splits))
        raise ValueError(f"--parser-name: expected parses whose maker is not recorded, found that of all in {records}")


def _refuse_to_overwrite_input(splits: Sequence[Split], places: Sequence[TokenFiles], target: str) -> None:
    inputs = [path for split in splits for path in (*split.files, split.record)]
    written = (files.of_features(split.features) for split, files in zip(splits, places, strict=True))
    for path in (target, *itertools.chain.from_iterable(written)):
        refuse_to_overwrite(path, inputs)


def _versions() -> dict[str, str]:
    packages = ("fairseq-fixed", "fairseq-syntax", "numpy")
    installed = {d.name: d.version for d in metadata.distributions() if d.name in packages}
    return {"python": platform.python_version(), **installed, "fairseq-syntax": syntax_data.__version__}


def main(argv: list[str] | None = None) -> None:
    """Runs the command; broken input ends it with a message and exit status 1."""
    run("fairseq-syntax-binarize", get_parser, _run, argv)


def _run(args: argparse.Namespace) -> None:
    if not args.verify:
        binarize(args)
    elif any(getattr(args, f"{split}pref") for split in ("train", "valid", "test")):
        raise ValueError("--verify: expected no --trainpref, --validpref or --testpref beside it")
    else:
        verify(args.destdir, args.source_lang, args.target_lang)


if __name__ == "__main__":
    main()

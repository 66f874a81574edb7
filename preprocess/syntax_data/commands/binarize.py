"""fairseq-syntax-binarize: features of parses, beside fairseq-preprocess's tokens.

    fairseq-preprocess      --source-lang en --target-lang de --destdir data-bin/en-de \\
        --trainpref bpe/train --validpref bpe/valid --testpref bpe/test
    fairseq-syntax-binarize --source-lang en --target-lang de --destdir data-bin/en-de \\
        --trainpref bpe/train --validpref bpe/valid --testpref bpe/test \\
        --trainparse raw/train --validparse raw/valid --testparse raw/test
    fairseq-syntax-binarize --source-lang en --target-lang de --destdir data-bin/en-de --verify

For each split, PREFIX.LANG is the subword text that fairseq-preprocess read, which is compared with its tokens.
PARSE.LANG.trees (one bracketed tree a line) and PARSE.LANG.conllu (CoNLL-U, one sentence a line of the text), either or
both, are its parses; brackets.py and conllu.py in syntax_data/trees/ say how a line has no parse. If
fairseq-syntax-parse wrote them, PARSE.LANG.parse.json names the parser, and the hashes that tell whether parses or text
changed since. Without parses, --features word,case,position come from the subwords alone.

With --only-source, as in fairseq-preprocess, no name has a language: PREFIX is the text itself, and its parses are
PARSE.trees and PARSE.conllu.

    fairseq-preprocess      --only-source --srcdict dict.txt --destdir data/rte/input0 \\
        --trainpref train.input0.bpe --validpref valid.input0.bpe
    fairseq-syntax-binarize --only-source --destdir data/rte/input0 --subwords gpt2 --gpt2-encoder-json encoder.json \\
        --trainpref train.input0.bpe --validpref valid.input0.bpe --trainparse train.input0 --validparse valid.input0

With --word-features, DIR is the data-bin of the same text in words, whose features are read there, and spread over this
one's subwords as batches are made: one set of features for texts in any subwords.

    fairseq-preprocess      --source-lang en --target-lang de --destdir data-bin/words --trainpref tok/train
    fairseq-syntax-binarize --source-lang en --target-lang de --destdir data-bin/words --trainpref tok/train \\
        --trainparse raw/train --subwords words
    fairseq-syntax-binarize --source-lang en --target-lang de --destdir data-bin/en-de --trainpref bpe/train \\
        --word-features data-bin/words

A run writes the splits that it names, and keeps the others of the data-bin; labels keep their numbers as long as other
splits have them. One run at a time writes to a data-bin; another one stops at once.

With --verify it writes nothing, and checks all features in --destdir against the signature and the tokens there.
"""

from __future__ import annotations

import argparse
import itertools
import os
import platform
from collections.abc import Sequence
from dataclasses import asdict
from importlib import metadata
from typing import Any

import syntax_data
from syntax_data.commands.main import command_line, run
from syntax_data.controls import Control
from syntax_data.data_bin.checks import open_features, verify
from syntax_data.data_bin.encoding import Split, write_split
from syntax_data.data_bin.paths import TokenFiles, possible_pairs
from syntax_data.data_bin.signature import Signature, SplitSignature
from syntax_data.data_bin.writing import commit, staging_folder
from syntax_data.errors import InputError, describe_path
from syntax_data.features import FEATURES, is_word_label
from syntax_data.features.aligned import Settings
from syntax_data.io.atomic_write import refuse_to_overwrite
from syntax_data.io.unmodified import assert_unmodified
from syntax_data.io.workers import Workers, check_workers
from syntax_data.parsers.record import check_unchanged, file_hash, record_path
from syntax_data.text import symbols
from syntax_data.text.lines import read_lines
from syntax_data.text.subwords import SUBWORDS, check_vocabulary, subword_kind
from syntax_data.trees import bad_parses
from syntax_data.trees.formats import CONLLU, FORMATS

SPLITS = ("train", "valid", "test")
#: Options of parses, which --word-features has from the data-bin of the words.
OF_PARSES = (
    *(f"{split}parse" for split in SPLITS), "features", "word_labels", "symbols", "markers", "on_bad_parse",
    "binarize_trees", "control", "parser_name",
)  # fmt: skip


def get_parser() -> argparse.ArgumentParser:
    """The command line."""
    parser = command_line("fairseq-syntax-binarize", __doc__)
    parser.add_argument("-s", "--source-lang", metavar="SRC", help="language of the text and its parses")
    parser.add_argument("-t", "--target-lang", metavar="TGT", help="the other language of the pair")
    parser.add_argument(
        "--only-source",
        action="store_true",
        help="instead of the two: text of one language alone, whose files are named without it",
    )
    for split in SPLITS:
        parser.add_argument(
            f"--{split}pref",
            metavar="PREFIX",
            help=f"prefix of the subword text of {split}; comma-separated ones are {split}, {split}1, …",
        )
        parser.add_argument(
            f"--{split}parse",
            metavar="PREFIX",
            help=f"prefix of the parse files of {split}, as many as --{split}pref has (default: --{split}pref)",
        )
    parser.add_argument(
        "--destdir", default="data-bin", metavar="DIR", help="data-bin with the tokens (default: data-bin)"
    )
    parser.add_argument(
        "--subwords",
        metavar="KIND[:MARK]",
        default="subword_nmt",
        help=f"how the text marks subwords: {'; '.join(f'{name}: {kind.marks}' for name, kind in SUBWORDS.items())}; "
        "subword_nmt and opennmt may have another MARK; other packages may add kinds (default: subword_nmt)",
    )
    for name, kind in SUBWORDS.items():
        if kind.vocabulary_option:
            parser.add_argument(
                kind.vocabulary_option,
                metavar="FILE",
                help=f"the vocabulary that --subwords {name} needs",
            )
    parser.add_argument(
        "--features",
        metavar="LIST",
        help=f"comma-separated ones of {', '.join(FEATURES)} (default: all that the parses allow)",
    )
    parser.add_argument(
        "--word-features",
        metavar="DIR",
        help="data-bin of the same text in words (--subwords words): read its features, one set for all subwords "
        "(default: none)",
    )
    parser.add_argument(
        "--word-labels",
        metavar="LIST",
        help="comma-separated names of your own labels of words (named entities …), features, too: of each word the "
        "value of NAME=value in the column MISC of CoNLL-U, or _ (default: none)",
    )
    parser.add_argument("--symbols", default="", metavar="LIST", help=symbols.HELP)
    parser.add_argument(
        "--markers",
        default="",
        metavar="LIST",
        help="comma-separated symbols of the dictionary that mark entities in the text, and that the parser never saw; "
        "each belongs to the word that follows, at the end of a line to the last (default: none)",
    )
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
        help="for comparisons, instead of the parser's trees and heads write right-branching, left-branching, random "
        "or flat ones over the same words; shuffled: those of another sentence of the split with as many words; "
        "noise:P: P percent of the heads and brackets are random wrong ones; random-tags: the parser's, with the parts "
        "of speech in random order; dummy-tags: the parser's, with random parts of speech, relations and categories of "
        "word forms; no-parse: none. @2 after random, shuffled, noise:P, random-tags or dummy-tags draws others "
        "(default: the parser's trees)",
    )
    parser.add_argument(
        "--parser-name",
        metavar="NAME",
        help="for the signature, the parser of parses without a PARSE.LANG.parse.json (default: of CoNLL-U, the "
        "'# generator =' comment of the first sentence)",
    )
    parser.add_argument(
        "--verify",
        action="store_true",
        help="check the features of all splits in --destdir: size and hash of every file, length of every "
        "sentence, every value",
    )
    parser.add_argument("--workers", type=int, default=1, metavar="N", help="number of parallel processes (default: 1)")
    return parser


def find_splits(args: argparse.Namespace) -> list[Split]:
    """The splits that the options name; :class:`InputError` for a missing file."""
    splits = []
    vocabulary = find_vocabulary(args)
    for name in SPLITS:
        prefixes, parses = getattr(args, f"{name}pref"), getattr(args, f"{name}parse")
        if parses and not prefixes:
            raise ValueError(f"--{name}parse: expected --{name}pref beside it")
        texts = prefixes.split(",") if prefixes else []
        parsed = parses.split(",") if parses else texts
        if len(texts) != len(parsed):
            raise ValueError(f"--{name}parse: expected {len(texts)} prefixes, as --{name}pref has, found {len(parsed)}")
        for k, (text, parse) in enumerate(zip(texts, parsed, strict=True)):
            splits.append(_find_split(f"{name}{k or ''}", text, parse, args, vocabulary))
    if not splits:
        raise ValueError("expected at least one of --trainpref, --validpref and --testpref")
    return splits


def find_vocabulary(args: argparse.Namespace) -> str | None:
    """The file of ``--subwords``, if that kind needs one; :class:`ValueError` if it is missing or another's."""
    for name, kind in SUBWORDS.items():
        if name != args.subwords and kind.vocabulary_in(args) is not None:
            expected = f"expected --subwords {name} beside it, found --subwords {args.subwords}"
            raise ValueError(f"{kind.vocabulary_option}: {expected}")
    vocabulary = subword_kind(args.subwords)[0].vocabulary_in(args)
    check_vocabulary(args.subwords, vocabulary)
    return vocabulary


def _find_split(
    name: str, text_prefix: str, parse_prefix: str, args: argparse.Namespace, vocabulary: str | None
) -> Split:
    lang, other_lang = args.source_lang, args.target_lang
    tokens = TokenFiles.find(args.destdir, name, lang, other_lang)
    if tokens is None:
        path = TokenFiles(args.destdir, name, possible_pairs(lang, other_lang)[0], lang).tokens[1]
        raise InputError(path, None, "expected the tokens of this split, found none: run fairseq-preprocess first")
    text, prefix = (f"{path}.{lang}" if lang else path for path in (text_prefix, parse_prefix))
    if not os.path.isfile(text):
        raise InputError(text, None, f"expected a file of subword text, found {describe_path(text)}")
    if args.word_features:
        words = TokenFiles.find(args.word_features, name, lang, other_lang)
        if words is None or words.pair != tokens.pair:
            found = f"found {words.prefix}" if words else "found none"
            message = f"expected a data-bin with the words of {os.path.basename(tokens.prefix)}, {found}"
            raise InputError(args.word_features, None, message)
        return Split(text, prefix, {}, ["word"], tokens, vocabulary, words)
    paths = {kind: form.path(prefix) for kind, form in FORMATS.items()}
    parses = {kind: path for kind, path in paths.items() if os.path.isfile(path)}
    wanted = args.features.split(",") if args.features else []
    of_text = bool(wanted) and all(name in FEATURES and FEATURES[name].source is None for name in wanted)
    if not parses and not (of_text and parse_prefix == text_prefix):
        message = f"expected parses in {' or '.join(paths.values())}, found neither; --trainparse, --validparse and "
        raise InputError(prefix, None, f"{message}--testparse name other paths")
    possible = [name for name, feature in FEATURES.items() if feature.source in (None, *parses)]
    for feature in wanted:
        if feature not in FEATURES:
            raise ValueError(f"--features: expected some of {', '.join(FEATURES)}, found {feature!r}")
        if feature not in possible:
            raise InputError(f"{prefix}.{FEATURES[feature].source}", None, f"expected parses for {feature}, found none")
    features = [name for name in possible if name in (wanted or possible)] + read_word_labels(args.word_labels)
    if args.word_labels and CONLLU.name not in parses:
        raise InputError(CONLLU.path(prefix), None, f"expected parses with {args.word_labels} in MISC, found none")
    return Split(text, prefix, parses, features, tokens, vocabulary)


def read_word_labels(written: str | None) -> list[str]:
    """The names in a value of ``--word-labels``; :class:`ValueError` if one cannot be a name."""
    names = written.split(",") if written else []
    if len(set(names)) < len(names) or not all(map(is_word_label, names)):
        expected = f"names of letters, digits and _, each once, none of {', '.join(FEATURES)}"
        raise ValueError(f"--word-labels: expected {expected}, found {written!r}")
    return names


def describe_parsers(split: Split, name: str | None) -> dict[str, Any]:
    """The parser of each kind of a split's parses, for the signature.

    `name` is that of parses without a record. Raises :class:`InputError` if the parses or their text changed after
    fairseq-syntax-parse.
    """
    records = check_unchanged(split.parse_prefix, list(split.parses))
    described: dict[str, dict[str, Any]] = {}
    for kind, path in split.parses.items():
        if record := records.get(kind):
            made = {"settings": record.settings, "text": record.text, "sha256": record.sha256}
            described[kind] = {**record.parser, **made}
            if name:
                print(f"--parser-name is not used for {path}: {record_path(split.parse_prefix)} names the parser")
        else:
            described[kind] = {"sha256": file_hash(path)}
            if maker := name or FORMATS[kind].maker(read_lines(path)):
                described[kind]["name"] = maker
    return described


def binarize(args: argparse.Namespace) -> None:
    """Binarize the splits that `args` name; all output appears at the end, or none."""
    check_workers(args.workers)
    control = str(Control.read(args.control)) if args.control is not None else None
    named = symbols.read_option(args.symbols)
    splits = find_splits(args)
    vocabulary = splits[0].vocabulary and file_hash(splits[0].vocabulary)
    choices = (args.subwords, args.on_bad_parse, args.binarize_trees)
    settings = Settings(*choices, control, named, args.markers, vocabulary)
    of_words = {split.name: _signed_words(split, split.words) for split in splits if split.words}
    target = splits[0].tokens.signature
    inputs = [path for split in splits for path in (*split.inputs, record_path(split.parse_prefix))]
    for path in (target, *itertools.chain(*(split.tokens.features(split.features) for split in splits))):
        refuse_to_overwrite(path, inputs)
    with staging_folder(target) as folder, Workers(args.workers) as workers:
        signature = _signature_to_extend(target, splits, args.word_labels)
        for words in (split.words for split in splits if split.words):
            _take_labels(words.signature, signature, target)
        for split in splits:
            with assert_unmodified(split.inputs):  # its hash, too, is taken here
                parser = describe_parsers(split, args.parser_name)
                counts = write_split(split, folder, settings=settings, labels=signature.labels, workers=workers)
            print(f"{split.name}: {counts}")
            if named and not counts.totals["symbols"]:
                print(f"{split.name}: no --symbols in {split.text}")
            if args.markers and not counts.totals["markers"]:
                print(f"{split.name}: no --markers in {split.text}")
            signature.splits[split.name] = signed = SplitSignature(
                features=split.features,
                parser=parser,
                settings=asdict(settings),
                versions=_versions(),
                counts=counts.as_dict(),
                files={},  # those here in commit()
            )
            if split.words:
                there = of_words[split.name]
                signed.features, signed.parser = there.features, there.parser
                signed.settings = {**there.settings, "subwords": args.subwords, "vocabulary": vocabulary}
                signed.counts = {**there.counts, "subwords": signed.counts["subwords"]}
                signed.words = os.path.relpath(*map(os.path.realpath, (split.words.data, split.tokens.data)))
                names = map(os.path.basename, split.words.features(there.features))
                signed.files = {os.path.join(signed.words, name): there.files[name] for name in names}
        commit(signature, [split.tokens for split in splits], folder)
    parsed = (signature.splits[split.name] for split in splits if not split.words)
    if not all("name" in parser for split in parsed for parser in split.parser.values()):
        print("the parser of some parses is not known: --parser-name NAME writes it into the signature")
    print(f"wrote {target}")


def _signed_words(split: Split, words: TokenFiles) -> SplitSignature:
    """The signature of the features of a split's words; :class:`InputError` unless they serve for any subwords.

    What is drawn for a control depends on the subwords; a marker is no word of the text.
    """
    path = words.signature
    signature = Signature.read(path)
    found = signature.splits.get(split.name)
    if found is None:
        raise InputError(path, None, f"expected features of {split.name}, found none")
    if found.words or found.settings["subwords"] != "words" or "word" not in found.features:
        raise InputError(path, None, f"expected {split.name} of --subwords words with the feature word, found another")
    for option in ("control", "markers"):
        if value := found.settings[option]:
            raise InputError(path, None, f"expected {split.name} without --{option}, found --{option} {value}")
    if lost := found.counts.get("words_without_subword", "an earlier signature"):
        message = f"expected no word of a parse inside another word of the text, found {lost}"
        raise InputError(path, None, f"{split.name}: {message}: make this data-bin again, of the parser's words")
    open_features(words, found.features, signature)  # checks them
    return found


def _take_labels(words: str, signature: Signature, target: str) -> None:
    """Number labels as the signature `words` does; :class:`InputError` if other splits are numbered otherwise."""
    for name, labels in Signature.read(words).labels.items():
        known = signature.labels.get(name, [])
        shorter, longer = sorted((labels, known), key=len)
        if longer[: len(shorter)] != shorter:
            expected = f"expected the labels of {name} numbered as in {target}, found others"
            raise InputError(words, None, f"{expected}: write all splits of that with --word-features, in one run")
        signature.labels[name] = longer


def _signature_to_extend(path: str, splits: Sequence[Split], word_labels: str | None) -> Signature:
    """The splits of a data-bin that this run does not write, and their labels."""
    found = Signature.read(path)
    others = {name: split for name, split in found.splits.items() if name not in {split.name for split in splits}}
    own = read_word_labels(word_labels)
    labels = {name: ["</s>"] for name in (*FEATURES, *own) if FEATURES[name].labels == ()}
    return Signature(others, {**labels, **found.labels} if others else labels)


def _versions() -> dict[str, str]:
    packages = ("fairseq-fixed", "fairseq-syntax", "numpy")
    installed = {d.name: d.version for d in metadata.distributions() if d.name in packages}
    return {"python": platform.python_version(), **installed, "fairseq-syntax": syntax_data.__version__}


def main(argv: list[str] | None = None) -> None:
    """Run the command; broken input ends it with a message and exit status 1."""
    run("fairseq-syntax-binarize", get_parser, _run, argv)


def _run(args: argparse.Namespace) -> None:
    languages = [name for name in ("--source-lang", "--target-lang") if getattr(args, name[2:].replace("-", "_"))]
    if args.only_source and languages:
        hint = "leave it out where the files have languages in their names"
        raise ValueError(f"--only-source: expected no languages beside it, found {' and '.join(languages)} ({hint})")
    if not args.only_source and len(languages) < 2:
        found = languages[0] if languages else "none of them"
        raise ValueError(f"expected --source-lang and --target-lang, or --only-source, found {found}")
    if args.word_features:
        default = get_parser().get_default
        if given := [option for option in OF_PARSES if getattr(args, option) != default(option)]:
            named = ", ".join(f"--{option.replace('_', '-')}" for option in given)
            expected = f"expected the parses and settings of {args.word_features}"
            raise ValueError(f"--word-features: {expected}, found {named}")
    if not args.verify:
        binarize(args)
    elif any(getattr(args, f"{split}pref") for split in SPLITS):
        raise ValueError("--verify: expected no --trainpref, --validpref or --testpref beside it")
    else:
        verify(args.destdir, args.source_lang, args.target_lang)


if __name__ == "__main__":
    main()

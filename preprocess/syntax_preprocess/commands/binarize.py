"""fairseq-syntax-binarize: subword text and its parses to feature files beside fairseq-preprocess's output.

Runs before or after fairseq-preprocess, on the subword text that it reads. For each split, PREFIX.LANG is that
text; PARSE.LANG.trees (one bracketed tree a line) and PARSE.LANG.conllu (one block a line), either or both, are
its parses: see brackets.py and conllu.py in syntax_preprocess/ for how they say that a line has no parse. If
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
import shutil
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field
from functools import partial
from importlib import metadata
from typing import Any

import numpy as np
from tqdm import tqdm

import syntax_preprocess
from syntax_preprocess.alignment import SUBWORDS, AlignmentError, Subwords, plain_words
from syntax_preprocess.commands.main import run
from syntax_preprocess.controls import CONTROLS
from syntax_preprocess.data_bin.mmap import MmapWriter
from syntax_preprocess.data_bin.places import TokenFiles
from syntax_preprocess.data_bin.signature import Signature, SplitSignature, describe_files
from syntax_preprocess.data_bin.text_hashes import HASH, text_hashes, word_hash
from syntax_preprocess.data_bin.verification import verify
from syntax_preprocess.errors import InputError, shown
from syntax_preprocess.features import FEATURES, INFINITE, MOST_LABELS
from syntax_preprocess.features.aligned import AlignedSentence, Settings, align_sentence
from syntax_preprocess.features.distance import greatest_distance
from syntax_preprocess.formats import CONLLU, FORMATS, TREES
from syntax_preprocess.lines import read_lines, tokenize_line
from syntax_preprocess.lockstep import in_lockstep
from syntax_preprocess.ranges import Range
from syntax_preprocess.record import check_unchanged, file_hash, record_path
from syntax_preprocess.system.atomic_write import refuse_to_overwrite
from syntax_preprocess.system.locks import locked
from syntax_preprocess.system.versioned_json import EarlierVersion
from syntax_preprocess.system.workers import Workers, signals_afterwards
from syntax_preprocess.trees import DependencyTree, NoParse

LINES_A_CHUNK = 1000


def get_parser() -> argparse.ArgumentParser:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="fairseq-syntax-binarize",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
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
        help="how the text marks subwords: @@ at the end of a piece, ▁ at the start of a word, or not at all "
        "(default: subword_nmt, that is @@)",
    )
    parser.add_argument(
        "--features",
        metavar="LIST",
        help=f"comma-separated ones of {', '.join(FEATURES)} (default: all that the parses allow)",
    )
    parser.add_argument(
        "--on-mismatch",
        choices=["fail", "neutral"],
        default="fail",
        help="a parse of another text than that of its line: fail, or treat the sentence as one without a "
        "parse and count it (default: fail)",
    )
    parser.add_argument(
        "--binarize-trees",
        choices=["none", "left", "right"],
        default="none",
        help="make constituents of more than two children binary before taking syntactic distances: (a b c) to "
        "((a b) c) or to (a (b c)) (default: none)",
    )
    parser.add_argument(
        "--control",
        choices=CONTROLS,
        help="for ablations, in the place of the real trees and heads write those of right-branching or random "
        "trees of the same sizes (default: the real ones)",
    )
    parser.add_argument(
        "--parser",
        metavar="NAME",
        help="name and version of the parser, for the signature (default: from PARSE.LANG.parse.json, or the "
        "'# generator =' comment of the CoNLL-U file's first block)",
    )
    parser.add_argument(
        "--verify",
        action="store_true",
        help="check the features of all splits in --destdir: every file's size and hash, every sentence's length and "
        "text against the tokens, every value",
    )
    parser.add_argument("--workers", type=int, default=1, metavar="N", help="number of parallel processes (default: 1)")
    return parser


@dataclass(frozen=True)
class Split:
    """One split's input files, and what is to be made of them.

    Attributes:
        parses: the parse files by kind, ``trees`` and ``conllu``, either or both.
        features: names of :data:`syntax_preprocess.features.FEATURES`.
    """

    name: str
    text: str
    parse_prefix: str
    parses: dict[str, str]
    features: list[str]


@dataclass
class Chunk:
    """Features of some consecutive sentences.

    Attributes:
        lengths: for each feature, how many values each sentence has.
        values: for each feature, all values in a row.
        labels: for features that are labels, the labels that the values number here, from 1.
        text_hashes: of the sentences' subwords, ``(sentences,)``.
        counts: what is summed up for the report.
        greatest: that of which the report shows the greatest.
    """

    lengths: dict[str, np.ndarray]
    values: dict[str, np.ndarray]
    labels: dict[str, list[str]]
    text_hashes: np.ndarray
    counts: Counter[str]
    greatest: Counter[str]


@dataclass
class Report:
    """What was done to a split."""

    counts: Counter[str] = field(default_factory=Counter)
    greatest: Counter[str] = field(default_factory=Counter)

    def add(self, chunk: Chunk) -> None:
        """Takes in a chunk."""
        self.counts.update(chunk.counts)
        self.greatest |= chunk.greatest

    def no_parse(self, kind: str) -> dict[str, int]:
        """Sentences without a parse of a kind, by reason."""
        prefix = f"no_parse.{kind}."
        return {k.removeprefix(prefix): n for k, n in sorted(self.counts.items()) if k.startswith(prefix)}

    def as_dict(self, kinds: Sequence[str]) -> dict[str, Any]:
        """For the signature."""
        return {
            **{name: self.counts[name] for name in ("sentences", "words", "subwords")},
            "no_parse": {kind: self.no_parse(kind) for kind in kinds},
            "longest_distance": self.greatest["distance"],
            "deepest_tree": self.greatest["depth"],
        }

    def text(self, kinds: Sequence[str]) -> str:
        """For people."""
        sentences, words, subwords = (self.counts[name] for name in ("sentences", "words", "subwords"))
        parts = [
            f"{sentences} sentences",
            f"{words} words",
            f"{subwords} subwords ({subwords / max(words, 1):.2f} a word)",
        ]
        for kind in kinds:
            reasons = self.no_parse(kind)
            parsed = sentences - sum(reasons.values())
            without = ", ".join(f"{n} {reason}" for reason, n in reasons.items()) or "0"
            parts.append(f"{kind}: {parsed} parsed ({parsed / max(sentences, 1):.2%}), without a parse: {without}")
        if TREES.name in kinds:
            parts.append(f"longest distance {self.greatest['distance']}")
        if CONLLU.name in kinds:
            parts.append(f"deepest dependency tree {self.greatest['depth']}")
        return "; ".join(parts)


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
        raise InputError(text_path, None, "expected a file of subword text, found none")
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


class _Chunker:
    """Makes a chunk, sentence by sentence."""

    def __init__(self, split: Split, settings: Settings):
        self.split = split
        self.settings = settings
        self.rows: dict[str, list[list[int]]] = {name: [] for name in split.features}
        self.labels: dict[str, dict[str, int]] = {n: {} for n in split.features if FEATURES[n].labels == ()}
        self.word_hashes: list[int] = []
        self.lengths: list[int] = []
        self.counts: Counter[str] = Counter()
        self.greatest: Counter[str] = Counter()

    def add(self, number: int, text: str, parses: dict[str, tuple[int, Any]]) -> None:
        """Reads, checks and aligns the parses of line `number`, given unread with their own line numbers."""
        tokens = self._tokens(number, text)
        subwords = self._subwords(number, tokens)
        found = {
            kind: FORMATS[kind].parse(unit, path=self.split.parses[kind], line=place)
            for kind, (place, unit) in parses.items()
        }

        sentence = align_sentence(text, subwords, found, settings=self.settings)
        if self.settings.on_mismatch == "fail":
            for kind, error in sentence.mismatches.items():
                raise InputError(
                    self.split.parses[kind],
                    parses[kind][0],
                    f"{self.split.text}:{number}: {error} (--on-mismatch neutral takes the sentence without its parse)",
                )
        self._count(tokens, sentence)
        for name in self.split.features:
            self.rows[name].append(FEATURES[name].values(sentence, partial(self._number, name)))

    def _tokens(self, number: int, text: str) -> list[str]:
        """A line's subwords, split as fairseq splits them."""
        tokens = tokenize_line(text)
        if len(tokens) >= INFINITE:
            raise InputError(self.split.text, number, f"expected fewer than {INFINITE} subwords, found {len(tokens)}")
        for symbol in ("<pad>", "</s>"):
            if symbol in tokens:
                raise InputError(
                    self.split.text, number, f"expected text, found {symbol}, which fairseq takes for its own symbol"
                )
        self.word_hashes += map(word_hash, tokens)
        self.lengths.append(len(tokens))
        return tokens

    def _subwords(self, number: int, tokens: list[str]) -> Subwords:
        try:
            return SUBWORDS[self.settings.subwords](tokens)
        except AlignmentError as error:
            if self.settings.on_mismatch == "fail":
                raise InputError(self.split.text, number, str(error)) from None
            return plain_words(tokens)  # no parse has these words

    def _number(self, feature: str, label: str) -> int:
        numbers = self.labels[feature]
        return numbers.setdefault(label, len(numbers) + 1)

    def _count(self, tokens: list[str], sentence: AlignedSentence) -> None:
        self.counts.update(sentences=1, words=len(sentence.words), subwords=len(tokens))
        for kind in self.split.parses:
            if isinstance(parse := getattr(sentence, FORMATS[kind].attribute), NoParse):
                self.counts[f"no_parse.{kind}.{parse.reason}"] += 1
        if isinstance(sentence.dependencies, DependencyTree):
            self.greatest["depth"] = max(self.greatest["depth"], sentence.dependencies.depth)
        if sentence.distances:
            self.greatest["distance"] = max(self.greatest["distance"], greatest_distance(sentence.distances))

    def chunk(self) -> Chunk:
        """All that was added."""
        return Chunk(
            lengths={name: np.array([len(row) for row in rows], np.int32) for name, rows in self.rows.items()},
            values={
                name: np.fromiter(itertools.chain.from_iterable(rows), dtype=np.uint32)
                for name, rows in self.rows.items()
            },
            labels={name: list(numbers) for name, numbers in self.labels.items()},
            text_hashes=text_hashes(np.array(self.word_hashes, np.uint64), np.array(self.lengths)),
            counts=self.counts,
            greatest=self.greatest,
        )


def binarize_chunk(ranges: dict[str, Range], *, split: Split, settings: Settings) -> Chunk:
    """Reads, checks and aligns the parses of some lines; see :class:`Chunk`."""
    chunker = _Chunker(split, settings)
    parses = {kind: FORMATS[kind].units(ranges[kind].lines()) for kind in split.parses}
    for (number, text), *row in zip(ranges["text"].lines(), *parses.values(), strict=False):
        chunker.add(number, text, dict(zip(parses, row, strict=True)))
    return chunker.chunk()


def binarize_split(
    split: Split,
    files: TokenFiles,
    *,
    settings: Settings,
    labels: dict[str, list[str]],
    workers: Workers,
) -> Report:
    """Writes a split's features and the hashes of its text to `files`.

    Byte ranges of the files are worked on by `workers`, a bounded number at a time, and written in order: memory does
    not grow with the text, nor does the output depend on the number of workers. `labels` is added to.
    """
    report = Report()
    writers = {name: MmapWriter(files.feature(name), FEATURES[name].dtype) for name in split.features}
    work = partial(binarize_chunk, split=split, settings=settings)
    ranges = in_lockstep(split.text, split.parses, LINES_A_CHUNK)
    with open(split.text, "rb") as file:
        sentences = sum(1 for _ in file)
    with (
        open(files.text_hashes, "wb") as of_text,
        tqdm(desc=split.name, total=sentences, unit=" sentences", unit_scale=True, disable=None) as progress,
    ):
        for chunk in workers.in_order(work, ranges):
            for name, values in chunk.values.items():
                if name in chunk.labels:
                    what = f"{split.parses[FEATURES[name].source or '']}: {name}"
                    values = _renumber(values, chunk.labels[name], labels[name], what)
                writers[name].write(chunk.lengths[name], values)
            report.add(chunk)
            of_text.write(chunk.text_hashes.astype(HASH).tobytes())
            progress.update(chunk.counts["sentences"])
    for writer in writers.values():
        writer.close()
    return report


def _renumber(values: np.ndarray, here: list[str], everywhere: list[str], what: str) -> np.ndarray:
    """Numbers of a chunk's labels as numbers of all labels, to which new ones are added at the end."""
    everywhere += [label for label in here if label not in everywhere]
    if len(everywhere) > MOST_LABELS + 1:
        found = shown(everywhere[-1])
        raise ValueError(f"{what}: expected at most {MOST_LABELS} different labels, found more: {found}")
    return np.array([0, *map(everywhere.index, here)])[values]


def describe_parser(split: Split, name: str | None) -> dict[str, Any]:
    """What is known of the parser of each kind of a split's parses, for the signature.

    Raises :class:`InputError` if the parses or their text changed after fairseq-syntax-parse.
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
        else:
            described[kind] = {"sha256": file_hash(path)}
            if maker := FORMATS[kind].maker(read_lines(path)):
                described[kind]["name"] = maker
        if name:
            described[kind]["name"] = name
    return described


def binarize(args: argparse.Namespace) -> None:
    """Binarizes the splits that `args` name. All of the output appears at the end, or none."""
    most = max(64, 4 * (os.cpu_count() or 1))
    if not 1 <= args.workers <= most:
        raise ValueError(f"--workers: expected 1 to {most}, found {args.workers}")
    splits = find_splits(args)
    languages = args.source_lang, args.target_lang
    # A data-bin made in the other direction keeps its names.
    found = (TokenFiles.find(args.destdir, split.name, *languages) for split in splits)
    pair = next((files.pair for files in found if files), languages)
    places = {split.name: TokenFiles(args.destdir, split.name, pair, args.source_lang) for split in splits}
    settings = Settings(args.subwords, args.on_mismatch, args.binarize_trees, args.control)
    target = places[splits[0].name].signature
    _refuse_to_overwrite_input(splits, places)
    _make_folder(args.destdir)
    _read_signature(target, tell=True)  # what is broken shows now, not in some hours
    with Workers(args.workers) as workers, ExitStack() as stack:
        made = {}
        folders = {}
        labels = {n: ["</s>"] for n in FEATURES if FEATURES[n].labels == ()}
        for split in splits:
            hidden = os.path.join(args.destdir, f".syntax.{pair[0]}-{pair[1]}.{args.source_lang}.{split.name}")
            alone = f"to be the only one that binarizes {split.name}"
            stack.enter_context(locked(f"{hidden}.lock", seconds=0, expected=alone))
            folders[split.name] = stack.enter_context(_temporary_folder(f"{hidden}.tmp"))
        for split in splits:
            before = _identities(split)
            parser = describe_parser(split, args.parser)
            hidden_files = places[split.name].inside(folders[split.name])
            report = binarize_split(split, hidden_files, settings=settings, labels=labels, workers=workers)
            _check_identities(before)
            print(f"{split.name}: {report.text(list(split.parses))}")
            made[split.name] = SplitSignature(
                features=split.features,
                parser=parser,
                settings=asdict(settings),
                versions=_versions(),
                counts=report.as_dict(list(split.parses)),
                files={},  # when their labels have their last numbers
            )
        files = {
            split.name: places[split.name].inside(folders[split.name]).of_features(split.features) for split in splits
        }
        _move_into_place(Signature(made, labels), files, target)
    if not all("name" in parser for split in made.values() for parser in split.parser.values()):
        print("the parser of some parses is not known: say --parser NAME to have it in the signature")
    print(f"wrote {target}")


def _identities(split: Split) -> dict[str, tuple[int, ...] | None]:
    """What changes when a file that is read for a split is replaced or written to, by path."""
    return {path: _identity(path) for path in (split.text, *split.parses.values())}


def _identity(path: str) -> tuple[int, ...] | None:
    # Unlike a second hash, this also sees what was changed and changed back, and costs nothing. A file is opened for
    # it, because only then does NFS ask its server.
    try:
        with open(path, "rb") as file:
            found = os.fstat(file.fileno())
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns


def _check_identities(before: Mapping[str, tuple[int, ...] | None]) -> None:
    """Raises :class:`InputError` for a file that is another one than before: its hash, too, was taken before."""
    for path, identity in before.items():
        if _identity(path) != identity:
            raise InputError(path, None, "expected a file that stays as it is, found that it changed while it was read")


def _refuse_to_overwrite_input(splits: Sequence[Split], places: Mapping[str, TokenFiles]) -> None:
    inputs = [path for s in splits for path in (s.text, *s.parses.values(), record_path(s.parse_prefix))]
    for split in splits:
        for path in (places[split.name].signature, *places[split.name].of_features(split.features)):
            refuse_to_overwrite(path, inputs)


def _make_folder(path: str) -> None:
    try:
        os.makedirs(path, exist_ok=True)
    except OSError as error:
        raise InputError(
            path, None, f"expected a folder to write to, found none, nor can it be made: {error.strerror}"
        ) from None
    if not os.access(path, os.W_OK | os.X_OK):
        raise InputError(path, None, "expected a folder to write to, found that this is not allowed")


@contextmanager
def _temporary_folder(path: str) -> Iterator[str]:
    """A folder that is empty, whatever a run that was killed has left in it, and is deleted in the end."""
    if os.path.isdir(path) and not os.path.islink(path):
        shutil.rmtree(path)
    elif os.path.lexists(path):
        os.unlink(path)
    os.mkdir(path)
    try:
        yield path
    finally:
        shutil.rmtree(path)


def _read_signature(path: str, *, tell: bool = False) -> Signature:
    """The signature in a data-bin; an empty one where there is none, or only an earlier version's, as it can `tell`."""
    try:
        return Signature.read(path) if os.path.exists(path) else Signature()
    except EarlierVersion as error:
        if tell:
            print(f"{error}. Splits that it lists and that are not made now must be made, too")
        return Signature()


def _move_into_place(made: Signature, files: Mapping[str, list[str]], target: str) -> None:
    """Adds the files of some splits, and their signature, to a data-bin that other runs may be adding to."""
    with locked(
        f"{os.path.dirname(target)}/.{os.path.basename(target).removesuffix('.json')}.lock",
        seconds=600,
        expected="other runs to have moved their files into place by now",
    ):
        signature = _read_signature(target)
        paths = list(itertools.chain.from_iterable(files.values()))
        temporary = os.path.dirname(paths[0])
        others = {name: split for name, split in signature.splits.items() if name not in made.splits}
        # As long as other splits have them, labels keep their numbers.
        labels = _add_labels(made.labels, signature.labels if others else {}, paths, target)
        for split, of_split in files.items():
            made.splits[split].files = describe_files(of_split)
        # The signature says which files hold. It lets go of the old ones before they are replaced, so that it
        # never vouches for a mixture, wherever this is killed.
        with signals_afterwards():
            if others.keys() != signature.splits.keys():
                _replace(Signature(others, signature.labels), target, temporary)
            for path in paths:
                os.replace(path, os.path.join(os.path.dirname(target), os.path.basename(path)))
            _replace(Signature({**others, **made.splits}, labels), target, temporary)


def _add_labels(
    new: Mapping[str, list[str]], known: Mapping[str, list[str]], paths: Sequence[str], target: str
) -> dict[str, list[str]]:
    """The labels `known`, and those of the `new` ones that are not, by feature; renumbers those in files `paths`."""
    labels = {}
    for feature, found in new.items():
        labels[feature] = list(dict.fromkeys([*known.get(feature, []), *found]))
        if len(labels[feature]) > MOST_LABELS + 1:
            raise InputError(
                target,
                None,
                f"{feature}: expected at most {MOST_LABELS} different labels in all splits, found "
                f"{len(labels[feature]) - 1} with those of this run",
            )
        numbers = np.array([labels[feature].index(label) for label in found], FEATURES[feature].dtype)
        if (numbers != np.arange(len(numbers))).any():
            for path in paths:
                if path.endswith(f".{feature}.bin"):
                    _renumber_file(path, numbers)
    return labels


def _renumber_file(path: str, numbers: np.ndarray) -> None:
    values = np.memmap(path, numbers.dtype, "r+")
    for start in range(0, len(values), 1 << 20):
        part = values[start : start + (1 << 20)]
        part[:] = numbers[part]
    values.flush()


def _replace(signature: Signature, target: str, temporary: str) -> None:
    path = os.path.join(temporary, "signature")
    signature.write(path)
    os.replace(path, target)


def _versions() -> dict[str, str]:
    packages = ("fairseq-fixed", "fairseq-syntax", "numpy")
    installed = {d.name: d.version for d in metadata.distributions() if d.name in packages}
    return {"python": platform.python_version(), **installed, "fairseq-syntax": syntax_preprocess.__version__}


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

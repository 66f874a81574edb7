"""fairseq-syntax-binarize: subword text and its parses to feature files beside fairseq-preprocess's output.

Runs before or after fairseq-preprocess, on the subword text that it reads. For each split, PREFIX.LANG is that
text; PARSE.LANG.trees (one bracketed tree a line) and PARSE.LANG.conllu (one block a line), either or both, are
its parses: see fairseq_syntax/trees.py for how they say that a line has no parse.
"""

from __future__ import annotations

import argparse
import itertools
import os
import platform
import shutil
import sys
import tempfile
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from importlib import metadata
from typing import Any, TypeVar

import numpy as np
import torch
from fairseq.data.indexed_dataset import (
    MMapIndexedDatasetBuilder,
    data_file_path,
    index_file_path,
)
from fairseq.tokenizer import tokenize_line
from tqdm import tqdm

import fairseq_syntax
from fairseq_syntax.alignment import SUBWORDS, AlignmentError, check_same_words
from fairseq_syntax.data.feature_files import (
    DTYPE,
    Signature,
    SplitSignature,
    existing_pair,
    feature_prefix,
    signature_path,
)
from fairseq_syntax.errors import InputError
from fairseq_syntax.features import (
    INFINITE,
    SOURCES,
    distance_feature,
    head_feature,
    syntactic_distances,
    word_feature,
)
from fairseq_syntax.trees import conllu_blocks, parse_brackets, parse_conllu, read_lines

LINES_A_CHUNK = 1000
T = TypeVar("T")
R = TypeVar("R")


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
        help="how the text marks subwords (default: subword_nmt, that is @@)",
    )
    parser.add_argument(
        "--on-mismatch",
        choices=["fail", "neutral"],
        default="fail",
        help="a parse whose tokens are not the words of the text: fail, or treat the sentence as one without a "
        "parse and count it (default: fail)",
    )
    parser.add_argument(
        "--parser",
        metavar="NAME",
        help="name and version of the parser, for the signature (default: the first '# generator =' comment of "
        "the CoNLL-U files, if there is one)",
    )
    parser.add_argument("--workers", type=int, default=1, metavar="N", help="number of parallel processes (default: 1)")
    return parser


@dataclass(frozen=True)
class Split:
    """One split's input files."""

    name: str
    text: str
    trees: str | None
    conllu: str | None

    @property
    def kinds(self) -> list[str]:
        """The kinds of parse that there are."""
        return [kind for kind in ("trees", "conllu") if getattr(self, kind)]

    @property
    def features(self) -> list[str]:
        """The features that can be made of them."""
        return [name for name, kind in SOURCES.items() if kind is None or kind in self.kinds]


@dataclass(frozen=True)
class Line:
    """One line of text, and the parts of the parse files that belong to it, unread, with their line numbers."""

    number: int
    text: str
    trees: tuple[int, str] | None
    conllu: tuple[int, list[str]] | None


@dataclass
class Chunk:
    """Features of some consecutive sentences: for each, the sentences' lengths and all values in a row."""

    lengths: dict[str, np.ndarray]
    values: dict[str, np.ndarray]
    counts: Counter[str]
    longest_distance: int


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
            splits.append(_find_split(f"{name}{k or ''}", text, parse, args.source_lang))
    if not splits:
        raise ValueError("expected at least one of --trainpref, --validpref and --testpref")
    return splits


def _find_split(name: str, text: str, parse: str, lang: str) -> Split:
    text_path = f"{text}.{lang}"
    if not os.path.isfile(text_path):
        raise InputError(text_path, None, "expected a file of subword text, found none")
    paths = {kind: f"{parse}.{lang}.{kind}" for kind in ("trees", "conllu")}
    found = {kind: path for kind, path in paths.items() if os.path.isfile(path)}
    if not found:
        raise InputError(
            f"{parse}.{lang}",
            None,
            f"expected parses in {' or '.join(paths.values())}, found neither; "
            "other places are named by --trainparse, --validparse, --testparse",
        )
    return Split(name, text_path, found.get("trees"), found.get("conllu"))


def read_in_lockstep(split: Split) -> Iterator[Line]:
    """Yields the lines of a split's text with their parses, unread.

    Raises :class:`InputError` where one file has more lines than another.
    """
    none: Iterator[None] = itertools.repeat(None)
    trees = read_lines(split.trees) if split.trees else none
    conllu = conllu_blocks(split.conllu) if split.conllu else none
    number = 0
    for number, text in read_lines(split.text):
        line = Line(number, text, next(trees, None), next(conllu, None))
        for kind in split.kinds:
            if getattr(line, kind) is None:
                raise InputError(
                    getattr(split, kind),
                    None,
                    f"expected a parse for every line of {split.text}, found only {number - 1}",
                )
        yield line
    for kind, rest in (("trees", trees), ("conllu", conllu)):
        if getattr(split, kind) and (extra := next(rest, None)) is not None:
            raise InputError(
                getattr(split, kind),
                extra[0],
                f"expected {number} parses, one for each line of {split.text}, found more",
            )


def binarize_chunk(lines: list[Line], *, split: Split, subwords: str, on_mismatch: str) -> Chunk:
    """Reads, checks and aligns some lines' parses; see :class:`Chunk`."""
    rows: dict[str, list[list[int]]] = {name: [] for name in split.features}
    counts: Counter[str] = Counter()
    longest = 0
    for line in lines:
        tokens = _tokens(line, split)
        try:
            words, word_of = SUBWORDS[subwords](tokens)
        except AlignmentError as error:
            if on_mismatch == "fail":
                raise InputError(split.text, line.number, str(error)) from None
            words, word_of = tokens, list(range(len(tokens)))  # no parse has these words
        counts.update(sentences=1, words=len(words), subwords=len(word_of))
        rows["word"].append(word_feature(word_of))
        check = partial(_check_words, words, line=line, split=split, on_mismatch=on_mismatch, counts=counts)
        if split.trees and line.trees:
            place, text = line.trees
            trees = parse_brackets(text, path=split.trees, line=place)
            rows["distance"].append([])
            if trees is None:
                counts["no_parse.trees"] += 1
            elif check("trees", [word for tree in trees for word in tree.leaves()], place):
                distances = syntactic_distances(trees)
                longest = max([longest, *(d for d in distances if d != INFINITE)])
                rows["distance"][-1] = distance_feature(word_of, distances)
        if split.conllu and line.conllu:
            place, block = line.conllu
            dependencies = parse_conllu(block, path=split.conllu, line=place)
            rows["head"].append([])
            if dependencies is None:
                counts["no_parse.conllu"] += 1
            elif check("conllu", dependencies.tokens, place):
                rows["head"][-1] = head_feature(word_of, dependencies)
    return Chunk(
        lengths={name: np.array([len(r) for r in some]) for name, some in rows.items()},
        values={name: np.fromiter(itertools.chain.from_iterable(some), dtype=DTYPE) for name, some in rows.items()},
        counts=counts,
        longest_distance=longest,
    )


def _tokens(line: Line, split: Split) -> list[str]:
    """A line's subwords, split as fairseq splits them."""
    tokens = tokenize_line(line.text)
    if len(tokens) >= INFINITE:
        raise InputError(split.text, line.number, f"expected fewer than {INFINITE} subwords, found {len(tokens)}")
    for symbol in ("<pad>", "</s>"):
        if symbol in tokens:
            raise InputError(
                split.text, line.number, f"expected text, found {symbol}, which fairseq takes for its own symbol"
            )
    return tokens


def _check_words(
    words: list[str],
    kind: str,
    tokens: list[str],
    place: int,
    *,
    line: Line,
    split: Split,
    on_mismatch: str,
    counts: Counter[str],
) -> bool:
    """Whether a parse's tokens are the text's words; if not, counts it or raises :class:`InputError`."""
    try:
        check_same_words(words, tokens)
    except AlignmentError as error:
        if on_mismatch == "fail":
            raise InputError(getattr(split, kind), place, f"{split.text}:{line.number}: {error}") from None
        counts[f"mismatch.{kind}"] += 1
        return False
    return True


def binarize_split(
    split: Split, prefixes: dict[str, str], *, settings: dict[str, Any], executor: Executor | None, ahead: int = 0
) -> tuple[Counter[str], int]:
    """Writes a split's features to `prefixes`; returns its counts and its longest finite distance.

    Lines are read here and worked on by `executor` in chunks, a bounded number at a time, and written in
    order: memory does not grow with the text, nor does the output depend on the number of workers.
    """
    counts: Counter[str] = Counter()
    longest = 0
    builders = {
        name: MMapIndexedDatasetBuilder(data_file_path(prefix), dtype=DTYPE) for name, prefix in prefixes.items()
    }
    work = partial(binarize_chunk, split=split, **settings)
    chunks = _chunks(read_in_lockstep(split))
    with tqdm(desc=split.name, unit=" sentences", unit_scale=True, disable=None) as progress:
        for chunk in _in_order(work, chunks, executor, ahead=ahead):
            for name, builder in builders.items():
                ends = np.cumsum(chunk.lengths[name])[:-1]
                for row in np.split(chunk.values[name], ends):
                    builder.add_item(torch.from_numpy(row))
            counts.update(chunk.counts)
            longest = max(longest, chunk.longest_distance)
            progress.update(chunk.counts["sentences"])
    for name, builder in builders.items():
        builder.finalize(index_file_path(prefixes[name]))
        if not os.path.getsize(data_file_path(prefixes[name])):  # no sentence has a parse
            with open(data_file_path(prefixes[name]), "wb") as file:
                file.write(bytes(1))  # an empty file cannot be mapped; no sentence points at this
    return counts, longest


def _chunks(lines: Iterable[Line]) -> Iterator[list[Line]]:
    """Consecutive lines, :data:`LINES_A_CHUNK` at a time.

    Where reading fails, the lines before come first: an error among them (a line too many in one file, say)
    explains more than the files' different lengths.
    """
    chunk: list[Line] = []
    try:
        for line in lines:
            chunk.append(line)
            if len(chunk) == LINES_A_CHUNK:
                yield chunk
                chunk = []
    except InputError:
        yield chunk
        raise
    if chunk:
        yield chunk


def _in_order(work: Callable[[T], R], items: Iterable[T], executor: Executor | None, *, ahead: int) -> Iterator[R]:
    """map(), by `executor` if there is one, at most `ahead` items ahead of what is taken.

    Errors come in the order of the items, too: one in reading them after those in working on the earlier ones.
    """
    if executor is None:
        yield from map(work, items)
        return
    futures: deque[Future[R]] = deque()
    failure = None
    items = iter(items)
    while True:
        try:
            futures.append(executor.submit(work, next(items)))
        except StopIteration:
            break
        except InputError as error:
            failure = error
            break
        if len(futures) > ahead:
            yield futures.popleft().result()
    while futures:
        yield futures.popleft().result()
    if failure is not None:
        raise failure


def generator_comment(conllu: str | None) -> str | None:
    """The value of the first ``# generator =`` comment of a CoNLL-U file's first block."""
    if conllu is None:
        return None
    _, block = next(conllu_blocks(conllu), (0, []))
    for line in block:
        key, _, value = line.lstrip("# ").partition("=")
        if line.startswith("#") and key.strip() == "generator":
            return value.strip()
    return None


def report(split: Split, counts: Counter[str], longest: int) -> dict[str, int | dict[str, int]]:
    """Prints what was done to a split, and returns it for the signature."""
    sentences = counts["sentences"]
    no_parse = {kind: counts[f"no_parse.{kind}"] for kind in split.kinds}
    mismatch = {kind: counts[f"mismatch.{kind}"] for kind in split.kinds}
    parts = [f"{sentences} sentences", f"{counts['words']} words", f"{counts['subwords']} subwords"]
    for kind in split.kinds:
        parsed = sentences - no_parse[kind] - mismatch[kind]
        parts.append(f"{kind}: {parsed} parsed, {no_parse[kind]} without a parse, {mismatch[kind]} that do not match")
    if split.trees:
        parts.append(f"longest distance {longest}")
    print(f"{split.name}: {'; '.join(parts)}")
    return {
        "sentences": sentences,
        "words": counts["words"],
        "subwords": counts["subwords"],
        "no_parse": no_parse,
        "mismatch": mismatch,
        "longest_distance": longest,
    }


def binarize(args: argparse.Namespace) -> None:
    """Binarizes the splits that `args` name. All of the output appears at the end, or none."""
    if args.workers < 1:
        raise ValueError(f"--workers: expected at least 1, found {args.workers}")
    splits = find_splits(args)
    languages = args.source_lang, args.target_lang
    # A data-bin made in the other direction keeps its names.
    pairs = (existing_pair(args.destdir, split.name, *languages, dataset_impl=None) for split in splits)
    pair = next(filter(None, pairs), languages)
    settings = {"subwords": args.subwords, "on_mismatch": args.on_mismatch}
    os.makedirs(args.destdir, exist_ok=True)
    target = signature_path(args.destdir, pair, args.source_lang)
    signature = Signature.read(target) if os.path.exists(target) else Signature()
    temporary = tempfile.mkdtemp(prefix=".syntax-", dir=args.destdir)
    try:
        with ExitStack() as stack:
            executor = stack.enter_context(ProcessPoolExecutor(args.workers)) if args.workers > 1 else None
            made = {}
            for split in splits:
                prefixes = {
                    name: feature_prefix(temporary, split.name, pair, args.source_lang, name) for name in split.features
                }
                counts, longest = binarize_split(
                    split, prefixes, settings=settings, executor=executor, ahead=2 * args.workers
                )
                made[split.name] = SplitSignature(
                    features=split.features,
                    parser=args.parser or generator_comment(split.conllu),
                    settings=settings,
                    versions=_versions(),
                    counts=report(split, counts, longest),
                )
        files = sorted(os.listdir(temporary))
        # The signature says which files hold. It lets go of the old ones before they are replaced, so that it
        # never vouches for a mixture, wherever this is interrupted.
        rest = Signature({name: s for name, s in signature.splits.items() if name not in made})
        if rest.splits != signature.splits:
            _replace(rest, target, temporary)
        for name in files:
            os.replace(os.path.join(temporary, name), os.path.join(args.destdir, name))
        _replace(Signature({**rest.splits, **made}), target, temporary)
    finally:
        shutil.rmtree(temporary)
    if any(split.parser is None for split in made.values()):
        print("the parser is not known: say --parser NAME to have it in the signature")
    print(f"wrote {target}")


def _replace(signature: Signature, target: str, temporary: str) -> None:
    path = os.path.join(temporary, "signature")
    signature.write(path)
    os.replace(path, target)


def _versions() -> dict[str, str]:
    packages = ("fairseq-fixed", "fairseq-syntax", "numpy")
    installed = {d.name: d.version for d in metadata.distributions() if d.name in packages}
    return {"python": platform.python_version(), **installed, "fairseq-syntax": fairseq_syntax.__version__}


def main(argv: list[str] | None = None) -> None:
    """Runs the command; broken input ends it with a message and exit status 1."""
    args = get_parser().parse_args(argv)
    try:
        binarize(args)
    except (ValueError, OSError) as error:
        sys.exit(f"fairseq-syntax-binarize: error: {error}")


if __name__ == "__main__":
    main()

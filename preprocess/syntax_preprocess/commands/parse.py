"""fairseq-syntax-parse: text to parses, one unit for each line, in INPUT.conllu and INPUT.trees.

The text is cut into blocks of --batch-size lines, each of which is parsed in one call and written to the folder
PREFIX.parts; when all are there they are put together, and PREFIX.parse.json says what was done. Blocks depend
neither on where a run was stopped nor on how many share the work, so the result does not either.

    one process           fairseq-syntax-parse --lang en --input tok/train.en
    after a kill          the same with --resume
    several processes     each the same with --num-shards N --shard-id 0 (… N - 1), then one with --merge
"""

from __future__ import annotations

import argparse
import glob
import hashlib
import json
import os
import platform
import re
import shutil
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

from tqdm import tqdm

from syntax_preprocess.brackets import format_brackets
from syntax_preprocess.commands.main import run
from syntax_preprocess.conllu import format_conllu
from syntax_preprocess.errors import InputError, shown
from syntax_preprocess.lines import read_lines
from syntax_preprocess.parsers import (
    CHARACTERS_A_TOKEN,
    MAX_CHARACTERS,
    MAX_INITIAL_FAILURES,
    MAX_TOKENS,
    Line,
    Parser,
    default_characters,
    parse_lines,
    parser_class,
    parser_names,
)
from syntax_preprocess.ranges import line_ranges
from syntax_preprocess.record import ParseRecord, file_hash, read_records, record_path, write_records
from syntax_preprocess.system.atomic_write import atomic_write, refuse_to_overwrite
from syntax_preprocess.system.locks import locked
from syntax_preprocess.system.versioned_json import read_json
from syntax_preprocess.system.workers import signals_afterwards
from syntax_preprocess.trees import NoParse

_PART = re.compile(r"(work|records|[0-9]{7,})\.json(\..*\.tmp)?|whole\.(conllu|trees)|.*\.lock")
_DISCARDED = r"\.[^/]*\.[0-9]+\.done"  # .HOST.PID.done
_REASONS = 8  # that are listed


def get_parser(parser_name: str | None = None) -> argparse.ArgumentParser:
    """The command line, with the options of one parser."""
    parser = argparse.ArgumentParser(
        prog="fairseq-syntax-parse",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--input", required=True, metavar="FILE", help="text, one unit a line")
    parser.add_argument("--output-prefix", metavar="PREFIX", help="where to write PREFIX.conllu … (default: the input)")
    parser.add_argument(
        "--parser",
        choices=parser_names(),
        default="stanza",
        help="stanza parses; conllu and trees check and normalise what another parser made (default: stanza)",
    )
    parser.add_argument(
        "--max-tokens",
        type=int,
        default=MAX_TOKENS,
        metavar="N",
        help="lines of more tokens get no parse (default: %(default)s)",
    )
    parser.add_argument(
        "--max-characters",
        type=int,
        metavar="N",
        help=f"nor do lines of more characters, which no parser sees (default: {CHARACTERS_A_TOKEN} for each of "
        f"--max-tokens, at least {MAX_CHARACTERS})",
    )
    parser.add_argument(
        "--batch-size",
        type=int,
        default=1000,
        metavar="N",
        help="lines in a block, which the parser gets in one call and batches by length (default: 1000)",
    )
    parser.add_argument("--strict", action="store_true", help="a line without a parse is an error (default: counted)")
    parser.add_argument("--resume", action="store_true", help="keep the blocks that an earlier run has parsed")
    parser.add_argument("--num-shards", type=int, default=1, metavar="N", help="share the blocks among N processes")
    parser.add_argument("--shard-id", type=int, metavar="I", help="which share to parse, 0 to N - 1")
    parser.add_argument("--merge", action="store_true", help="parse nothing; put the shards' blocks together")
    if parser_name is not None:
        parser_class(parser_name).add_arguments(parser.add_argument_group(f"options of --parser {parser_name}"))
    return parser


class Job:
    """A text to be parsed, and the folder in which its parsed blocks gather."""

    def __init__(self, args: argparse.Namespace):
        self.input: str = args.input
        self.prefix: str = args.output_prefix or args.input
        self.parts = f"{self.prefix}.parts"
        self._discarded = ""
        self.strict: bool = args.strict
        self.max_tokens: int = args.max_tokens
        self.max_characters: int = args.max_characters or default_characters(args.max_tokens)
        self.lines = sum(1 for _ in read_lines(self.input))  # what is broken shows now, not in some hours
        self.blocks = list(line_ranges(self.input, args.batch_size))
        self.work: dict[str, Any] = {
            "settings": {
                "max_tokens": self.max_tokens,
                "max_characters": self.max_characters,
                "batch_size": args.batch_size,
            },
            "text": {
                "path": os.path.relpath(self.input, os.path.dirname(self.prefix) or "."),
                "lines": self.lines,
                "sha256": file_hash(self.input),
            },
        }

    def describe(self, parser: Parser) -> None:
        """Says who does the work; without it, whoever began it does."""
        self.work.update(json.loads(json.dumps({"parser": parser.describe(), "kinds": parser.kinds})))

    @contextmanager
    def open(self, shard: str | None) -> Iterator[None]:
        """Makes the folder of the parts, or, if the parser is not described, takes what is there, and keeps others out:
        with a `shard` those who do the same shard or all, else everybody.

        Raises :class:`ValueError` if another process is at it, or if it was made by other work than this; without
        blocks, and without a shard, the latter does not matter.
        """
        path = os.path.join(self.parts, "work.json")
        described = "parser" in self.work
        if described:
            os.makedirs(self.parts, exist_ok=True)
        elif not os.path.exists(path):
            raise ValueError(
                f"{self.parts}: expected the parsed blocks of {self.input} and their work.json, found none"
            )
        with ExitStack() as stack:
            stack.callback(self._delete_discarded)  # after the locks in it
            alone = "to be alone at it"
            stack.enter_context(locked(f"{self.parts}/all.lock", seconds=0, expected=alone, shared=shard is not None))
            if shard:
                lock = f"{self.parts}/{shard.replace(' ', '-')}.lock"
                stack.enter_context(locked(lock, seconds=0, expected=f"to be alone at {shard}"))
            if described:
                with locked(f"{self.parts}/work.lock", seconds=60, expected=alone):
                    nothing_done = not shard and not any(map(self.is_done, range(len(self.blocks))))
                    if nothing_done or not os.path.exists(path):
                        _write_whole(self.work, path)
            self._compare(path)
            yield

    def _compare(self, path: str) -> None:
        try:
            found = _read_whole(path, "what the blocks beside it were made from")
        except InputError as error:
            raise InputError(path, None, f"{error.message}; delete {self.parts} and begin anew") from None
        for name, expected in self.work.items():
            if found[name] != expected:
                raise ValueError(
                    f"{self.parts} holds blocks of other work, its {name} differs: expected {expected}, found "
                    f"{shown(found[name])}; give the options and the text that it was begun with, or delete it"
                )
        self.work = found

    def path(self, block: int) -> str:
        """Where a block's parses gather."""
        return os.path.join(self.parts, f"{block:07d}.json")

    def is_done(self, block: int) -> bool:
        """Whether a block has been parsed."""
        return os.path.exists(self.path(block))

    def read(self, block: int) -> dict[str, Any]:
        """What was made of a block. Raises :class:`InputError` for what was not."""
        first_line, what = self.blocks[block].first_line, f"the parses of {self.blocks[block].units} lines"
        part = _read_whole(self.path(block), what)
        if part["first_line"] != first_line:
            raise InputError(
                self.path(block),
                None,
                f"expected {what} from {first_line} on, found those from {part['first_line']} on",
            )
        return part

    def run(self, parser: Parser, mine: range, *, resume: bool) -> None:
        """Parses the blocks of `mine` that have not been parsed.

        Raises :class:`ValueError` if some have, and `resume` is not set; and if the parser fails on
        :data:`MAX_INITIAL_FAILURES` lines and has parsed none. Until it has parsed one, no block is kept in which it
        failed.
        """
        if not resume and any(self.is_done(i) for i in mine):
            raise ValueError(f"{self.parts} holds blocks of an earlier run: go on with --resume, or delete it")
        todo = {i for i in mine if not self._is_whole(i)}
        outcomes: Counter[str] = Counter()  # of this run: what an earlier one could parse says nothing of this parser
        held: dict[int, dict[str, Any]] = {}
        done = sum(self.blocks[i].units for i in mine) - sum(self.blocks[i].units for i in todo)
        with tqdm(
            desc=os.path.basename(self.input),
            total=sum(self.blocks[i].units for i in mine),
            initial=done,
            unit=" lines",
            mininterval=0.1 if sys.stderr.isatty() else 60,
        ) as progress:

            def keep() -> None:
                for i, part in held.items():
                    _write_whole(part, self.path(i))
                    progress.update(self.blocks[i].units)
                held.clear()

            for i, block in enumerate(self.blocks):
                if i not in todo and not parser.sequential:
                    continue
                lines = [Line(number, text) for number, text in block.lines()]
                part = self._part(parser, lines)
                outcomes.update(part["counts"])
                if i in todo:
                    held[i] = part
                if outcomes["parsed"] or not outcomes["no_parse.failed"]:
                    keep()
                elif outcomes["no_parse.failed"] >= MAX_INITIAL_FAILURES:
                    raise ValueError(
                        f"{self.input}: the parser failed on {outcomes['no_parse.failed']} lines up to line "
                        f"{lines[-1].number} and parsed none, and said what is above"
                    )
            keep()
        if parser.sequential:
            parser.finish()

    def _is_whole(self, block: int) -> bool:
        """Whether a block has been parsed; says so if what is there cannot be used."""
        if not self.is_done(block):
            return False
        try:
            self.read(block)
        except InputError as error:
            print(f"{error}; its lines are parsed again", file=sys.stderr)
            return False
        return True

    def _part(self, parser: Parser, lines: list[Line]) -> dict[str, Any]:
        counts: Counter[str] = Counter()
        first_without = None
        written: dict[str, list[str]] = {kind: [] for kind in parser.kinds}
        limits = {"max_tokens": self.max_tokens, "max_characters": self.max_characters}
        parses = parse_lines(parser, lines, **limits, failed=self._failed)
        for line, parse in zip(lines, parses, strict=True):
            if isinstance(parse, NoParse):
                first_without = first_without or (line.number, parse.reason)
                self._check_strictly(first_without)
                counts[f"no_parse.{parse.reason}"] += 1
                dependencies: Any = parse
                trees: Any = parse
            else:
                dependencies, trees = parse.dependencies, parse.trees
                counts.update(
                    parsed=1,
                    tokens=len(parse.tokens),
                    sentences=int(parse.sentences),
                    split_lines=int(parse.sentences > 1),
                    multiword=int(parse.multiword),
                )
            if "conllu" in written:
                written["conllu"].append(format_conllu(dependencies))
            if "trees" in written:
                written["trees"].append(format_brackets(trees))
        return {
            "first_line": lines[0].number,
            "counts": counts,
            "without": first_without,
            **{kind: "".join(units) for kind, units in written.items()},
        }

    def _check_strictly(self, without: Sequence[Any] | None) -> None:
        if self.strict and without:
            line, reason = without
            raise InputError(self.input, line, f"expected a parse (--strict), found none: {_short(reason)}")

    def _failed(self, line: Line, error: Exception) -> None:
        tqdm.write(f"{self.input}:{line.number}: the parser failed: {shown(error)}", file=sys.stderr)

    def merge(self) -> None:
        """Puts the blocks together, moves the result into place, deletes the parts and prints the report."""
        missing = [i for i in range(len(self.blocks)) if not self.is_done(i)]
        if missing:
            raise ValueError(
                f"{self.parts}: expected {len(self.blocks)} blocks, {len(missing)} are missing: "
                f"{', '.join(map(str, missing[:8]))}{' …' * (len(missing) > 8)}; give their shards' "
                "commands again with --resume (block i is of shard i modulo the number of shards)"
            )
        if file_hash(self.input) != self.work["text"]["sha256"]:
            raise InputError(self.input, None, "expected the text as it was when this began, found it changed")
        counts: Counter[str] = Counter()
        outputs = {kind: os.path.join(self.parts, f"whole.{kind}") for kind in self.work["kinds"]}
        for path in outputs.values():
            open(path, "wb").close()
        for i in range(len(self.blocks)):
            try:
                part = self.read(i)
            except InputError as error:
                hint = "delete it, and give its shard's command again with --resume"
                raise InputError(error.path, None, f"{error.message}; {hint}") from None
            self._check_strictly(part["without"])
            counts.update(part["counts"])
            for kind, path in outputs.items():
                with open(path, "ab") as output:
                    output.write(part[kind].encode("utf-8"))
        described = {name: self.work[name] for name in ("parser", "settings", "text")}
        made = {
            kind: ParseRecord(**described, sha256=file_hash(path), counts=dict(sorted(counts.items())))
            for kind, path in outputs.items()
        }
        target = record_path(self.prefix)
        rest = {kind: record for kind, record in read_records(target).items() if kind not in made}
        # The old records go before the files they tell of, and the new ones come after theirs.
        with signals_afterwards():
            self._replace_records(rest, target)
            for kind, path in outputs.items():
                os.replace(path, f"{self.prefix}.{kind}")
            self._replace_records({**rest, **made}, target)
            self.discard()
        print(report(counts, self.lines))
        print(f"wrote {', '.join(f'{self.prefix}.{kind}' for kind in outputs)} and {target}")

    def discard(self) -> None:
        """Deletes the parts, at once as far as other processes can see, in fact at the end of :meth:`open`."""
        self._discarded = f"{self.parts}.{platform.node()}.{os.getpid()}.done"
        os.rename(self.parts, self._discarded)

    def _delete_discarded(self) -> None:
        if self._discarded:
            self.sweep()

    def sweep(self) -> None:
        """Deletes parts of which a process that was killed could not delete the last."""
        for doomed in glob.glob(f"{glob.escape(self.parts)}.*.done"):
            if re.fullmatch(_DISCARDED, doomed[len(self.parts) :]) and _holds_only_parts(doomed):
                shutil.rmtree(doomed, ignore_errors=True)  # another process may be at it

    def is_finished(self) -> bool:
        """Whether all of this was done and put together before, and nothing has changed since."""
        if os.path.exists(self.parts):
            return False
        records = read_records(record_path(self.prefix))
        kinds = self.work.get("kinds", list(records))
        done = bool(kinds) and all(
            kind in records
            and all(getattr(records[kind], k) == v for k, v in self.work.items() if k != "kinds")
            and os.path.exists(f"{self.prefix}.{kind}")
            and file_hash(f"{self.prefix}.{kind}") == records[kind].sha256
            for kind in kinds
        )
        if done and self.strict and (reasons := no_parse(records[kinds[0]].counts)):
            raise ValueError(
                f"{self.prefix}: expected a parse of every line (--strict), found lines without: {reasons}"
            )
        return done

    def _replace_records(self, records: dict[str, ParseRecord], target: str) -> None:
        path = os.path.join(self.parts, "records.json")
        write_records(records, path)
        os.replace(path, target)


def no_parse(counts: Mapping[str, int]) -> str:
    """How many lines have no parse for which reason, the most frequent ones first; empty if all have one."""
    reasons = Counter({k.removeprefix("no_parse."): n for k, n in sorted(counts.items()) if k.startswith("no_parse.")})
    listed = [f"{n} {_short(reason)}" for reason, n in reasons.most_common(_REASONS)]
    others = reasons.total() - sum(n for _, n in reasons.most_common(_REASONS))
    return ", ".join([*listed, *([f"{others} others"] if others else [])])


def _short(reason: str) -> str:
    return reason if len(reason) <= 100 else shown(reason)


def report(counts: Counter[str], lines: int) -> str:
    """What was done, for people."""
    without = no_parse(counts) or "0"
    return (
        f"{lines} lines: {counts['parsed']} parsed ({counts['parsed'] / max(lines, 1):.2%}), without a parse: {without}"
        f"; {counts['tokens']} tokens ({counts['multiword']} of several words) in {counts['sentences']} sentences "
        f"({counts['split_lines']} lines have several)"
    )


def _read_whole(path: str, what: str) -> dict[str, Any]:
    """What :func:`_write_whole` wrote. Raises :class:`InputError` for anything else."""

    def check(content: Any) -> dict[str, Any]:
        if not isinstance(content, dict) or content.pop("sha256", None) != _hash(content):
            raise ValueError("another content than was written")
        return content

    return read_json(path, what, check)


def _write_whole(content: dict[str, Any], path: str) -> None:
    with atomic_write(path) as temporary, open(temporary, "w", encoding="utf-8") as file:
        json.dump({**content, "sha256": _hash(content)}, file, ensure_ascii=False)


def _hash(content: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _holds_only_parts(folder: str) -> bool:
    """Whether this is a folder, no link to one, in which there is nothing but what gathers in that of the parts."""
    try:
        with os.scandir(folder) as entries:
            return not os.path.islink(folder) and all(
                _PART.fullmatch(entry.name) and entry.is_file(follow_symlinks=False) for entry in entries
            )
    except OSError:  # a file, or deleted by another process
        return False


def check_places(prefix: str, inputs: Sequence[str]) -> None:
    """Raises :class:`ValueError` unless what is written for `prefix` can be, and harms neither `inputs` nor others."""
    for path in (prefix, *inputs):
        if path.encode("utf-8", "replace").decode() != path:
            raise ValueError(f"expected a name in UTF-8, found {shown(path)}")
    if not os.path.basename(prefix):
        raise ValueError(f"--output-prefix: expected a file's name at the end, found {prefix!r}")
    for output in (f"{prefix}.conllu", f"{prefix}.trees", record_path(prefix)):
        if os.path.isdir(output):
            raise InputError(output, None, "expected a file to write, found a folder")
        refuse_to_overwrite(output, inputs)
    parts = f"{prefix}.parts"  # in the end this is deleted with all that is in it
    found = None
    if os.path.islink(parts):
        found = "a link"
    elif os.path.isdir(parts):
        inside = (path for path in inputs if os.path.realpath(path).startswith(os.path.realpath(parts) + os.sep))
        others = (name for name in sorted(os.listdir(parts)) if not _PART.fullmatch(name))
        if read := next(inside, None):
            found = f"{read} in it, which is read"
        elif other := next(others, None):
            found = f"{other!r} in it"
    elif os.path.exists(parts):
        found = "a file"
    if found:
        raise InputError(parts, None, f"expected a folder of its own, found {found}")
    read_records(record_path(prefix))  # of which those stay that are not made anew


def parse(args: argparse.Namespace) -> None:
    """Does what the command line says."""
    for name in ("batch_size", "max_tokens", "max_characters", "num_shards"):
        if (value := getattr(args, name)) is not None and value < 1:
            raise ValueError(f"--{name.replace('_', '-')}: expected at least 1, found {value}")
    if args.merge and args.shard_id is not None:
        raise ValueError("expected --merge or --shard-id, found both")
    if not args.merge and args.shard_id is None and args.num_shards > 1:
        raise ValueError("expected --num-shards and --shard-id together")
    if not 0 <= (args.shard_id or 0) < args.num_shards:
        raise ValueError(f"--shard-id: expected 0 to {args.num_shards - 1}, found {args.shard_id}")
    if not os.path.isfile(args.input):
        raise InputError(args.input or "--input", None, "expected a text, found none")
    inputs = [args.input] if args.merge else [args.input, *parser_class(args.parser).input_files(args)]
    check_places(args.output_prefix or args.input, inputs)
    job = Job(args)
    job.sweep()
    parser = None if args.merge else parser_class(args.parser).from_arguments(args)
    if parser is not None:
        job.describe(parser)
    if (args.merge or args.resume) and job.is_finished():
        print(f"{job.prefix}: all of it was done before")
        return
    shard = None if args.shard_id is None else f"shard {args.shard_id} of {args.num_shards}"
    with job.open(shard):
        if parser is not None:
            try:
                job.run(parser, range(args.shard_id or 0, len(job.blocks), args.num_shards), resume=args.resume)
            except InputError:
                if parser.sequential and not shard:  # quickly made anew, once its file is put right
                    job.discard()
                raise
        if not shard:
            job.merge()
    if shard:
        print(f"{shard} is done; when all are, give the command with --merge")


def main(argv: list[str] | None = None) -> None:
    """Runs the command; broken input ends it with a message and exit status 1."""
    advice = "; the same command with --resume goes on"
    run("fairseq-syntax-parse", lambda: get_parser(_named_parser(argv)), parse, argv, advice=advice)


def _named_parser(argv: list[str] | None) -> str:
    """The value of --parser, which brings options of its own."""
    asked = argparse.ArgumentParser(prog="fairseq-syntax-parse", add_help=False, allow_abbrev=False)
    asked.add_argument("--parser", choices=parser_names(), default="stanza")
    name: str = asked.parse_known_args(argv)[0].parser
    return name


if __name__ == "__main__":
    main()

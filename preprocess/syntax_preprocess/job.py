"""The work of fairseq-syntax-parse: a text in batches, which any number of processes parse, and one merges.

A line of the text is a **unit**; the parser gets a **batch** of them in one call; a process does all batches, or a
**shard** of them. Batches depend neither on where a run was stopped nor on how many share the work, so the result does
not either. Parsed batches gather in the folder PREFIX.parts:

    work.json       who parses what, and how: other work is refused
    0000000.json    the first batch, and so on
    *.lock          locks, so that no two processes do the same
"""

from __future__ import annotations

import glob
import hashlib
import json
import os
import platform
import re
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from typing import Any, TypeVar

from tqdm import tqdm

from syntax_preprocess.counts import ParseCounts, TextCounts, short_reason
from syntax_preprocess.errors import InputError, shown
from syntax_preprocess.formats import FORMATS
from syntax_preprocess.lines import read_lines
from syntax_preprocess.parsers import MAX_INITIAL_FAILURES, Line, Parser, parse_lines
from syntax_preprocess.ranges import Range, line_unit_ranges
from syntax_preprocess.record import ParseRecord, file_hash, read_records, record_path, write_records
from syntax_preprocess.system.atomic_write import atomic_write
from syntax_preprocess.system.locks import locked
from syntax_preprocess.system.versioned_json import read_json
from syntax_preprocess.system.workers import signals_afterwards
from syntax_preprocess.trees import NoParse

T = TypeVar("T")

_PART = re.compile(rf"(work|records|[0-9]{{7,}})\.json(\..*\.tmp)?|whole\.({'|'.join(FORMATS)})|.*\.lock")
_DISCARDED = r"\.[^/]*\.[0-9]+\.done"  # .HOST.PID.done


def _folder(prefix: str) -> str:
    return f"{prefix}.parts"


@dataclass(frozen=True)
class Work:
    """What parses depend on, as JSON can hold it.

    Attributes:
        parser: what it says of itself.
        kinds: the kinds of parse that it makes.
        settings: limits of a line's length, and the size of a batch.
        text: its path (from the folder of PREFIX), number of lines and hash.
    """

    parser: dict[str, Any]
    kinds: list[str]
    settings: dict[str, Any]
    text: dict[str, Any]

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> Work:
        """What :func:`dataclasses.asdict` made of one. Raises :class:`KeyError` if something is missing."""
        return cls(*(content[name] for name in ("parser", "kinds", "settings", "text")))


@dataclass(frozen=True)
class Shard:
    """A process's share of the batches: each `count`-th, from batch `index` on."""

    index: int
    count: int

    def batches(self, number: int) -> range:
        """Those of `number` batches that are its own."""
        return range(self.index, number, self.count)

    def __str__(self) -> str:
        return f"shard {self.index} of {self.count}"


@dataclass(frozen=True)
class ParsedBatch:
    """What was made of a batch.

    Attributes:
        first_line: its number in the text.
        without: line and reason of the first unit without a parse.
        units: by kind of parse, its units as they are written.
    """

    first_line: int
    counts: TextCounts
    without: tuple[int, str] | None
    units: dict[str, str]

    def as_json(self) -> dict[str, Any]:
        """For :meth:`from_json`."""
        return {
            "first_line": self.first_line,
            "counts": self.counts.as_dict(),
            "without": self.without,
            **self.units,
        }

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> ParsedBatch:
        """What :meth:`as_json` made of one. Raises :class:`KeyError` if something is missing."""
        return cls(
            first_line=content["first_line"],
            counts=TextCounts.from_dict(content["counts"]),
            without=content["without"] and tuple(content["without"]),
            units={kind: content[kind] for kind in FORMATS if kind in content},
        )


class ParsePlan:
    """What is to be parsed, and how; all but by whom.

    Args:
        text: path of the text.
        prefix: the parses are written to PREFIX.conllu and PREFIX.trees.
        max_tokens: lines of more tokens have no parse.
        max_characters: nor have lines of more characters.
        batch_size: lines in a batch.
        strict: whether a line without a parse is an error.

    Attributes:
        limits: `max_tokens` and `max_characters`.
        settings: as :attr:`Work.settings`.
        text: as :attr:`Work.text`.
        batches: the lines of each batch.

    Raises:
        InputError: the text cannot be used.
    """

    def __init__(
        self, text: str, prefix: str, *, max_tokens: int, max_characters: int, batch_size: int, strict: bool = False
    ):
        lines = sum(1 for _ in read_lines(text))  # what is broken shows now, not in some hours
        self.input = text
        self.prefix = prefix
        self.strict = strict
        self.limits = {"max_tokens": max_tokens, "max_characters": max_characters}
        self.settings = {**self.limits, "batch_size": batch_size}
        self.text = {
            "path": os.path.relpath(text, os.path.dirname(prefix) or "."),
            "lines": lines,
            "sha256": file_hash(text),
        }
        self.batches: list[Range] = list(line_unit_ranges(text, batch_size))

    def work(self, parser: Parser) -> Work:
        """All that the parses depend on if this parser makes them."""
        described = json.loads(json.dumps({"parser": parser.describe(), "kinds": parser.kinds}))
        return Work(settings=self.settings, text=self.text, **described)

    def units(self, batches: Iterable[int]) -> int:
        """How many units are in some batches."""
        return sum(self.batches[i].units for i in batches)

    def check_strictly(self, without: tuple[int, str] | None) -> None:
        """Raises :class:`InputError` for a line without a parse, if that is an error."""
        if self.strict and without:
            line, reason = without
            raise InputError(self.input, line, f"expected a parse (--strict), found none: {short_reason(reason)}")

    def output(self, kind: str) -> str:
        """Path of the parses of a kind."""
        return FORMATS[kind].path(self.prefix)

    @property
    def record(self) -> str:
        """Path of the record of the parses."""
        return record_path(self.prefix)

    @property
    def folder(self) -> str:
        """Path of the folder in which the parsed batches gather."""
        return _folder(self.prefix)


class BatchStore:
    """The folder PREFIX.parts in which the parsed batches of a plan gather."""

    def __init__(self, plan: ParsePlan):
        self.plan = plan
        self.folder = plan.folder
        self._discarded = ""

    @contextmanager
    def open(self, work: Work | None, shard: Shard | None) -> Iterator[Work]:
        """Makes the folder, or takes what is there, and keeps others out: with a `shard` those who do the same shard or
        all, else everybody. Gives the work of which the batches in it are.

        Args:
            work: what is done; ``None``: what has been done is merged.
            shard: which share of it; ``None``: all.

        Raises:
            ValueError: another process is at it; or it was made by other work than this, which does not matter as long
                as it holds no batch, and all is to be done; or nothing is there to be merged.
        """
        path = os.path.join(self.folder, "work.json")
        if work is not None:
            os.makedirs(self.folder, exist_ok=True)
        elif not os.path.exists(path):
            raise ValueError(
                f"{self.folder}: expected the parsed batches of {self.plan.input} and their work.json, found none"
            )
        with ExitStack() as stack:
            stack.callback(self._delete_discarded)  # after the locks in it
            alone = "to be alone at it"
            everything = f"{self.folder}/all.lock"
            stack.enter_context(locked(everything, seconds=0, expected=alone, shared=shard is not None))
            if shard:
                share = f"{self.folder}/{str(shard).replace(' ', '-')}.lock"
                stack.enter_context(locked(share, seconds=0, expected=f"to be alone at {shard}"))
            if work is not None:
                with locked(f"{self.folder}/work.lock", seconds=60, expected=alone):
                    nothing_done = not shard and not any(map(self.holds, range(len(self.plan.batches))))
                    if nothing_done or not os.path.exists(path):
                        _write_hashed(asdict(work), path)
            yield self._same_work(path, work)

    def _same_work(self, path: str, work: Work | None) -> Work:
        try:
            found = _read_hashed(path, "what the batches beside it were made from", Work.from_json)
        except InputError as error:
            raise InputError(path, None, f"{error.message}; delete {self.folder} and begin anew") from None
        expected = {"settings": self.plan.settings, "text": self.plan.text} if work is None else asdict(work)
        for name, value in expected.items():
            if getattr(found, name) != value:
                raise ValueError(
                    f"{self.folder} holds batches of other work, its {name} differs: expected {value}, found "
                    f"{shown(getattr(found, name))}; give the options and the text that it was begun with, or delete it"
                )
        return found

    def path(self, batch: int) -> str:
        """Where a batch's parses are."""
        return os.path.join(self.folder, f"{batch:07d}.json")

    def holds(self, batch: int) -> bool:
        """Whether a batch has been parsed."""
        return os.path.exists(self.path(batch))

    def holds_whole(self, batch: int) -> bool:
        """Whether a batch has been parsed; says so if what is there cannot be used."""
        if not self.holds(batch):
            return False
        try:
            self.read(batch)
        except InputError as error:
            print(f"{error}; its lines are parsed again", file=sys.stderr)
            return False
        return True

    def read(self, batch: int) -> ParsedBatch:
        """What was made of a batch. Raises :class:`InputError` for what was not."""
        path, lines = self.path(batch), self.plan.batches[batch]
        what = f"the parses of {lines.units} lines"
        found = _read_hashed(path, what, ParsedBatch.from_json)
        if found.first_line != lines.first_line:
            places = f"from {lines.first_line} on, found those from {found.first_line} on"
            raise InputError(path, None, f"expected {what} {places}")
        return found

    def write(self, batch: int, parsed: ParsedBatch) -> None:
        """Adds a batch."""
        _write_hashed(parsed.as_json(), self.path(batch))

    def missing(self) -> list[int]:
        """The batches that have not been parsed."""
        return [i for i in range(len(self.plan.batches)) if not self.holds(i)]

    def discard(self) -> None:
        """Deletes the folder, at once as far as other processes can see, in fact at the end of :meth:`open`."""
        self._discarded = f"{self.folder}.{platform.node()}.{os.getpid()}.done"
        os.rename(self.folder, self._discarded)

    def _delete_discarded(self) -> None:
        if self._discarded:
            self.sweep()

    def sweep(self) -> None:
        """Deletes what was discarded, also by a process that was killed before it could delete the last of it."""
        for doomed in glob.glob(f"{glob.escape(self.folder)}.*.done"):
            if re.fullmatch(_DISCARDED, doomed[len(self.folder) :]) and _holds_only_parts(doomed):
                shutil.rmtree(doomed, ignore_errors=True)  # another process may be at it


def parse_batches(store: BatchStore, parser: Parser, batches: Sequence[int], *, resume: bool) -> None:
    """Parses those of some batches that have not been parsed.

    Raises :class:`ValueError` if some have, and `resume` is not set; and if the parser fails on
    :data:`MAX_INITIAL_FAILURES` lines before it has parsed one, whatever an earlier run could parse.
    """
    plan = store.plan
    if not resume and any(map(store.holds, batches)):
        raise ValueError(f"{store.folder} holds batches of an earlier run: go on with --resume, or delete it")
    todo = {i for i in batches if not store.holds_whole(i)}
    given = [i for i in range(len(plan.batches)) if i in todo or parser.sequential]
    with tqdm(
        desc=os.path.basename(plan.input),
        total=plan.units(batches),
        initial=plan.units(batches) - plan.units(todo),
        unit=" lines",
        mininterval=0.1 if sys.stderr.isatty() else 60,
    ) as progress:
        for i, parsed in _once_it_works(plan, ((i, _parse_batch(plan, parser, i)) for i in given)):
            if i in todo:
                store.write(i, parsed)
                progress.update(plan.batches[i].units)
    if parser.sequential:
        parser.finish()


def _once_it_works(plan: ParsePlan, parsed: Iterable[tuple[int, ParsedBatch]]) -> Iterator[tuple[int, ParsedBatch]]:
    """The same batches; but until the parser has parsed a line, those from the first failure on are held back.

    So no line counts as one that cannot be parsed if it is the parser that cannot: that is the :class:`ValueError`.
    """
    outcomes = ParseCounts()
    held: list[tuple[int, ParsedBatch]] = []
    for i, batch in parsed:
        held.append((i, batch))
        outcomes.update(batch.counts)
        failures = outcomes.no_parse["failed"]
        if outcomes.parsed or not failures:
            yield from held
            held.clear()
        elif failures >= MAX_INITIAL_FAILURES:
            last = plan.batches[i].first_line + plan.batches[i].units - 1
            raise ValueError(
                f"{plan.input}: the parser failed on {failures} lines up to line {last} and parsed none, "
                "and said what is above"
            )
    yield from held


def _parse_batch(plan: ParsePlan, parser: Parser, batch: int) -> ParsedBatch:
    lines = [Line(number, text) for number, text in plan.batches[batch].lines()]
    counts = TextCounts()
    without = None
    written: dict[str, list[str]] = {kind: [] for kind in parser.kinds}

    def failed(line: Line, error: Exception) -> None:
        tqdm.write(f"{plan.input}:{line.number}: the parser failed: {shown(error)}", file=sys.stderr)

    for line, parse in zip(lines, parse_lines(parser, lines, **plan.limits, failed=failed), strict=True):
        if isinstance(parse, NoParse):
            without = without or (line.number, parse.reason)
            plan.check_strictly(without)
            counts.no_parse[parse.reason] += 1
        else:
            counts.update(
                TextCounts(
                    parsed=1,
                    tokens=len(parse.tokens),
                    multiword=int(parse.multiword),
                    sentences=int(parse.sentences),
                    split_lines=int(parse.sentences > 1),
                )
            )
        for kind, units in written.items():
            made = parse if isinstance(parse, NoParse) else getattr(parse, FORMATS[kind].attribute)
            units.append(FORMATS[kind].write(made))
    return ParsedBatch(lines[0].number, counts, without, {kind: "".join(units) for kind, units in written.items()})


def merge(store: BatchStore, work: Work) -> TextCounts:
    """Puts the batches together, moves the result into place, and discards them.

    Raises :class:`ValueError` if batches are missing, or the text has changed.
    """
    plan = store.plan
    if missing := store.missing():
        raise ValueError(
            f"{store.folder}: expected {len(plan.batches)} batches, {len(missing)} are missing: "
            f"{', '.join(map(str, missing[:8]))}{' …' * (len(missing) > 8)}; give their shards' "
            "commands again with --resume (batch i is of shard i modulo the number of shards)"
        )
    if file_hash(plan.input) != work.text["sha256"]:
        raise InputError(plan.input, None, "expected the text as it was when this began, found it changed")
    wholes = {kind: os.path.join(store.folder, f"whole.{kind}") for kind in work.kinds}
    counts = _put_together(store, wholes)
    made = {
        kind: ParseRecord(work.parser, work.settings, work.text, sha256=file_hash(path), counts=counts.as_dict())
        for kind, path in wholes.items()
    }
    rest = {kind: record for kind, record in read_records(plan.record).items() if kind not in made}
    # The old records go before the files they tell of, and the new ones come after theirs.
    with signals_afterwards():
        _replace_records(store, rest)
        for kind, path in wholes.items():
            os.replace(path, plan.output(kind))
        _replace_records(store, {**rest, **made})
        store.discard()
    return counts


def _put_together(store: BatchStore, wholes: Mapping[str, str]) -> TextCounts:
    counts = TextCounts()
    with ExitStack() as stack:
        files = {kind: stack.enter_context(open(path, "wb")) for kind, path in wholes.items()}
        for i in range(len(store.plan.batches)):
            try:
                batch = store.read(i)
            except InputError as error:
                hint = "delete it, and give its shard's command again with --resume"
                raise InputError(error.path, None, f"{error.message}; {hint}") from None
            store.plan.check_strictly(batch.without)
            counts.update(batch.counts)
            for kind, file in files.items():
                file.write(batch.units[kind].encode("utf-8"))
    return counts


def _replace_records(store: BatchStore, records: dict[str, ParseRecord]) -> None:
    path = os.path.join(store.folder, "records.json")
    write_records(records, path)
    os.replace(path, store.plan.record)


def _read_hashed(path: str, what: str, build: Callable[[dict[str, Any]], T]) -> T:
    """What `build` makes of what :func:`_write_hashed` wrote. Raises :class:`InputError` for anything else."""

    def check(content: Any) -> T:
        if not isinstance(content, dict) or content.pop("sha256", None) != _hash(content):
            raise ValueError("another content than was written")
        return build(content)

    return read_json(path, what, check)


def _write_hashed(content: dict[str, Any], path: str) -> None:
    with atomic_write(path) as temporary, open(temporary, "w", encoding="utf-8") as file:
        json.dump({**content, "sha256": _hash(content)}, file, ensure_ascii=False)


def _hash(content: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _holds_only_parts(folder: str) -> bool:
    """Whether this is a folder, no link to one, in which there is nothing but what gathers in a :class:`BatchStore`."""
    try:
        with os.scandir(folder) as entries:
            return not os.path.islink(folder) and all(
                _PART.fullmatch(entry.name) and entry.is_file(follow_symlinks=False) for entry in entries
            )
    except OSError:  # a file, or deleted by another process
        return False


def check_folder(prefix: str, inputs: Sequence[str]) -> None:
    """Raises :class:`InputError` if the folder of a :class:`BatchStore` holds anything but what gathers there: in the
    end it is deleted with all that is in it."""
    folder = _folder(prefix)
    found = None
    if os.path.islink(folder):
        found = "a link"
    elif os.path.isdir(folder):
        inside = (path for path in inputs if os.path.realpath(path).startswith(os.path.realpath(folder) + os.sep))
        others = (name for name in sorted(os.listdir(folder)) if not _PART.fullmatch(name))
        if read := next(inside, None):
            found = f"{read} in it, which is read"
        elif other := next(others, None):
            found = f"{other!r} in it"
    elif os.path.exists(folder):
        found = "a file"
    if found:
        raise InputError(folder, None, f"expected a folder of its own, found {found}")

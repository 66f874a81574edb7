"""A run of fairseq-syntax-parse, shared by processes, killed and started again.

PREFIX.conllu, PREFIX.trees  the parses, moved into place when all are there
PREFIX.parse.json            what made them (:mod:`syntax_data.parsers.record`)
PREFIX.parts/                until then I-of-N.jsonl, the batches of shard I (:class:`ShardFile`), and locks
"""

from __future__ import annotations

import glob
import itertools
import json
import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from tqdm import tqdm

from syntax_data.errors import InputError, short_repr
from syntax_data.io.atomic_write import named_errors, refuse_to_overwrite
from syntax_data.io.locks import locked
from syntax_data.io.workers import signals_afterwards
from syntax_data.parsers import Parser
from syntax_data.parsers.record import ParseRecord, file_hash, read_records, record_path, write_records
from syntax_data.parsing.batches import BatchOfParses, ParserMap, ShardFile, hold_until_first_success, parse_batch
from syntax_data.parsing.word_labels import LabelFile, check_lines
from syntax_data.text.lines import read_lines
from syntax_data.text.ranges import Range, line_ranges
from syntax_data.trees.counts import TextCounts
from syntax_data.trees.formats import FORMATS

_SHARD = re.compile(r"/[0-9]+-of-([0-9]+)\.jsonl$")
_PART = re.compile(r"[0-9]+-of-[0-9]+\.(jsonl|lock)|whole\.[a-z]+")


@dataclass
class ParseRun:
    """Text that is parsed in batches, by any number of processes.

    The result depends neither on their number nor on where one was killed.

    Args:
        text, prefix: paths of the text, and of the outputs without their endings.
        max_tokens, max_characters: longer lines have no parse; ``None``: no limit.
        batch_size: lines that the parser gets in one call.
        shards: the number N of shards; shard I has each N-th batch from batch I on.
        strict: whether a line without a parse is an error.
        overwrite: whether outputs of other parsers, settings or texts are replaced.
        inputs: paths of other files that are read.
        word_labels: files of labels of words by name, for MISC of CoNLL-U.

    Raises:
        InputError: the text cannot be used, or an output cannot be written, or is one of the inputs.
    """

    text: str
    prefix: str
    max_tokens: int | None
    max_characters: int | None
    batch_size: int
    shards: int = 1
    strict: bool = False
    overwrite: bool = False
    inputs: Sequence[str] = ()
    word_labels: Mapping[str, LabelFile] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.record = record_path(self.prefix)
        self.folder = f"{self.prefix}.parts"
        self._check_paths()
        lines = sum(1 for _ in read_lines(self.text))  # a broken line is an error now, not in some hours
        self.batches: list[Range] = list(line_ranges(self.text, self.batch_size))
        limits = {"max_tokens": self.max_tokens, "max_characters": self.max_characters}
        self._parse_batch = partial(parse_batch, limits=limits, strict=self.strict, word_labels=self.word_labels)
        check_lines(self.word_labels, self.text, lines)
        labels = {name: file.sha256 for name, file in self.word_labels.items()}
        settings = {**limits, "batch_size": self.batch_size, "word_labels": labels}
        path = os.path.relpath(self.text, os.path.dirname(self.prefix) or ".")
        #: What the parses depend on besides the parser, as in :class:`ParseRecord`.
        self.source: dict[str, dict[str, Any]] = {
            "settings": {k: v for k, v in settings.items() if v},
            "text": {"path": path, "lines": lines, "sha256": file_hash(self.text)},
        }

    def _check_paths(self) -> None:
        inputs = [self.text, *self.inputs, *(file.path for file in self.word_labels.values())]
        for path in (self.prefix, *inputs):
            if path.encode("utf-8", "replace").decode() != path:
                raise ValueError(f"expected a name in UTF-8, found {short_repr(path)}")
        if not os.path.basename(self.prefix):
            raise ValueError(f"--output-prefix: expected a file's name at the end, found {self.prefix!r}")
        for path in (*map(self.output, FORMATS), self.record, *self._shard_files()):
            if os.path.isdir(path):
                raise InputError(path, None, "expected a file to write, found a folder")
            refuse_to_overwrite(path, inputs)
        read_records(self.record)

    def output(self, kind: str) -> str:
        """Return the path of the parses of a kind."""
        return FORMATS[kind].path(self.prefix)

    def parse(self, parsers: ParserMap, shard: int | None, *, sequential: bool = False) -> TextCounts | None:
        """Parse what is left of a shard, or of everything; then merge.

        Args:
            shard: its number, from 0; ``None``: everything, which is shard 0 of 1.
            sequential: the parser is one, and gets all lines from the first on.

        Returns:
            Counts of the shard or of the text; ``None`` if all of the run was done before.

        Raises:
            ValueError: another process does the same; outputs or batches of other work exist; a parser only fails.
        """
        with self._locked(f"{shard or 0}-of-{self.shards}"):
            (described,) = parsers(_describe, [None])
            work = {**described, **self.source}
            if self._is_done(work):
                return None
            counts = self._parse_shard(parsers, shard or 0, work, sequential=sequential)
            return counts if shard is not None else self._merge(work)

    def merge(self) -> TextCounts | None:
        """Write the outputs from the batches of all shards; returns and raises as :meth:`parse`."""
        files = self._shard_files()
        work = next((header for path in files for header in ShardFile(path).read()), None)
        if work is None:
            records = read_records(self.record)
            made = {kind: record for kind, record in records.items() if not _differences(record, self.source)}
            if made and all(self._is_intact(kind, record) for kind, record in made.items()):
                return None
            raise InputError(self.folder, None, f"expected the parsed batches of {self.text}, found none")
        self.shards = max(files.values())
        with self._locked("merge"):
            work |= self.source
            return None if self._is_done(work) else self._merge(work)

    def _parse_shard(self, parsers: ParserMap, shard: int, work: dict[str, Any], *, sequential: bool) -> TextCounts:
        file = ShardFile(self._shard_path(shard))
        batches = self.batches[shard :: self.shards]
        lines = file.read()
        header = next(lines, None)
        counts = TextCounts()
        done = 0
        for content in lines:
            counts.update(BatchOfParses.from_json(content).counts)
            done += 1
        begun = done
        given, known = (batches, done) if sequential else (batches[done:], 0)
        parsed = itertools.islice(parsers(self._parse_batch, given), known, None)
        progress = tqdm(
            desc=os.path.basename(self.text),
            total=sum(batch.count for batch in batches),
            initial=sum(batch.count for batch in batches[:done]),
            unit=" lines",
            mininterval=0.1 if sys.stderr.isatty() else 60,
        )
        try:
            with progress, file.append() as append:
                if header is None:
                    append(work)
                for batch in hold_until_first_success(parsed, self.text):
                    append(batch.as_json())
                    counts.update(batch.counts)
                    progress.update(batches[done].count)
                    if done == begun:  # so that a log, too, shows how long it will take
                        progress.refresh()
                    done += 1
            if sequential:
                list(parsers(_finish, [None]))
        except InputError:
            if sequential:  # once its file is corrected it is another parser, and quickly reads it again
                os.unlink(file.path)
            raise
        return counts

    def _merge(self, work: Mapping[str, Any]) -> TextCounts:
        wholes = {kind: os.path.join(self.folder, f"whole.{kind}") for kind in work["kinds"]}
        counts = self._put_together(wholes)
        if file_hash(self.text) != self.source["text"]["sha256"]:
            raise InputError(self.text, None, "expected the text as it was at the beginning, found that it changed")
        records = read_records(self.record)
        for kind, path in wholes.items():
            made = file_hash(path)
            records[kind] = ParseRecord(work["parser"], **self.source, sha256=made, counts=counts.as_dict())
        record = os.path.join(self.folder, "whole.json")
        write_records(records, record)
        # Wherever this is killed, the new record fits none but the new files, and the same command moves the rest.
        with signals_afterwards():
            os.replace(record, self.record)
            for kind, path in wholes.items():
                os.replace(path, self.output(kind))
            self._delete_parts()
        return counts

    def _put_together(self, wholes: Mapping[str, str]) -> TextCounts:
        """Write the parses of each kind. Raises :class:`ValueError` for missing batches."""
        counts = TextCounts()
        missing = set()
        files = [ShardFile(self._shard_path(shard)).read() for shard in range(self.shards)]
        readers = [itertools.islice(lines, 1, None) for lines in files]
        with ExitStack() as stack:
            written = {}
            for kind, path in wholes.items():
                stack.enter_context(named_errors(path))
                written[kind] = stack.enter_context(open(path, "wb"))
            for i in range(len(self.batches)):
                content = next(readers[i % self.shards], None)
                if content is None:
                    missing.add(i % self.shards)
                    continue
                batch = BatchOfParses.from_json(content)
                if self.strict:
                    batch.check_strictly(self.text)
                counts.update(batch.counts)
                for kind, file in written.items():
                    file.write(batch.parses[kind].encode())
        if missing:
            raise ValueError(
                f"{self.folder}: expected all batches, found that some are missing of shard "
                f"{', '.join(map(str, sorted(missing)))} of {self.shards}: give the same command of each again"
            )
        return counts

    @contextmanager
    def _locked(self, name: str) -> Iterator[None]:
        os.makedirs(self.folder, exist_ok=True)
        path = os.path.join(self.folder, f"{name}.lock")
        with locked(path, seconds=0, expected="to be the only process that does this"):
            try:
                yield
            finally:
                with suppress(FileNotFoundError):
                    os.unlink(path)
                with suppress(OSError):  # batches are in it
                    os.rmdir(self.folder)

    def _shard_path(self, shard: int) -> str:
        return os.path.join(self.folder, f"{shard}-of-{self.shards}.jsonl")

    def _shard_files(self) -> dict[str, int]:
        """Return the number of shards N of each file ``I-of-N.jsonl``, by path."""
        paths = sorted(glob.glob(f"{glob.escape(self.folder)}/*.jsonl"))
        return {path: int(found[1]) for path in paths if (found := _SHARD.search(path))}

    def _delete_parts(self) -> None:
        for name in filter(_PART.fullmatch, os.listdir(self.folder)):
            os.unlink(os.path.join(self.folder, name))

    def _is_done(self, work: Mapping[str, Any]) -> bool:
        """Return whether all outputs are there. Raises :class:`ValueError` for outputs or batches of other work."""
        conflict, finished = self._conflict(work), self._is_finished(work)
        if conflict and not finished:
            raise conflict
        if finished and conflict is None:
            self._delete_parts()  # of a run that was killed while it deleted them
        return finished

    def _conflict(self, work: Mapping[str, Any]) -> InputError | None:
        """Return an error for a shard of other work, or of another number of shards."""
        for path, count in self._shard_files().items():
            if count != self.shards:
                differences = f"it is of {count} shards, now there are {self.shards}"
            else:
                differences = _differences(next(ShardFile(path).read(), work), work)
            if differences:
                hint = f"give the options and text of its beginning, or delete {self.folder}"
                return InputError(path, None, f"expected batches of this run, found others: {differences}; {hint}")
        return None

    def _is_finished(self, work: Mapping[str, Any]) -> bool:
        """Return whether all outputs of some work exist.

        Raises :class:`ValueError` for an output of other work, unless it is to be overwritten.
        """
        records = read_records(self.record)
        finished = True
        for kind in work["kinds"]:
            record, path = records.get(kind), self.output(kind)
            if record is None:
                why = f"{self.record} does not say what made it"
            elif not (why := _differences(record, work)) and not self._is_intact(kind, record):
                why = "it was changed since it was made"
            if why and os.path.exists(path) and not self.overwrite:
                raise InputError(
                    path, None, f"expected no file of other parses, found one: {why}; --overwrite replaces it"
                )
            finished = finished and not why
        return finished

    def _is_intact(self, kind: str, record: ParseRecord) -> bool:
        """Return whether an output is the one of its record.

        Raises :class:`InputError` if lines of it have no parse and that is an error.
        """
        path = self.output(kind)
        if not os.path.exists(path) or file_hash(path) != record.sha256:
            return False
        if self.strict and (reasons := TextCounts.from_dict(record.counts).reasons()):
            raise InputError(path, None, f"expected a parse of every line (--strict), found lines without: {reasons}")
        return True


def _describe(parser: Parser, _: None) -> dict[str, Any]:
    described: dict[str, Any] = json.loads(json.dumps({"parser": parser.describe(), "kinds": parser.kinds}))
    return described


def _finish(parser: Parser, _: None) -> None:
    parser.finish()


def _differences(before: ParseRecord | Mapping[str, Any], now: Mapping[str, Any]) -> str:
    """Describe how the work `now` differs from that of before, as far as it says."""
    old = vars(before) if isinstance(before, ParseRecord) else before
    found = []
    for name in [name for name in ("parser", "settings") if name in now]:
        for key in {**old[name], **now[name]}:
            values = [f"{key} {short_repr(x[key])}" if key in x else f"no {key}" for x in (old[name], now[name])]
            if old[name].get(key) != now[name].get(key):
                found.append(f"{name} had {values[0]}, now {values[1]}")
    if old["text"] != now["text"]:
        found.append("the text was another one")
    return "; ".join(found)

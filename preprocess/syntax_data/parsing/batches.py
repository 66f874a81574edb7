"""Batches of lines: parsed by processes, and appended to the file of a shard."""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

from tqdm import tqdm

from syntax_data.errors import InputError, short_repr
from syntax_data.io.atomic_write import named_errors
from syntax_data.io.workers import Workers
from syntax_data.parsers import MAX_INITIAL_FAILURES, Line, Parser, parse_lines
from syntax_data.parsing.word_labels import LabelFile, label_words
from syntax_data.text.ranges import Range
from syntax_data.trees.counts import ParseCounts, TextCounts, short_reason
from syntax_data.trees.formats import FORMATS
from syntax_data.trees.tree import NoParse

#: Like map(), of a function whose first argument is a parser.
ParserMap = Callable[[Callable[[Parser, Any], Any], Iterable[Any]], Iterator[Any]]


@contextmanager
def open_parser(workers: int, make: Callable[[], Parser]) -> Iterator[ParserMap]:
    """Make a parser in this process, or in each of several that end with the block."""
    if workers == 1:
        parser = make()
        yield lambda function, items: map(partial(function, parser), items)
    else:
        with Workers(workers, share_cores=True) as pool:
            yield lambda function, items: pool.map_ordered(partial(_in_worker, make, function), items)


_parser_of_worker: list[Parser] = []


def _in_worker(make: Callable[[], Parser], function: Callable[[Parser, Any], Any], item: Any) -> Any:
    if not _parser_of_worker:
        _parser_of_worker.append(make())
    return function(_parser_of_worker[0], item)


@dataclass(frozen=True)
class BatchOfParses:
    """The parses of a batch, as they are in the files of their kinds.

    Attributes:
        first_line: its number in the text.
        no_parse: line and reason of the first line without a parse.
        parses: by kind.
    """

    first_line: int
    counts: TextCounts
    no_parse: tuple[int, str] | None
    parses: dict[str, str]

    def check_strictly(self, path: str) -> None:
        """Raise :class:`InputError` if a line of the text `path` has no parse."""
        if self.no_parse:
            line, reason = self.no_parse
            raise InputError(path, line, f"expected a parse (--strict), found none: {short_reason(reason)}")

    def as_json(self) -> dict[str, Any]:
        """Return the batch for JSON."""
        return {**vars(self), "counts": self.counts.as_dict()}

    @classmethod
    def from_json(cls, content: dict[str, Any]) -> BatchOfParses:
        """Return the batch from :meth:`as_json`."""
        return cls(**{**content, "counts": TextCounts.from_dict(content["counts"])})


def parse_batch(
    parser: Parser, lines: Range, *, limits: dict[str, int | None], strict: bool, word_labels: Mapping[str, LabelFile]
) -> BatchOfParses:
    """Parse a batch, with `limits` of :func:`~syntax_data.parsers.parse_lines`, and write files' `word_labels` into it.

    Raises :class:`InputError` for a line without a parse, if `strict`.
    """
    given = [Line(number, text) for number, text in lines.lines()]
    counts = TextCounts()
    no_parse = None
    entries: dict[str, list[str]] = {kind: [] for kind in parser.kinds}

    def failed(line: Line, error: Exception) -> None:
        tqdm.write(f"{lines.path}:{line.number}: the parser failed: {short_repr(error)}", file=sys.stderr)

    for line, parse in zip(given, parse_lines(parser, given, **limits, failed=failed), strict=True):
        if isinstance(parse, NoParse):
            no_parse = no_parse or (line.number, parse.reason)
            counts.no_parse[parse.reason] += 1
        else:
            if word_labels:
                label_words(parse, line, word_labels)
            counts.parsed += 1
            counts.tokens += len(parse.tokens)
            counts.multiword += int(parse.multiword)
            counts.sentences += int(parse.sentences)
            counts.split_lines += int(parse.sentences > 1)
        for kind, written in entries.items():
            entry = parse if isinstance(parse, NoParse) else getattr(parse, FORMATS[kind].attribute)
            written.append(FORMATS[kind].write(entry))
    parses = {kind: "".join(written) for kind, written in entries.items()}
    batch = BatchOfParses(given[0].number, counts, no_parse, parses)
    if strict:
        batch.check_strictly(lines.path)
    return batch


def hold_until_first_success(batches: Iterable[BatchOfParses], path: str) -> Iterator[BatchOfParses]:
    """Yield batches, but hold back failures until a line is parsed.

    So a parser that always fails is an error, and not text whose lines cannot be parsed.

    Raises :class:`ValueError`, with the `path` of the text, for :data:`MAX_INITIAL_FAILURES` failures and no parse.
    """
    outcomes = ParseCounts()
    held: list[BatchOfParses] = []
    for batch in batches:
        held.append(batch)
        outcomes.update(batch.counts)
        failures = outcomes.no_parse["failed"]
        if outcomes.parsed or not failures:
            yield from held
            held.clear()
        elif failures >= MAX_INITIAL_FAILURES:
            last = batch.first_line + batch.counts.parsed + batch.counts.no_parse.total() - 1
            raise ValueError(
                f"{path}: the parser failed on {failures} lines up to line {last} and parsed none; see the messages "
                "above, and give the same command again once it works"
            )
    yield from held


class ShardFile:
    """A file of JSON lines: first what the batches are made from, then the batches.

    Before each line is a hash of its content, its number and the file's name. A line that is torn, damaged or not at
    its place, and all after it, are not read, and overwritten.
    """

    def __init__(self, path: str):
        self.path = path
        self._lines = self._end = 0  # that have been read, and their bytes

    def read(self) -> Iterator[dict[str, Any]]:
        """Yield the content of the lines. In between the file is closed: shards are many."""
        self._lines = self._end = 0
        while os.path.exists(self.path):
            with open(self.path, "rb") as file:
                file.seek(self._end)
                line = file.readline()
            content = line.partition(b" ")[2].removesuffix(b"\n")
            if line != self._line(content):
                if line:
                    print(f"{self.path}: a line from byte {self._end} on is torn or damaged", file=sys.stderr)
                return
            self._lines += 1
            self._end += len(line)
            yield json.loads(content)

    @contextmanager
    def append(self) -> Iterator[Callable[[dict[str, Any]], None]]:
        """Yield a function that adds a line after those that have been read."""
        with named_errors(self.path), open(self.path, "r+b" if os.path.exists(self.path) else "wb") as file:
            file.truncate(self._end)
            file.seek(self._end)

            def add(content: dict[str, Any]) -> None:
                file.write(self._line(json.dumps(content, ensure_ascii=False).encode()))
                file.flush()
                self._lines += 1

            yield add

    def _line(self, content: bytes) -> bytes:
        place = f"{os.path.basename(self.path)} {self._lines} ".encode()
        return b"%s %s\n" % (hashlib.sha256(place + content).hexdigest().encode(), content)

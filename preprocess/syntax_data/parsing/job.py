"""The work of fairseq-syntax-parse: any number of processes parse the batches of a text, and one merges them."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

from tqdm import tqdm

from syntax_data.errors import InputError, short_repr
from syntax_data.io.workers import Workers, signals_afterwards
from syntax_data.parsers import MAX_INITIAL_FAILURES, Line, Parser, parse_lines
from syntax_data.parsers.record import ParseRecord, file_hash, read_records, write_records
from syntax_data.parsing.plan import Batch, ParsePlan, Work, described
from syntax_data.parsing.store import BatchStore, DoneBatch
from syntax_data.trees.counts import ParseCounts, TextCounts
from syntax_data.trees.formats import FORMATS
from syntax_data.trees.tree import NoParse


@dataclass(frozen=True)
class OpenedParser:
    """A parser, wherever it works.

    Attributes:
        described: see :func:`~syntax_data.parsing.plan.described`.
        parsed: gives what it makes of batches, in their order.
        sequential: see :class:`Parser`.
    """

    described: dict[str, Any]
    parsed: Callable[[Iterable[Batch]], Iterator[DoneBatch]]
    sequential: bool = False


@contextmanager
def open_parser(processes: int, make: Callable[[], Parser]) -> Iterator[OpenedParser]:
    """Has a parser in this process, or one in each of several that end with the block.

    Args:
        processes: how many; a sequential parser works in one alone.
        make: makes the parser.
    """
    if processes > 1:
        with Workers(processes, share_cores=True) as workers:
            (said,) = workers.map_ordered(_described_in_worker, [make])
            yield OpenedParser(said, partial(workers.map_ordered, partial(_parse_in_worker, make)))
        return
    parser = make()

    def parsed(batches: Iterable[Batch]) -> Iterator[DoneBatch]:
        yield from map(partial(_parse_batch, parser), batches)
        if parser.sequential:
            parser.finish()

    yield OpenedParser(described(parser), parsed, parser.sequential)


#: The parser of this worker process.
_own: Parser | None = None


def _own_parser(make: Callable[[], Parser]) -> Parser:
    global _own
    if _own is None:
        _own = make()
    return _own


def _described_in_worker(make: Callable[[], Parser]) -> dict[str, Any]:
    return described(_own_parser(make))


def _parse_in_worker(make: Callable[[], Parser], batch: Batch) -> DoneBatch:
    return _parse_batch(_own_parser(make), batch)


def parse_batches(store: BatchStore, parser: OpenedParser, batches: Sequence[int], *, resume: bool) -> None:
    """Parses those of some batches that have not been parsed.

    Raises :class:`ValueError` if some have, and `resume` is not set; and if the parser fails on
    :data:`MAX_INITIAL_FAILURES` lines before it has parsed one, whatever an earlier run could parse.
    """
    plan = store.plan
    if not resume and any(map(store.holds, batches)):
        raise ValueError(f"{store.folder} holds batches of an earlier run: go on with --resume, or delete it")
    todo = {i for i in batches if not store.holds_whole(i)}
    first = min(todo, default=None)
    given = [i for i in range(len(plan.batches)) if i in todo or parser.sequential]
    with tqdm(
        desc=os.path.basename(plan.input),
        total=plan.line_count(batches),
        initial=plan.line_count(batches) - plan.line_count(todo),
        unit=" lines",
        mininterval=0.1 if sys.stderr.isatty() else 60,
    ) as progress:
        parsed = zip(given, parser.parsed(map(plan.batch, given)), strict=True)
        for i, done in _once_it_works(plan, parsed):
            if i in todo:
                store.write(i, done)
                progress.update(plan.batches[i].count)
                if i == first:  # how long it will take, in a log too
                    progress.refresh()


def _once_it_works(plan: ParsePlan, parsed: Iterable[tuple[int, DoneBatch]]) -> Iterator[tuple[int, DoneBatch]]:
    """The same batches; but until the parser has parsed a line, those from the first failure on are held back.

    So no line counts as one that cannot be parsed if it is the parser that cannot: that is the :class:`ValueError`.
    """
    outcomes = ParseCounts()
    held: list[tuple[int, DoneBatch]] = []
    for i, batch in parsed:
        held.append((i, batch))
        outcomes.update(batch.counts)
        failures = outcomes.no_parse["failed"]
        if outcomes.parsed or not failures:
            yield from held
            held.clear()
        elif failures >= MAX_INITIAL_FAILURES:
            last = plan.batches[i].first_line + plan.batches[i].count - 1
            raise ValueError(
                f"{plan.input}: the parser failed on {failures} lines up to line {last} and parsed none, "
                "and said what is above"
            )
    yield from held


def _parse_batch(parser: Parser, batch: Batch) -> DoneBatch:
    """What a parser makes of a batch. Raises :class:`InputError` for a line without a parse, if that is an error."""
    lines = [Line(number, text) for number, text in batch.lines.lines()]
    counts = TextCounts()
    without = None
    written: dict[str, list[str]] = {kind: [] for kind in parser.kinds}

    def failed(line: Line, error: Exception) -> None:
        tqdm.write(f"{batch.lines.path}:{line.number}: the parser failed: {short_repr(error)}", file=sys.stderr)

    for line, parse in zip(lines, parse_lines(parser, lines, **batch.limits, failed=failed), strict=True):
        if isinstance(parse, NoParse):
            without = without or (line.number, parse.reason)
            batch.check_strictly(without)
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
    return DoneBatch(lines[0].number, counts, without, {kind: "".join(units) for kind, units in written.items()})


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
            store.plan.batch(i).check_strictly(batch.without)
            counts.update(batch.counts)
            for kind, file in files.items():
                file.write(batch.written[kind].encode("utf-8"))
    return counts


def _replace_records(store: BatchStore, records: dict[str, ParseRecord]) -> None:
    path = os.path.join(store.folder, "records.json")
    write_records(records, path)
    os.replace(path, store.plan.record)

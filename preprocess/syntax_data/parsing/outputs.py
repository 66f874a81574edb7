"""What lies where fairseq-syntax-parse writes: the parses of an earlier run, or files that are not to be harmed."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from syntax_data.errors import InputError, short_repr
from syntax_data.io.atomic_write import refuse_to_overwrite
from syntax_data.parsers.record import ParseRecord, file_hash, read_records, record_path
from syntax_data.parsing.plan import ParsePlan, Work
from syntax_data.parsing.store import check_folder
from syntax_data.trees.counts import TextCounts
from syntax_data.trees.formats import FORMATS


def check_places(prefix: str, inputs: Sequence[str]) -> None:
    """Raises :class:`ValueError` unless what is written for `prefix` can be, and harms neither `inputs` nor others."""
    for path in (prefix, *inputs):
        if path.encode("utf-8", "replace").decode() != path:
            raise ValueError(f"expected a name in UTF-8, found {short_repr(path)}")
    if not os.path.basename(prefix):
        raise ValueError(f"--output-prefix: expected a file's name at the end, found {prefix!r}")
    for output in (*(parses.path(prefix) for parses in FORMATS.values()), record_path(prefix)):
        if os.path.isdir(output):
            raise InputError(output, None, "expected a file to write, found a folder")
        refuse_to_overwrite(output, inputs)
    check_folder(prefix, inputs)
    read_records(record_path(prefix))  # of which those stay that are not made anew


def is_finished(plan: ParsePlan, work: Work | None) -> bool:
    """Whether all of this was done and merged before, and nothing has changed since.

    Args:
        work: what is asked for; ``None``: whatever parser did it, and whichever kinds of parse it made.

    Raises:
        ValueError: it was, but there are lines without a parse, which the plan forbids; or (without `work`) one of the
            files that were made together is missing or was changed.
    """
    if os.path.exists(plan.folder):
        return False
    made = {
        kind: record
        for kind, record in read_records(plan.record).items()
        if (record.settings, record.text) == (plan.settings, plan.text)
        and (work is None or record.parser == work.parser)
    }
    intact = {kind: record for kind, record in made.items() if _is_there(plan.output(kind), record)}
    if not intact or (work is not None and not intact.keys() >= set(work.kinds)):
        return False
    if work is None:
        _check_none_is_lost(plan, made, intact)
    for record in intact.values() if plan.strict else ():
        if reasons := TextCounts.from_dict(record.counts).reasons():
            raise ValueError(
                f"{plan.prefix}: expected a parse of every line (--strict), found lines without: {reasons}"
            )
    return True


def _check_none_is_lost(plan: ParsePlan, made: dict[str, ParseRecord], intact: dict[str, ParseRecord]) -> None:
    """Raises :class:`InputError` for a file that was made together with one that is there, and is not as it was."""
    parsers = [record.parser for record in intact.values()]
    for kind, record in made.items():
        if kind not in intact and record.parser in parsers:
            path = plan.output(kind)
            found = "it changed since" if os.path.exists(path) else "none"
            raise InputError(
                path, None, f"expected the file that {plan.record} tells of, found {found}: parse the text anew"
            )


def _is_there(path: str, record: ParseRecord) -> bool:
    return os.path.exists(path) and file_hash(path) == record.sha256


def what_becomes_of_others(plan: ParsePlan, work: Work) -> list[str]:
    """What to tell the user before this work replaces files that other work made, or puts its own beside them.

    Files of the same work, and files and records that are not there, are not mentioned.
    """
    records = read_records(plan.record)
    lines: dict[str, list[str]] = {}  # paths by what is said of them
    for kind in FORMATS:
        path, record = plan.output(kind), records.get(kind)
        if os.path.exists(path):
            if record is None:
                why = f"{plan.record} does not tell who made it"
            elif not _is_there(path, record):
                why = "it was changed since it was made"
            else:
                why = _differences(record, work)
                if why and kind not in work.kinds:
                    why = f"made by {short_repr(record.parser.get('name'))}"
            what = "will be replaced" if kind in work.kinds else "stays as it is"
            if why:
                lines.setdefault(f"{what} ({why})", []).append(path)
        elif record is not None and kind not in work.kinds:
            lines.setdefault(f"stays missing, though {plan.record} tells of it, for this makes none", []).append(path)
    return [f"{', '.join(paths)}: {what}" for what, paths in lines.items()]


def _differences(record: ParseRecord, work: Work) -> str:
    """How the work differs from that which a record tells of; empty if it does not."""
    found = []
    for name in ("parser", "settings"):
        before, now = getattr(record, name), getattr(work, name)
        keys = [key for key in {**before, **now} if before.get(key) != now.get(key)]
        found += [f"{name} had {_named(key, before)}, now {_named(key, now)}" for key in keys]
    if record.text["sha256"] != work.text["sha256"]:
        found.append("the text was another one")
    return "; ".join(found)


def _named(key: str, values: dict[str, Any]) -> str:
    return f"{key} {short_repr(values[key])}" if key in values else f"no {key}"

"""The file ``X.parse.json``: the origin of ``X.conllu`` and ``X.trees``."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from syntax_data.errors import InputError
from syntax_data.io.atomic_write import named_errors
from syntax_data.io.versioned_json import check_types, read_versioned

FORMAT_VERSION = 1


@dataclass
class ParseRecord:
    """Origin of the parses of one kind.

    Attributes:
        parser: its name, version and models.
        settings: those that the parses depend on.
        text: path (from the record's folder), number of lines and hash of the text that was parsed.
        sha256: hash of the file of parses.
        counts: those of :class:`~syntax_data.trees.counts.TextCounts`.
    """

    parser: dict[str, Any]
    settings: dict[str, Any]
    text: dict[str, Any]
    sha256: str
    counts: dict[str, Any]


def read_records(path: str) -> dict[str, ParseRecord]:
    """Return the record of each kind of parse; none if there is no file.

    Raises :class:`InputError` for another format or version.
    """
    if not os.path.exists(path):
        return {}
    return read_versioned(path, FORMAT_VERSION, "records of fairseq-syntax-parse", _build)


def _build(content: Any) -> dict[str, ParseRecord]:
    check_types("the file", content, {"format_version": int, "parses": dict})
    for kind, record in content["parses"].items():
        check_types(kind, record, {"parser": dict, "settings": dict, "text": dict, "sha256": str, "counts": dict})
        check_types(f"the text of {kind}", record["text"], {"path": str, "lines": int, "sha256": str})
        check_types(f"the counts of {kind}", record["counts"], dict.fromkeys(record["counts"], int))
    return {kind: ParseRecord(**record) for kind, record in content["parses"].items()}


def write_records(records: dict[str, ParseRecord], path: str) -> None:
    """Write records, by kind of parse."""
    parses = {kind: asdict(record) for kind, record in records.items()}
    with named_errors(path), open(path, "w", encoding="utf-8") as file:
        json.dump({"format_version": FORMAT_VERSION, "parses": parses}, file, indent=1, ensure_ascii=False)
        file.write("\n")


def record_path(prefix: str) -> str:
    """Return the path of the record of the parses ``prefix.conllu`` and ``prefix.trees``."""
    return f"{prefix}.parse.json"


def file_hash(path: str) -> str:
    """Return the SHA-256 of a file."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def check_unchanged(prefix: str, kinds: Sequence[str]) -> dict[str, ParseRecord]:
    """Return the records of those of the parses ``prefix.KIND`` that have one.

    Raises :class:`InputError` if they, or the text that was parsed, changed since; prints if there is no such text.
    """
    path = record_path(prefix)
    records = {kind: record for kind, record in read_records(path).items() if kind in kinds}
    hashes = {f"{prefix}.{kind}": record.sha256 for kind, record in records.items()}
    for record in records.values():
        hashes[os.path.normpath(os.path.join(os.path.dirname(path), record.text["path"]))] = record.text["sha256"]
    for changed, expected in hashes.items():
        if not os.path.exists(changed):
            print(f"{path}: the text that was parsed, {changed}, does not exist; whether it changed was not checked")
        elif file_hash(changed) != expected:
            raise InputError(
                changed,
                None,
                f"expected the file that {path} records, found it changed since: parse the text again, or, if the "
                "parses were changed on purpose, delete that record",
            )
    return records

"""What fairseq-syntax-parse is to do: which text, cut into which batches, parsed how, by whom.

A line of the text is a **unit**; the parser gets a **batch** of them in one call; a process does all batches, or a
**shard** of them. Batches depend neither on where a run was stopped nor on how many share the work, so the result does
not either.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from syntax_data.errors import InputError
from syntax_data.parsers import Parser
from syntax_data.parsers.record import file_hash, record_path
from syntax_data.text.lines import read_lines
from syntax_data.text.ranges import Range, line_ranges
from syntax_data.trees.counts import short_reason
from syntax_data.trees.formats import FORMATS


def folder_of(prefix: str) -> str:
    """Path of the folder in which the parsed batches of the text `prefix` gather."""
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
class Batch:
    """What a parser gets in one call.

    Attributes:
        lines: where they are.
        limits: ``max_tokens`` and ``max_characters`` of a line that gets a parse; ``None``: any number.
        strict: whether a line without a parse is an error.
    """

    lines: Range
    limits: dict[str, int | None]
    strict: bool

    def check_strictly(self, without: tuple[int, str] | None) -> None:
        """Raises :class:`InputError` for a line without a parse, if that is an error."""
        if self.strict and without:
            line, reason = without
            raise InputError(self.lines.path, line, f"expected a parse (--strict), found none: {short_reason(reason)}")


def described(parser: Parser) -> dict[str, Any]:
    """What a parser says of itself and the kinds of parse that it makes, as :class:`Work` has them."""
    said: dict[str, Any] = json.loads(json.dumps({"parser": parser.describe(), "kinds": parser.kinds}))
    return said


class ParsePlan:
    """What is to be parsed, and how; all but by whom.

    Args:
        text: path of the text.
        prefix: the parses are written to PREFIX.conllu and PREFIX.trees.
        max_tokens: lines of more tokens have no parse; ``None``: any number.
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
        self,
        text: str,
        prefix: str,
        *,
        max_tokens: int | None,
        max_characters: int | None,
        batch_size: int,
        strict: bool = False,
    ):
        lines = sum(1 for _ in read_lines(text))  # what is broken shows now, not in some hours
        self.input = text
        self.prefix = prefix
        self.strict = strict
        self.limits = {"max_tokens": max_tokens, "max_characters": max_characters}
        limits = {name: limit for name, limit in self.limits.items() if limit is not None}
        self.settings = {**limits, "batch_size": batch_size}
        self.text = {
            "path": os.path.relpath(text, os.path.dirname(prefix) or "."),
            "lines": lines,
            "sha256": file_hash(text),
        }
        self.batches: list[Range] = list(line_ranges(text, batch_size))

    def work(self, described: Mapping[str, Any]) -> Work:
        """All that the parses depend on if a parser makes them of which :func:`described` says so much."""
        return Work(settings=self.settings, text=self.text, **described)

    def batch(self, number: int) -> Batch:
        """One of the batches."""
        return Batch(self.batches[number], self.limits, self.strict)

    def line_count(self, batches: Iterable[int]) -> int:
        """How many lines are in some batches."""
        return sum(self.batches[i].count for i in batches)

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
        return folder_of(self.prefix)

"""Sources of parses of new text: parsers that run here, files, or none."""

from __future__ import annotations

import logging
import os
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

from syntax_data.errors import BadParse, InputError
from syntax_data.parsers import MAX_INITIAL_FAILURES, Line, Parser, parse_lines
from syntax_data.parsers.parser import default_characters
from syntax_data.text.alignment import AlignmentError, Subwords
from syntax_data.text.lines import read_lines
from syntax_data.trees.bad_parses import BadParses
from syntax_data.trees.formats import FORMATS
from syntax_data.trees.parallel_files import parallel_ranges
from syntax_data.trees.tree import NoParse

logger = logging.getLogger(__name__)

#: The parses of a line by kind, ``trees`` and ``conllu``, those of the wanted kinds.
Parses = dict[str, Any]


@dataclass(frozen=True)
class SourceLine:
    """A line to be translated.

    Attributes:
        number: of the line in all of the input, from 1.
        text: as it was given, without marks of subwords and symbols, which the parser must not see.
        marked, subwords: the subwords that the model reads, with their marks and without.
        words: those of the subwords, without symbols.
    """

    number: int
    text: str
    marked: list[str]
    subwords: Subwords
    words: list[str]


class ParseSource(ABC):
    """Source of the input's parses."""

    #: The reasons for a missing parse that are failures of the source.
    failures: ClassVar[Sequence[str]] = ()

    @abstractmethod
    def parse(self, lines: Sequence[SourceLine]) -> list[Parses]:
        """Return the parses of the next lines of the input."""

    def mismatched(self, line: SourceLine, kind: str, error: AlignmentError) -> None:
        """Called where a parse is not its line's; raises, or warns."""
        _warn(line, [kind], error)

    def end(self) -> None:
        """Called after the last line. Raises :class:`InputError` if there are more parses."""


class ParserFailed(RuntimeError):
    """A parser has failed on all of the first lines."""


class WithoutParses(ParseSource):
    """No parses, because of `option`, so that the model is a plain Transformer."""

    def __init__(self, option: str = "--parser none"):
        logger.warning("%s: the model gets no parses, and is a plain Transformer", option)

    def parse(self, lines: Sequence[SourceLine]) -> list[Parses]:
        return [{} for _ in lines]


class ParserHandle(NamedTuple):
    """A parser that runs here, its wanted kinds, and limits of ``parse_lines``."""

    parser: Parser
    kinds: Sequence[str]
    limits: Mapping[str, int]


class ParsesFromParser(ParseSource):
    """Parsers that run here. A line that one cannot parse has no such parse.

    A parser that has failed on :data:`~syntax_data.parsers.MAX_INITIAL_FAILURES` lines and parsed none is an error,
    :class:`ParserFailed`.
    """

    failures = ("failed", "mismatch")

    def __init__(self, parsers: Sequence[ParserHandle]):
        self.parsers = parsers
        self._outcomes: list[Counter[str]] = [Counter() for _ in parsers]

    def parse(self, lines: Sequence[SourceLine]) -> list[Parses]:
        found: list[Parses] = [{} for _ in lines]
        for (parser, kinds, limits), outcomes in zip(self.parsers, self._outcomes, strict=True):

            def failed(line: Line, error: Exception, kinds: Sequence[str] = kinds) -> None:
                _warn(line, kinds, error)

            given = [Line(x.number, " ".join(x.words) if parser.pretokenized else x.text) for x in lines]
            parses = parse_lines(parser, given, failed=failed, **limits)
            outcomes.update(parse.reason if isinstance(parse, NoParse) else "parsed" for parse in parses)
            if outcomes["failed"] >= MAX_INITIAL_FAILURES and not outcomes["parsed"]:
                raise ParserFailed(
                    f"the parser {parser.describe()['name']} failed on {outcomes['failed']} lines and parsed none, "
                    "for the reasons above"
                )
            for line, parse, by_kind in zip(lines, parses, found, strict=True):
                if not isinstance(parse, NoParse):
                    by_kind.update({kind: getattr(parse, FORMATS[kind].attribute) for kind in kinds})
                    continue
                by_kind.update(dict.fromkeys(kinds, parse))
                if parse.reason == "too_long":
                    tokens = limits["max_tokens"]
                    characters = limits.get("max_characters", default_characters(tokens))
                    _warn(line, kinds, f"more than {tokens} tokens or {characters} characters are not parsed")
                elif parse.reason not in ("empty", "failed"):
                    _warn(line, kinds, parse.reason)
        return found


def _warn(line: Line | SourceLine, kinds: Sequence[str], why: object) -> None:
    logger.warning("line %d has no parse (%s): %s", line.number, ", ".join(kinds), why)


class ParsesFromFiles(ParseSource):
    """Files PREFIX.trees and PREFIX.conllu with one parse for each line of the input.

    Raises :class:`InputError` for a file that is missing, or ends before the input does, or goes on after it: at the
    start where the input is a file, at its end where it is a pipe.

    Args:
        bad: refuses or skips bad parses; each is logged.
        text: path of the input, or fairseq's ``-`` for standard input.
    """

    def __init__(self, prefix: str, kinds: Sequence[str], bad: BadParses, text: str):
        self.paths = {kind: FORMATS[kind].path(prefix) for kind in kinds}
        self._bad = bad
        for path in self.paths.values():
            if not os.path.isfile(path):
                raise InputError(path, None, "expected the parses of the input (--input-parses), found no file")
        if os.path.isfile(text):
            for _ in parallel_ranges(text, self.paths, count=1 << 20):
                pass
        self._entries = {kind: FORMATS[kind].entries(read_lines(path)) for kind, path in self.paths.items()}
        self._lines: dict[tuple[str, int], int] = {}
        self._read = 0
        self._skipped: Counter[str] = Counter()

    def parse(self, lines: Sequence[SourceLine]) -> list[Parses]:
        self._lines.clear()
        return [{kind: self._next(kind, line) for kind in self.paths} for line in lines]

    def _next(self, kind: str, line: SourceLine) -> Any:
        at, entry = next(self._entries[kind], (0, None))
        if entry is None:
            message = f"expected a parse for every line of the input, found none for line {line.number}"
            raise InputError(self.paths[kind], None, message)
        self._read = line.number
        self._lines[kind, line.number] = at
        try:
            return FORMATS[kind].parse(entry, path=self.paths[kind], line=at)
        except BadParse as error:
            return self._no_parse(line, kind, error)

    def mismatched(self, line: SourceLine, kind: str, error: AlignmentError) -> None:
        message = f"line {line.number} of the input: {error}"
        at = self._lines[kind, line.number]
        self._no_parse(line, kind, BadParse(self.paths[kind], at, message, "mismatch"))

    def _no_parse(self, line: SourceLine, kind: str, error: BadParse) -> NoParse:
        no_parse = self._bad.no_parse(error)
        self._skipped[no_parse.reason] += 1
        _warn(line, [kind], error)
        return no_parse

    def end(self) -> None:
        if self._skipped:
            reasons = ", ".join(f"{n} {reason}" for reason, n in self._skipped.most_common())
            logger.warning("--input-parses: bad parses were skipped: %s", reasons)
        for kind, entries in self._entries.items():
            # A blank line or a comment after the last parse is none.
            left = (line for line, entry in entries if not FORMATS[kind].blank(entry))
            if line := next(left, 0):
                message = f"expected the end, after a parse for each of the {self._read} lines of the input, found more"
                raise InputError(self.paths[kind], line, message)

"""What fairseq-interactive says at the end of its input, and the status that it ends with."""

from __future__ import annotations

import functools
import inspect
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

from fairseq_syntax.inference.reader import ParseSource, SourceTokens, reasons_without_parse
from syntax_preprocess.errors import InputError

#: Exit status of fairseq-interactive where the parser failed on some lines, which are translated without a parse.
PARSER_FAILED = 3


@dataclass
class Outcome:
    """What became of lines that were to be translated: numbers of lines.

    Attributes:
        lines: all of them.
        too_long: for the model, so they were not translated.
        without_parse: translated without a parse, though they have words.
        reasons: why; a line with several reasons counts at each.
    """

    lines: int = 0
    too_long: int = 0
    without_parse: int = 0
    reasons: Counter[str] = field(default_factory=Counter)

    def add(self, tokens: SourceTokens, longest: int) -> None:
        """Counts sentences, of which those of more than `longest` subwords are not translated."""
        self.lines += len(tokens)
        for ids, sentence in zip(tokens, tokens.sentences, strict=True):
            reasons = reasons_without_parse(sentence)
            if len(ids) > longest:
                self.too_long += 1
            elif reasons:
                self.without_parse += 1
                self.reasons.update(reasons)

    def __str__(self) -> str:
        """What is to be said of them; nothing where all were translated with their parses."""
        said = []
        if self.without_parse:
            reasons = ", ".join(f"{reason}: {count}" for reason, count in self.reasons.most_common())
            said.append(f"{self._of_lines(self.without_parse)} translated without a parse ({reasons})")
        if self.too_long:
            said.append(f"{self._of_lines(self.too_long)} not translated (too long for the model)")
        return "; ".join(said)

    def _of_lines(self, count: int) -> str:
        return f"{count} of {self.lines} lines {'was' if count == 1 else 'were'}"


def finish(source: ParseSource, outcome: Outcome) -> None:
    """Says on stderr what is to be said of all of the input, where fairseq-interactive has translated its last line.

    Raises:
        SystemExit: with a message where `source` goes on after the input; :data:`PARSER_FAILED` where a parser failed.
    """
    if said := str(outcome):
        print(f"fairseq-interactive: {said}", file=sys.stderr)
    try:
        source.end()
    except InputError as error:
        raise SystemExit(f"fairseq-interactive: error: {error}") from None
    if any(outcome.reasons[reason] for reason in source.failures):
        raise SystemExit(PARSER_FAILED)


def after_last_line(caller: FrameType | None, then: Callable[[], None]) -> bool:
    """Has fairseq-interactive call `then` after the last line, if `caller` is that command; says whether it is.

    fairseq has no place for that: when the lines are over, its command ends with status 0. But it looks up the function
    that reads them, ``buffered_read``, in its own module. There another stands for one call, which uses fairseq's.

    Args:
        caller: a frame of the command's ``main``, or of a method ``build_generator`` that it called.
    """
    while caller is not None and caller.f_code.co_name == "build_generator":
        caller = caller.f_back
    if caller is None or not {"buffered_read", "make_batches"} <= caller.f_globals.keys():
        return False
    command = caller.f_globals  # of its module, which has another name under `python -m`
    read = inspect.unwrap(command["buffered_read"])  # an earlier run in this process may have ended before it read

    @functools.wraps(read)
    def buffered_read(*args: Any, **kwargs: Any) -> Iterator[list[str]]:
        command["buffered_read"] = read
        yield from read(*args, **kwargs)
        then()

    command["buffered_read"] = buffered_read
    return True

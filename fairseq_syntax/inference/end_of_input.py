"""What fairseq-interactive says at the end of its input, and the status that it ends with."""

from __future__ import annotations

import sys
from collections import Counter
from dataclasses import dataclass, field

from fairseq_syntax.inference.parse_sources import ParseSource
from fairseq_syntax.inference.parsed_batch import ParsedBatch, reasons_without_parse
from syntax_data.errors import InputError

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

    def add(self, batch: ParsedBatch, longest: int) -> None:
        """Counts sentences, of which those of more than `longest` subwords are not translated."""
        self.lines += len(batch)
        for length, sentence in zip(batch.lengths, batch.sentences, strict=True):
            reasons = reasons_without_parse(sentence)
            if length > longest:
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

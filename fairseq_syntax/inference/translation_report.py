"""Summary of the lines that fairseq-interactive translated, and its exit code."""

from __future__ import annotations

import sys
from collections import Counter
from dataclasses import dataclass, field

from fairseq_syntax.inference.parse_sources import ParseSource
from fairseq_syntax.inference.parsed_batch import ParsedBatch, reasons_without_parse
from syntax_data.errors import InputError

#: Exit code of fairseq-interactive where the parser failed on some lines, which are translated without a parse.
PARSER_FAILED = 3


@dataclass
class TranslationReport:
    """Numbers of lines: all, not translated, and translated without a parse.

    Attributes:
        reasons: for having no parse; a line with several reasons counts at each.
    """

    lines: int = 0
    too_long: int = 0
    without_parse: int = 0
    reasons: Counter[str] = field(default_factory=Counter)

    def add(self, batch: ParsedBatch, longest: int) -> None:
        """Counts sentences; those of more than `longest` subwords are not translated."""
        self.lines += len(batch)
        for length, sentence in zip(batch.lengths, batch.sentences, strict=True):
            reasons = reasons_without_parse(sentence)
            if length > longest:
                self.too_long += 1
            elif reasons:
                self.without_parse += 1
                self.reasons.update(reasons)

    def print_and_exit(self, source: ParseSource) -> None:
        """Prints the summary of a deficient run, and ends fairseq-interactive accordingly.

        Raises:
            SystemExit: with a message where `source` goes on after the input; :data:`PARSER_FAILED` where it failed.
        """
        parts = []
        if self.without_parse:
            reasons = ", ".join(f"{reason}: {count}" for reason, count in self.reasons.most_common())
            parts.append(f"{self.without_parse} of {self.lines} lines translated without a parse ({reasons})")
        if self.too_long:
            parts.append(f"{self.too_long} of {self.lines} lines not translated (too long for the model)")
        if parts:
            print(f"fairseq-interactive: {'; '.join(parts)}", file=sys.stderr)
        try:
            source.end()
        except InputError as error:
            raise SystemExit(f"fairseq-interactive: error: {error}") from None
        if any(self.reasons[reason] for reason in source.failures):
            raise SystemExit(PARSER_FAILED)

"""New text in the task: that of fairseq-interactive and of the hub interface."""

from __future__ import annotations

import logging
import sys
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence, Set
from dataclasses import dataclass, field
from functools import cached_property
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor

from fairseq_syntax.compat import interactive_end
from fairseq_syntax.data.syntax_pairs import SyntaxPairs
from fairseq_syntax.inference.parse_sources import ParseSource
from fairseq_syntax.inference.parsed_batch import ParsedBatch, reasons_without_parse
from fairseq_syntax.inference.reader import NEW_TEXT_OPTIONS, SourceReader, source_reader
from fairseq_syntax.modules.syntax_batch import SyntaxBatch
from syntax_data.errors import InputError

logger = logging.getLogger(__name__)

#: Exit code of commands that translate where the parser failed on some lines, which are translated without a parse.
PARSER_FAILED = 3


class NewTextDataset(SyntaxPairs):
    """A parsed batch for fairseq's inference; `pairs` is its dataset of the tokens."""

    def __init__(self, pairs: Any, parsed: ParsedBatch, *, dictionary: Any):
        super().__init__(pairs, features=parsed.features, dictionary=dictionary)
        self.parsed = parsed


class FeatureQueue:
    """Keeps each batch's features from where it is made to where it is translated.

    ``fairseq_cli.interactive.make_batches`` keeps of a batch its sentences' numbers, tokens, lengths and constraints,
    and fairseq-interactive builds another one from the tokens and lengths. Batches are made and translated in the same
    order. The tokens are compared, so that no sentence gets another text's parse.
    """

    def __init__(self) -> None:
        self._waiting: deque[tuple[Tensor, SyntaxBatch]] = deque()

    def wrap(self, batches: Any) -> Any:
        """Return fairseq's iterator over batches, whose features alone wait from now on."""
        self._waiting.clear()

        def next_epoch_itr(**kwargs: Any) -> Iterator[dict[str, Any]]:
            for batch in batches.next_epoch_itr(**kwargs):
                net_input = batch["net_input"]
                self._waiting.append((net_input["src_tokens"], net_input.pop("src_syntax")))
                yield batch

        return SimpleNamespace(next_epoch_itr=next_epoch_itr)  # which is all that fairseq's inference uses

    def pop(self, batch: dict[str, Any]) -> dict[str, Any]:
        """Return a batch with its features, on its device; as it is if it has some.

        Raises:
            RuntimeError: another batch is next.
        """
        net_input = batch["net_input"]
        if "src_syntax" in net_input or not self._waiting:
            return batch
        expected, features = self._waiting.popleft()
        found = net_input["src_tokens"]
        # On a GPU this waits for the tokens to arrive there, and for nothing else: the batch before is translated.
        if found is not expected and not torch.equal(expected.to(found.device), found):
            raise RuntimeError("batches of new text are to be translated in the order in which they were made")
        return {**batch, "net_input": {**net_input, "src_syntax": features.to(found.device)}}


@dataclass
class TranslationReport:
    """Numbers of lines: all, not translated, translated without a parse."""

    lines: int = 0
    too_long: int = 0
    without_parse: int = 0
    reasons: Counter[str] = field(default_factory=Counter)

    def add(self, translated: Any, *, too_long: int = 0, blank: int = 0) -> None:
        """Counts lines: those that are translated, a parsed batch or token ids, and others."""
        self.lines += len(translated) + too_long + blank
        self.too_long += too_long
        for sentence in translated.sentences if isinstance(translated, ParsedBatch) else ():
            if reasons := reasons_without_parse(sentence):
                self.without_parse += 1
                self.reasons.update(reasons)

    def print(self, command: str) -> None:
        """Prints the summary of a deficient run on stderr."""
        parts = []
        if self.without_parse:
            reasons = ", ".join(f"{reason}: {count}" for reason, count in self.reasons.most_common())
            parts.append(f"{self.without_parse} of {self.lines} lines translated without a parse ({reasons})")
        if self.too_long:
            parts.append(f"{self.too_long} of {self.lines} lines not translated (too long for the model)")
        if parts:
            print(f"{command}: {'; '.join(parts)}", file=sys.stderr)

    def parser_failed(self, source: ParseSource) -> bool:
        """Return whether `source` failed on lines; the exit status is then :data:`PARSER_FAILED`."""
        return any(self.reasons[reason] for reason in source.failures)


class NewText:
    """New text on its way through fairseq's inference, by the task's methods.

    Args:
        cfg: :class:`~fairseq_syntax.tasks.translation_options.SyntaxTranslationConfig`.
        dictionary: fairseq's, of the source language.
        features: names of the features that the models need; all are known when the first line is read.
    """

    def __init__(self, cfg: Any, dictionary: Any, features: Set[str]):
        self.cfg = cfg
        self.dictionary = dictionary
        self.features = features
        self.queue = FeatureQueue()
        self._report = TranslationReport()

    @cached_property
    def reader(self) -> SourceReader:
        """Parses lines as the options say. The first time, it loads the parser."""
        return source_reader(self.cfg, self.features)

    def begin(self) -> None:
        """Loads the parser, in fairseq-interactive, before the first line is read."""
        if interactive_end.add_exit_hook(self._end):
            _ = self.reader

    def _end(self) -> None:
        """End fairseq-interactive after its last line."""
        self._report.print("fairseq-interactive")
        try:
            self.reader.source.end()
        except InputError as error:
            raise SystemExit(f"fairseq-interactive: error: {error}") from None
        if self._report.parser_failed(self.reader.source):
            raise SystemExit(PARSER_FAILED)

    def read(self, lines: Sequence[str], encode: Callable[[str], str]) -> ParsedBatch:
        """Parses lines, which `encode` tokenises and splits into subwords."""
        return self.reader.read(lines, [encode(line) for line in lines], self.dictionary)

    def batches(
        self,
        make: Callable[..., Any],
        dataset: NewTextDataset,
        max_tokens: int | None = None,
        max_sentences: int | None = None,
        max_positions: Any = None,
        **kwargs: Any,
    ) -> Any:
        """Return fairseq's batches, from `make`, whose features wait in the queue.

        A line that is too long is left out with a warning.
        """
        parsed = dataset.parsed
        longest, *rest = max_positions if isinstance(max_positions, tuple) else (max_positions,)
        longest = min((limit for limit in (longest, max_tokens) if limit is not None), default=sys.maxsize)
        for number, length in zip(parsed.numbers, parsed.lengths, strict=True):
            if length > longest:
                logger.warning(
                    "line %d is not translated: %d subwords with </s>, expected at most %d "
                    "(--max-source-positions of the model, --max-tokens)", number, length, longest
                )  # fmt: skip
        translated = parsed.take(i for i, length in enumerate(parsed.lengths) if length <= longest)
        self._report.add(translated, too_long=len(parsed) - len(translated))
        kwargs.update(ignore_invalid_inputs=True, disable_iterator_cache=True)
        return self.queue.wrap(make(dataset, max_tokens, max_sentences, max_positions=(longest, *rest), **kwargs))


def refuse_options(cfg: Any) -> None:
    """Raises :class:`ValueError` for an option about parses of new text."""
    for name in NEW_TEXT_OPTIONS:
        if getattr(cfg, name) is not None:
            raise ValueError(
                f"--{name.replace('_', '-')}: expected with fairseq-interactive alone, which parses new text; "
                "this command takes the features in the data-bin"
            )

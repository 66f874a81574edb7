"""New text in the task: that of fairseq-interactive and of the hub interface."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterator, Sequence, Set
from contextlib import contextmanager
from functools import cached_property
from typing import Any

from torch import Tensor

from fairseq_syntax.compat import interactive_end
from fairseq_syntax.data.features import SplitFeatures
from fairseq_syntax.data.syntax_pairs import SyntaxPairs
from fairseq_syntax.inference.feature_queue import FeatureQueue
from fairseq_syntax.inference.parsed_batch import ParsedBatch
from fairseq_syntax.inference.reader import NEW_TEXT_OPTIONS, SourceReader, source_reader
from fairseq_syntax.inference.translation_report import TranslationReport, report_and_exit

logger = logging.getLogger(__name__)


class NewTextDataset(SyntaxPairs):
    """A :class:`~fairseq_syntax.inference.parsed_batch.ParsedBatch` as fairseq's inference takes it.

    Args:
        pairs: fairseq's dataset of the batch's tokens.
        parsed: the batch.
        dictionary: of the source.
    """

    def __init__(self, pairs: Any, parsed: ParsedBatch, *, dictionary: Any):
        super().__init__(pairs, features=SplitFeatures(parsed.features), dictionary=dictionary)
        self.parsed = parsed


class NewText:
    """New text on its way through fairseq's inference. The task's methods of the same steps call these.

    Args:
        cfg: :class:`~fairseq_syntax.tasks.translation_options.SyntaxTranslationConfig`.
        dictionary: fairseq's, of the source language.
        features: names of the features that the models need; all are known when the first line is read.
    """

    def __init__(self, cfg: Any, dictionary: Any, features: Set[str]):
        self.cfg = cfg
        self.dictionary = dictionary
        self.features = features
        #: Features of batches that are made and not yet translated.
        self.queue = FeatureQueue()
        self._report = TranslationReport()
        self._unpacked: ParsedBatch | None = None

    @cached_property
    def reader(self) -> SourceReader:
        """Parses lines as the options say. The first time, it loads the parser."""
        return source_reader(self.cfg, self.features)

    def begin(self) -> None:
        """Called before the first line.

        In fairseq-interactive, a parser that cannot be loaded is an error now, and the summary line will be printed at
        the end of the input.
        """
        if interactive_end.add_exit_hook(lambda: report_and_exit(self.reader.source, self._report)):
            _ = self.reader

    def read(self, lines: Sequence[str], encode: Callable[[str], str]) -> ParsedBatch:
        """Parses lines, which `encode` tokenises and splits into subwords."""
        return self.reader.read(lines, [encode(line) for line in lines], self.dictionary)

    @contextmanager
    def unpacked(self, batch: ParsedBatch) -> Iterator[list[Tensor]]:
        """Inside the block, the token ids of `batch`, this very list, stand for it: fairseq's hub interface counts and
        prints them on their way to :meth:`parsed`."""
        self._unpacked = batch
        try:
            yield batch.tokens
        finally:
            self._unpacked = None

    def parsed(self, tokens: ParsedBatch | Sequence[Tensor]) -> ParsedBatch:
        """Return the batch that :meth:`read` made.

        Raises:
            ValueError: these are token ids.
        """
        if isinstance(tokens, ParsedBatch):
            return tokens
        if self._unpacked is not None and tokens is self._unpacked.tokens:
            return self._unpacked
        raise ValueError(
            "the model needs the parses of its input, and token ids have none: give text "
            "(get_interactive_tokens_and_lengths of the task, translate of the hub interface)"
        )

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
        self._report.add(parsed, longest)
        self.queue.clear()
        kwargs.update(ignore_invalid_inputs=True, disable_iterator_cache=True)
        return self.queue.wrap(make(dataset, max_tokens, max_sentences, max_positions=(longest, *rest), **kwargs))


def refuse_options(cfg: Any) -> None:
    """Raises :class:`ValueError` if an option is about parses of new text, where there is none."""
    for name in NEW_TEXT_OPTIONS:
        if getattr(cfg, name) is not None:
            raise ValueError(
                f"--{name.replace('_', '-')}: expected with fairseq-interactive alone, which parses new text; "
                "this command takes the features in the data-bin"
            )

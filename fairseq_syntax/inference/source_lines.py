"""Lines to translate, on their way from text to a model."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, TypeVar

from fairseq.token_generation_constraints import pack_constraints
from torch import Tensor

from fairseq_syntax.inference.parsed_batch import ParsedBatch

#: Treatment of a line that is longer than the model can read: an error, or not translated.
ON_TOO_LONG = ("error", "skip")

_Item = TypeVar("_Item")
_THREAD = "read-ahead"


@dataclass(frozen=True)
class SourceLines:
    """Lines that were read, of which some are translated.

    Attributes:
        count: number of lines.
        places: of the lines that are translated, from 0; the others are blank or too long.
        batch: the lines that are translated.
        too_long: number of lines that are too long.
        constraints: of the lines that are translated, packed by fairseq, a row a line; ``None``: the search has none.
    """

    count: int
    places: list[int]
    batch: ParsedBatch | list[Tensor]
    too_long: int
    constraints: Tensor | None

    @property
    def blank(self) -> int:
        """Number of blank lines."""
        return self.count - len(self.places) - self.too_long


def split_phrases(line: str) -> tuple[str, list[str]]:
    """Return the text of a line, and the phrases that follow it, each after a tab."""
    text, *phrases = line.split("\t")
    return text.strip(), [phrase for phrase in phrases if phrase.strip()]


def pack_phrases(phrases: Sequence[Sequence[str]], encode: Callable[[list[str]], list[Tensor]]) -> Tensor:
    """Return the phrases of lines as fairseq's constraints, a row a line.

    Args:
        encode: returns the ids of each phrase, with ``</s>``.
    """
    ids = (found[:-1] for found in encode([phrase for of_line in phrases for phrase in of_line]))
    packed: Tensor = pack_constraints([[found for found in islice(ids, len(of)) if len(found)] for of in phrases])
    return packed


def constraints_of(packed: Tensor, batch: dict[str, Any]) -> Tensor:
    """Return the rows of packed constraints that are a batch's, on its device."""
    device = batch["net_input"]["src_tokens"].device
    return packed[batch["id"].to(packed.device)].to(device)


def read_ahead(items: Iterable[_Item]) -> Iterator[_Item]:
    """Yield items, of which a thread computes the next ones meanwhile.

    Nothing waits for the thread: it may wait for input that never comes.
    """
    ready: queue.Queue[tuple[list[_Item], BaseException | None]] = queue.Queue(maxsize=1)

    def compute() -> None:
        try:
            for item in items:
                ready.put(([item], None))
            ready.put(([], None))
        except BaseException as error:  # any: the caller waits for items
            ready.put(([], error))

    thread = threading.Thread(target=compute, name=_THREAD, daemon=True)
    thread.start()
    while (last := ready.get())[0]:
        yield from last[0]
    thread.join()
    if last[1] is not None:
        raise last[1]


def is_reading_ahead() -> bool:
    """Return whether a thread of :func:`read_ahead` has not ended."""
    return any(thread.name == _THREAD for thread in threading.enumerate())

"""Features beside fairseq-interactive, which drops them from its batches."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from fairseq_syntax.modules.syntax_batch import SyntaxBatch


class FeatureQueue:
    """Keeps each batch's features from where it is made to where it is translated.

    ``fairseq_cli.interactive.make_batches`` keeps of a batch its sentences' numbers, tokens, lengths and constraints,
    and fairseq-interactive builds another one from the tokens and lengths. Batches are made and translated in the same
    order. The tokens are compared, so that no sentence gets another text's parse.
    """

    def __init__(self) -> None:
        self._waiting: deque[tuple[Tensor, SyntaxBatch]] = deque()

    def clear(self) -> None:
        """Drops batches that were made and not translated: others will be."""
        self._waiting.clear()

    def push(self, batch: dict[str, Any]) -> None:
        """Takes the features out of a batch that was made."""
        net_input = batch["net_input"]
        self._waiting.append((net_input["src_tokens"], net_input.pop("src_syntax")))

    def pop(self, batch: dict[str, Any]) -> dict[str, Any]:
        """Return a batch that is to be translated with its features, on its device.

        It is returned as it is if it has features or none wait.

        Raises:
            RuntimeError: another batch is next.
        """
        net_input = batch["net_input"]
        if "src_syntax" in net_input or not self._waiting:
            return batch
        expected, features = self._waiting.popleft()
        found = net_input["src_tokens"]
        if not _equal(expected, found):
            raise RuntimeError("batches of new text are to be translated in the order in which they were made")
        return {**batch, "net_input": {**net_input, "src_syntax": features.to(found.device)}}

    def wrap(self, batches: Any) -> Any:
        """Return fairseq's iterator over batches, each of which is pushed before it comes."""
        return _Batches(batches, self)


class _Batches:
    """The part of fairseq's ``EpochBatchIterator`` that its inference uses."""

    def __init__(self, batches: Any, queue: FeatureQueue):
        self._batches = batches
        self._queue = queue

    def next_epoch_itr(self, *args: Any, **kwargs: Any) -> Iterator[dict[str, Any]]:
        for batch in self._batches.next_epoch_itr(*args, **kwargs):
            self._queue.push(batch)
            yield batch


def _equal(a: Tensor, b: Tensor) -> bool:
    # On a GPU this waits for the tokens to arrive there, and for nothing else: the batch before is translated.
    return a is b or (a.shape == b.shape and torch.equal(a.to(b.device), b))

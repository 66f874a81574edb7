"""Features that travel beside fairseq-interactive."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor


class FeatureQueue:
    """Hands each batch's features from where it is made to where it is translated.

    ``fairseq_cli.interactive.make_batches`` keeps of a batch its sentences' numbers, tokens, lengths and constraints,
    and fairseq-interactive builds another one of the tokens and lengths. So the features are put aside here when the
    batch is made, and taken when it is translated. Both happen in the same order. That the tokens are the same is
    checked, so that no sentence gets another text's parse.
    """

    def __init__(self) -> None:
        self._waiting: deque[tuple[Tensor, dict[str, Tensor]]] = deque()

    def restart(self) -> None:
        """Forgets batches that were made and not translated: others will be."""
        self._waiting.clear()

    def put(self, batch: dict[str, Any]) -> None:
        """Takes the features out of a batch that was made."""
        net_input = batch["net_input"]
        self._waiting.append((net_input["src_tokens"], net_input.pop("src_syntax")))

    def take(self, batch: dict[str, Any]) -> dict[str, Any]:
        """A batch that is to be translated, with its features, on its device; as it is, if it has them or none wait.

        Raises:
            RuntimeError: it is another batch's turn.
        """
        net_input = batch["net_input"]
        if "src_syntax" in net_input or not self._waiting:
            return batch
        expected, features = self._waiting.popleft()
        found = net_input["src_tokens"]
        if not _equal(expected, found):
            raise RuntimeError("batches of new text are to be translated in the order in which they were made")
        moved = {name: feature.to(found.device) for name, feature in features.items()}
        return {**batch, "net_input": {**net_input, "src_syntax": moved}}

    def through(self, batches: Any) -> Any:
        """fairseq's iterator over batches, each of which is :meth:`put` before it comes."""
        return _Batches(batches, self)


class _Batches:
    """As much of fairseq's ``EpochBatchIterator`` as its inference uses."""

    def __init__(self, batches: Any, handover: FeatureQueue):
        self._batches = batches
        self._handover = handover

    def next_epoch_itr(self, *args: Any, **kwargs: Any) -> Iterator[dict[str, Any]]:
        for batch in self._batches.next_epoch_itr(*args, **kwargs):
            self._handover.put(batch)
            yield batch


def _equal(a: Tensor, b: Tensor) -> bool:
    # On a GPU this waits for the tokens to arrive there, and for nothing else: the batch before is translated.
    return a is b or (a.shape == b.shape and torch.equal(a.to(b.device), b))

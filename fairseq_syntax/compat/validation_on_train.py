"""Validation on the training set.

What is wrong: fairseq keeps the iterator over a set's batches, by the set. Where ``--valid-subset valid,train`` names
the training set, validation goes on with the training's iterator, which loses its place in the epoch, or counts an
epoch more: ``--max-epoch 4`` trains for two. So do stock tasks.
https://github.com/facebookresearch/fairseq/blob/main/fairseq/trainer.py (``get_valid_iterator``); that iterators are
kept is intended: https://github.com/facebookresearch/fairseq/issues/1156

The repair: validation makes an iterator of its own over a set whose iterator the training keeps.
"""

from __future__ import annotations

import functools
from typing import Any

from fairseq.trainer import Trainer


def iterate_apart() -> None:
    """Let validation on the training set leave the training's iterator, and the set's epoch, as they are."""
    original = Trainer.get_valid_iterator

    @functools.wraps(original)
    def get_valid_iterator(self: Any, subset: str, disable_iterator_cache: bool = False) -> Any:
        dataset = self.task.dataset(subset)
        training = self.task.dataset_to_epoch_iter.get(dataset) if subset == self.cfg.dataset.train_subset else None
        if training is None:
            return original(self, subset, disable_iterator_cache)
        iterator = original(self, subset, disable_iterator_cache=True)
        dataset.set_epoch(training.epoch)  # fairseq starts an iterator by setting it to 1
        return iterator

    Trainer.get_valid_iterator = get_valid_iterator

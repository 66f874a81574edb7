"""A resumed training goes on with the batches that it had.

What is wrong: fairseq makes the batches of a training once, by a seed of ``--seed`` plus the epoch in which the process
starts, and keeps them from epoch to epoch. A training that is resumed in epoch 5 has other batches than one that ran
through: it never ends with the same weights, and, resumed inside an epoch, it skips as many batches of the new kind as
it had done of the old one, so that some sentences are seen twice in that epoch and others not at all.
https://github.com/facebookresearch/fairseq/blob/main/fairseq/tasks/fairseq_task.py (``get_batch_iterator``); that
batches are kept is intended: https://github.com/facebookresearch/fairseq/issues/1156

The repair: :func:`batches_of_first_epoch` makes them as in epoch 1, whenever the process starts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any


def batches_of_first_epoch(
    get_batch_iterator: Callable[..., Any], kept: Mapping[Any, Any], dataset: Any, *args: Any, epoch: int, **kwargs: Any
) -> Any:
    """As fairseq's task, but that batches which it keeps are those of epoch 1.

    `kept` are the iterators that the task keeps, by dataset; the iterator begins with `epoch`.
    """
    if kwargs.get("disable_iterator_cache") or kwargs.get("update_epoch_batch_itr"):
        return get_batch_iterator(dataset, *args, epoch=epoch, **kwargs)
    before = kept.get(dataset)
    iterator = get_batch_iterator(dataset, *args, epoch=1, **kwargs)
    if iterator is not before:
        iterator.epoch = epoch
        dataset.set_epoch(epoch)
    return iterator

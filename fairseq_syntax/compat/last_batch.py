"""Batches of all sentences.

What is wrong: fairseq 0.12.2, main and fairseq-fixed 0.12.3 drop the last batch of a set unless its size is a multiple
of ``--required-batch-size-multiple``, which is 8 by default. A test set of 1,003 sentences gets 1,000 translations, or
fewer, without a word; a set of fewer than 8 has no batches, and an empty one ends in an IndexError.
https://github.com/facebookresearch/fairseq/issues/5036

The repair: our tasks wrap their datasets in :class:`AllExamples`. Other tasks than ours are as fairseq has them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from fairseq.data import BaseWrapperDataset


class AllExamples(BaseWrapperDataset):
    """A dataset whose batches have all of its examples."""

    def batch_by_size(self, indices: np.ndarray, *args: Any, **kwargs: Any) -> list[Any]:
        """As the wrapped dataset's, but with all of `indices` in the batches."""
        return keep_last_batch(super().batch_by_size, indices, *args, **kwargs)


def keep_last_batch(batch_by_size: Callable[..., Any], indices: np.ndarray, *args: Any, **kwargs: Any) -> list[Any]:
    """The batches of `indices` by a dataset's `batch_by_size`, and one more of those that it drops."""
    if not len(indices):
        return []  # fairseq looks for a last batch
    batches = list(batch_by_size(indices, *args, **kwargs))
    dropped = indices[sum(map(len, batches)) :]
    return [*batches, dropped] if len(dropped) else batches

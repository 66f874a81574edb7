"""Training on a data-bin that was written with ``--dataset-impl cached``.

What is wrong: such a dataset can be read only where it was prefetched. fairseq 0.12.2, main and fairseq-fixed 0.12.3
prefetch when an epoch's batches are asked for, but the trainer reads a first batch before that
(``reset_dummy_batch(batch_iterator.first_batch)``), which ends in a KeyError.
https://github.com/facebookresearch/fairseq/issues/3214

The repair: the task calls :func:`prefetch_all` for each split that it loads.
"""

from __future__ import annotations

from fairseq.data import FairseqDataset


def prefetch_all(dataset: FairseqDataset) -> None:
    """Reads a dataset that has to be prefetched into memory; leaves others as they are."""
    if dataset.supports_prefetch:
        dataset.prefetch(range(len(dataset)))

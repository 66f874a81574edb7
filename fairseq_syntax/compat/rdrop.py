"""fairseq's R-Drop (``--criterion label_smoothed_cross_entropy_with_rdrop``) repeats whole batches.

What is wrong: main and fairseq-fixed 0.12.3 (fairseq 0.12.2 has no R-Drop) repeat the tensors of ``net_input``, but not
those in a dictionary there, such as ``src_syntax``. And they write the repeated ones into the batch that they were
given, so that ``--eval-bleu`` then translates each sentence twice and fails for want of a reference.
https://github.com/facebookresearch/fairseq/issues/5410

The repair: our function repeats nested tensors too, and leaves the batch as it is.
"""

from __future__ import annotations

import functools
from typing import Any

import torch
from fairseq import utils
from fairseq.criterions import label_smoothed_cross_entropy_with_rdrop as rdrop


def repeat_whole_batches() -> None:
    """Make R-Drop repeat nested tensors too and leave the batch as it is."""

    @functools.wraps(rdrop.duplicate_input)
    def duplicate_input(sample: dict[str, Any]) -> dict[str, Any]:
        if "net_input" in sample:
            return {**sample, "net_input": duplicate_input(sample["net_input"])}
        repeated: dict[str, Any] = utils.apply_to_sample(lambda tensor: torch.cat([tensor, tensor]), sample)
        return repeated

    rdrop.duplicate_input = duplicate_input

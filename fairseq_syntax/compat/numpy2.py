"""Buckets (``--num-batch-buckets``) and blocks of single lines (``--sample-break-mode eos``) under numpy 2.

What is wrong: fairseq 0.12.2, main and fairseq-fixed 0.12.3 choose the lengths of buckets by
``np.percentile(…, interpolation=…)``, and count tokens and lines by ``np.compat.long``. numpy 2 has no ``compat``, and
2.4 no ``interpolation`` either, so that a dataset with buckets or blocks ends in an AttributeError or a TypeError.
https://github.com/facebookresearch/fairseq/blob/main/fairseq/data/data_utils.py (``get_buckets``),
https://github.com/facebookresearch/fairseq/blob/main/fairseq/data/language_pair_dataset.py and
https://github.com/facebookresearch/fairseq/blob/main/fairseq/data/token_block_dataset.py; of a kind with
https://github.com/facebookresearch/fairseq/issues/4945

The repair: the three modules of fairseq get a numpy that still has both. Their code stays as it is.
"""

from __future__ import annotations

from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
from fairseq.data import data_utils, language_pair_dataset, token_block_dataset


def keep_old_names() -> None:
    """Let fairseq's datasets find names of numpy 1 under numpy 2 as well."""
    if hasattr(np, "compat"):
        return
    numpy = ModuleType("numpy")
    vars(numpy).update(vars(np))
    vars(numpy).update(compat=SimpleNamespace(long=int), percentile=_percentile)
    for module in (data_utils, language_pair_dataset, token_block_dataset):
        vars(module)["np"] = numpy


def _percentile(*args: Any, interpolation: str = "linear", **kwargs: Any) -> Any:
    return np.percentile(*args, **{"method": interpolation, **kwargs})

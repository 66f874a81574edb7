"""Training sets in parts (``train``, ``train1``, …) without ``--upsample-primary``.

What is wrong: in fairseq, ``--upsample-primary``, how often the first part is repeated, is -1 by default. Then a
training ends in a ValueError ("negative dimensions are not allowed").
https://github.com/facebookresearch/fairseq/issues/3644 It also repeats the first of the validation sets that
``--combine-val`` joins.

The repair: the task loads its splits inside :func:`repeating_first`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def repeating_first(cfg: Any, *, training: bool) -> Iterator[None]:
    """Repeat the first part of a split in training alone.

    ``cfg.upsample_primary`` says how often; -1 means once. Raises :class:`ValueError` for another number below 1.
    """
    given = cfg.upsample_primary
    if given < 1 and given != -1:
        raise ValueError(f"--upsample-primary: expected a number from 1, found {given}")
    cfg.upsample_primary = given if training and given != -1 else 1
    try:
        yield
    finally:
        cfg.upsample_primary = given

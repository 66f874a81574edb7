"""Memory of trainings on a CPU."""

from __future__ import annotations

import ctypes
import sys

# Of mallopt(3).
_TRIM_THRESHOLD, _TOP_PAD, _MMAP_MAX = -1, -2, -4


def keep_freed_memory() -> None:
    """Let glibc's malloc keep freed memory for later, in the whole process; with another it does nothing.

    By default each tensor of 32 MiB or more, such as the scores of a batch over a vocabulary, is new memory each time,
    which Linux clears page by page at its first use.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform == "linux" else None
    if mallopt is not None:
        mallopt(_MMAP_MAX, 0)
        mallopt(_TRIM_THRESHOLD, 2**31 - 1)
        mallopt(_TOP_PAD, 2**28)

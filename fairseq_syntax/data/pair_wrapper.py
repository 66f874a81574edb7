"""A base of datasets around fairseq's pairs of sentences."""

from __future__ import annotations

from typing import Any

import numpy as np
from fairseq.data import BaseWrapperDataset


class PairWrapper(BaseWrapperDataset):
    """A wrapper that has all attributes of what it wraps, such as ``src`` or ``left_pad_source``."""

    def __getattr__(self, name: str) -> Any:
        if name == "dataset":  # not there yet, in a copy that is being made
            raise AttributeError(name)
        return getattr(self.dataset, name)

    def num_tokens_vec(self, indices: np.ndarray) -> np.ndarray:
        """As the pairs', which fairseq's wrapper leaves out."""
        sizes: np.ndarray = self.dataset.num_tokens_vec(indices)
        return sizes

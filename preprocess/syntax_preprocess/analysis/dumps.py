"""What fairseq-syntax-dump wrote: gates, masks and attention of sentences."""

from __future__ import annotations

import zipfile
from typing import Any

import numpy as np

from syntax_preprocess.errors import InputError


class Dump:
    """An open file of fairseq-syntax-dump.

    Attributes:
        path: where it is.
        layers: the numbers of the layers that syntax enters, from 1.
        masks: the masks' names.
        sentences: the sentences' numbers in the split, from 0.

    Raises:
        InputError: it is no such file.
    """

    def __init__(self, path: str):
        self.path = path
        try:
            self._file: Any = np.load(path, allow_pickle=False)
            self.layers: list[int] = self._file["layers"].tolist()
            self.masks: list[str] = self._file["masks"].tolist()
        except (KeyError, ValueError, EOFError, TypeError, AttributeError, IndexError, zipfile.BadZipFile) as error:
            raise InputError(path, None, f"expected a file of fairseq-syntax-dump, found {error}") from None
        self._names = frozenset(self._file.files)
        self.sentences = sorted(int(name.partition("/")[0]) for name in self._names if name.endswith("/tokens"))

    def array(self, sentence: int, name: str) -> np.ndarray | None:
        """``tokens``, ``gates``, ``masks`` or ``attention`` of a sentence; ``None`` if the dump lacks them.

        Raises :class:`InputError` for a sentence that it does not have.
        """
        if f"{sentence}/tokens" not in self._names:
            last = f"{self.sentences[0]} to {self.sentences[-1]}" if self.sentences else "none"
            raise InputError(self.path, None, f"expected sentence {sentence}, found {last}")
        key = f"{sentence}/{name}"
        return self._file[key] if key in self._names else None

    def mean_gates(self) -> dict[tuple[str, int, int], float]:
        """The mean gate over sentences, by mask, layer and head (from 1); nothing of a model that has no gates."""
        arrays = [gates for s in self.sentences if (gates := self.array(s, "gates")) is not None]
        if not arrays:
            return {}
        mean: Any = np.mean(arrays, axis=0, dtype=np.float64)
        return {
            (mask, layer, head + 1): float(mean[i, k, head])
            for k, mask in enumerate(self.masks)
            for i, layer in enumerate(self.layers)
            for head in range(mean.shape[2])
        }

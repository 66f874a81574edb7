"""Files of fairseq-syntax-dump: gates, masks, biases and attention of sentences."""

from __future__ import annotations

import os
import re
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from syntax_data.errors import InputError, one_line, short_repr
from syntax_experiments.plots.style import printable

_NAME = re.compile("layers|masks|biases|(0|[1-9][0-9]*)/(tokens|gates|masks|biases|attention)")


class Dump:
    """An open file of fairseq-syntax-dump; another is an :class:`InputError`.

    Attributes:
        layers: the numbers of the syntax layers, from 1.
        masks, biases: the names of masks and learned biases.
        sentences: the sentences' numbers in the split, from 0.
    """

    def __init__(self, path: str):
        self.path = path
        with self._readable():
            if os.path.isfile(path) and not zipfile.is_zipfile(path):
                raise ValueError("no .npz archive")  # numpy would advise to load it unsafely
            self._file: Any = np.load(path, allow_pickle=False)
            self._names = frozenset(self._file.files)
            for name in self._names:
                if not _NAME.fullmatch(name) or ("/" in name and f"{name.partition('/')[0]}/tokens" not in self._names):
                    raise ValueError(f"{short_repr(name)} in it")
            self.layers = [int(layer) for layer in self._file["layers"]]
            self.masks = [printable(str(mask)) for mask in self._file["masks"]]
            self.biases = [printable(str(bias)) for bias in self._file["biases"]] if "biases" in self._names else []
            self.sentences = sorted(int(name[: -len("/tokens")]) for name in self._names if name.endswith("/tokens"))

    def tokens(self, sentence: int) -> list[str]:
        """Return the n tokens of a sentence, as pictures show them."""
        if f"{sentence}/tokens" not in self._names:
            last = f"{self.sentences[0]} to {self.sentences[-1]}" if self.sentences else "none"
            raise InputError(self.path, None, f"expected sentence {sentence}, found {last}")
        with self._readable():
            return [printable(str(token)) for token in self._file[f"{sentence}/tokens"]]

    def array(self, sentence: int, name: str) -> np.ndarray | None:
        """Return ``gates``, ``masks``, ``biases`` or ``attention`` of a sentence, or ``None``."""
        n = len(self.tokens(sentence))
        if f"{sentence}/{name}" not in self._names:
            return None
        with self._readable():
            found: np.ndarray = self._file[f"{sentence}/{name}"]
            heads = found.shape[{"gates": -1, "biases": -3}.get(name, 1)] if found.ndim > 2 else 0
            expected = {
                "gates": (len(self.layers), len(self.masks), heads),
                "masks": (len(self.masks), n, n),
                "biases": (len(self.layers), len(self.biases), heads, n, n),
                "attention": (len(self.layers), heads, n, n),
            }[name]
            if found.shape != expected or found.dtype.kind != "f":
                raise ValueError(f"{name} of sentence {sentence} with the shape {found.shape}, not {expected}")
            return found

    @contextmanager
    def _readable(self) -> Iterator[None]:
        """Raise :class:`InputError` for what numpy and zipfile raise of a broken file."""
        try:
            yield
        except Exception as error:  # of many kinds
            if isinstance(error, OSError) and error.filename is not None:
                raise
            expected = "expected a file of fairseq-syntax-dump"
            raise InputError(self.path, None, f"{expected}, found {one_line(error)}") from None

    def mean_gates(self) -> dict[tuple[str, int, int], float]:
        """Return the mean gate over sentences, if any, by mask, layer and head (from 1)."""
        arrays = [gates for s in self.sentences if (gates := self.array(s, "gates")) is not None]
        mean: Any = np.mean(arrays, axis=0, dtype=np.float64) if arrays else np.empty((0, 0, 0))
        return {(self.masks[j], self.layers[i], k + 1): float(gate) for (i, j, k), gate in np.ndenumerate(mean)}

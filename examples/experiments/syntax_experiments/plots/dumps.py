"""What fairseq-syntax-dump wrote: gates, masks and attention of sentences."""

from __future__ import annotations

import os
import re
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from syntax_data.errors import InputError, one_line, short_repr

_NAME = re.compile("layers|masks|biases|(0|[1-9][0-9]*)/(tokens|gates|masks|biases|attention)")


class Dump:
    """An open file of fairseq-syntax-dump.

    Attributes:
        path: where it is.
        layers: the numbers of the layers that syntax enters, from 1.
        masks: the masks' names.
        biases: the names of the tables of learned biases.
        sentences: the sentences' numbers in the split, from 0.

    Raises:
        InputError: it is no such file.
    """

    def __init__(self, path: str):
        self.path = path
        with self._readable():
            if os.path.isfile(path) and not zipfile.is_zipfile(path):
                raise ValueError("no .npz archive")  # numpy would tell how to load it unsafely
            self._file: Any = np.load(path, allow_pickle=False)
            self._names = frozenset(self._file.files)
            for name in self._names:
                if not _NAME.fullmatch(name) or ("/" in name and f"{name.partition('/')[0]}/tokens" not in self._names):
                    raise ValueError(f"{short_repr(name)} in it")
            self.layers = [int(layer) for layer in self._file["layers"]]
            self.masks = [str(mask) for mask in self._file["masks"]]
            self.biases = [str(bias) for bias in self._file["biases"]] if "biases" in self._names else []
            self.sentences = sorted(
                int(name.removesuffix("/tokens")) for name in self._names if name.endswith("/tokens")
            )

    def array(self, sentence: int, name: str) -> np.ndarray | None:
        """``tokens``, ``gates``, ``masks``, ``biases`` or ``attention`` of a sentence; ``None`` if it lacks them.

        Raises :class:`InputError` for a sentence that it does not have, and for one of another shape.
        """
        if f"{sentence}/tokens" not in self._names:
            last = f"{self.sentences[0]} to {self.sentences[-1]}" if self.sentences else "none"
            raise InputError(self.path, None, f"expected sentence {sentence}, found {last}")
        if f"{sentence}/{name}" not in self._names:
            return None
        with self._readable():
            found: np.ndarray = self._file[f"{sentence}/{name}"]
            n = len(found) if name == "tokens" else len(self._file[f"{sentence}/tokens"])
            heads = found.shape[{"gates": -1, "biases": -3}.get(name, 1)] if found.ndim > 2 else 0
            expected = {
                "tokens": (n,),
                "gates": (len(self.layers), len(self.masks), heads),
                "masks": (len(self.masks), n, n),
                "biases": (len(self.layers), len(self.biases), heads, n, n),
                "attention": (len(self.layers), heads, n, n),
            }[name]
            if found.shape != expected or (name != "tokens" and found.dtype.kind != "f"):
                raise ValueError(f"{name} of sentence {sentence} with the shape {found.shape}, not {expected}")
            return found

    @contextmanager
    def _readable(self) -> Iterator[None]:
        """Inside the block, what numpy and zipfile say of a broken file is an :class:`InputError`."""
        try:
            yield
        except Exception as error:  # of many kinds
            if isinstance(error, OSError) and error.filename is not None:
                raise
            raise InputError(
                self.path, None, f"expected a file of fairseq-syntax-dump, found {one_line(error)}"
            ) from None

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

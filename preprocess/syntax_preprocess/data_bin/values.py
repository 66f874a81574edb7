"""Tokens and features of a whole corpus, many sentences at a time, and not before their index fits their values."""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from typing import Any

import numpy as np
from fairseq.data import Dictionary, data_utils, indexed_dataset

from syntax_preprocess.errors import InputError

_HEADER = struct.Struct("<9sQBQ")  # of an mmap dataset's index: magic, version, type of the values, number of sentences
_MAGIC_AND_VERSION = b"MMIDIDX\x00\x00", 1
_TYPES = {1: "uint8", 2: "int8", 3: "int16", 4: "int32", 5: "int64", 8: "uint16", 9: "uint32", 10: "uint64"}
#: How many values are looked at at a time.
BLOCK = 1 << 17


class MmapValues:
    """The values of a dataset in fairseq's mmap format, in a row, mapped from its file.

    Args:
        prefix: path of the files ``prefix.idx`` and ``prefix.bin``, without ending.
        dtype: the values' type; ``None``: any integers.

    Attributes:
        lengths: how many values each sentence has, ``(sentences,)``.

    Raises:
        InputError: the files are not of this format or type, or do not fit each other.
    """

    def __init__(self, prefix: str, dtype: str | None = None):
        path = indexed_dataset.index_file_path(prefix)
        found, sentences = _read_header(path, dtype)
        index = np.memmap(path, mode="r")[_HEADER.size :]
        self.lengths = index[: 4 * sentences].view("<i4")
        self._places = index[4 * sentences :].view("<i8")
        count = self._check_places(path, found.itemsize)
        self._values = _mapped(indexed_dataset.data_file_path(prefix), found, count)

    def _check_places(self, path: str, width: int) -> int:
        """Checks that the sentences' values lie one after another; returns how many there are."""
        count = 0
        for begin in range(0, len(self.lengths), BLOCK):
            lengths, places = self.lengths[begin : begin + BLOCK], self._places[begin : begin + BLOCK]
            ends = count + np.cumsum(lengths, dtype=np.int64)
            wrong = (lengths < 0) | (places != (ends - lengths) * width)
            if wrong.any():
                at = int(wrong.argmax())
                raise InputError(
                    path,
                    None,
                    "expected the values of each sentence to follow those of the one before, found those of sentence "
                    f"{begin + at} (counted from 0), of length {lengths[at]}, at byte {places[at]}",
                )
            count = int(ends[-1])
        return count

    def between(self, first: int, last: int) -> np.ndarray:
        """The values of sentences `first` to `last` - 1, of which there is one at least."""
        start = self._places[first] // self._values.itemsize
        return self._values[start : start + self.lengths[first:last].sum(dtype=np.int64)]


def _read_header(path: str, dtype: str | None) -> tuple[np.dtype, int]:
    """Type of the values and number of sentences of an index."""
    with open(path, "rb") as file:
        start = file.read(_HEADER.size)
    magic, version, code, sentences = _HEADER.unpack(start.ljust(_HEADER.size, b"\x00"))
    if (magic, version) != _MAGIC_AND_VERSION:
        raise InputError(path, None, f"expected an index of fairseq's mmap format, version 1, found {start!r}")
    found = _TYPES.get(code, f"type number {code}")
    if found not in ([dtype] if dtype else _TYPES.values()):
        raise InputError(path, None, f"expected values of {dtype or 'integers'}, found {found}")
    check_size(path, _HEADER.size + 12 * sentences, f"for {sentences} sentences")
    return np.dtype(found), sentences


def _mapped(path: str, dtype: np.dtype, count: int) -> np.ndarray:
    # A file without any value holds one byte, since an empty one cannot be mapped.
    check_size(path, max(count * dtype.itemsize, 1), "as its index says")
    return np.memmap(path, dtype=dtype, mode="r") if count else np.empty(0, dtype)


def check_size(path: str, expected: int, why: str) -> None:
    """Raises :class:`InputError` unless a file has so many bytes."""
    found = os.path.getsize(path)
    if found != expected:
        raise InputError(path, None, f"expected {expected} bytes, {why}, found {found}")


class Tokens:
    """A split's token ids, whatever format they are in.

    Args:
        prefix: path of the token files, without ending.
        dictionary: of their language.
        dataset_impl: their format; ``None``: fairseq finds out.

    Attributes:
        prefix: as given.
        lengths: of the sentences, ``</s>`` included, ``(sentences,)``.
    """

    def __init__(self, prefix: str, dictionary: Dictionary, dataset_impl: str | None):
        self.prefix = prefix
        self._mapped: MmapValues | None = None
        self._dataset: Any = None
        if (dataset_impl or indexed_dataset.infer_dataset_impl(prefix)) == "mmap":
            self._mapped = MmapValues(prefix)
            self.lengths = self._mapped.lengths
        else:
            self._dataset = data_utils.load_indexed_dataset(prefix, dictionary, dataset_impl)
            self.lengths = np.asarray(self._dataset.sizes)

    def between(self, first: int, last: int) -> np.ndarray:
        """The ids of sentences `first` to `last` - 1, of which there is one at least, in a row."""
        if self._mapped is not None:
            return self._mapped.between(first, last)
        if getattr(self._dataset, "supports_prefetch", False):
            self._dataset.prefetch(range(first, last))
        return np.concatenate([self._dataset[i].numpy() for i in range(first, last)])


def ranges(lengths: np.ndarray) -> Iterator[tuple[int, int]]:
    """Cuts sentences of these lengths into ranges, first and last + 1, of some :data:`BLOCK` values."""
    for begin in range(0, len(lengths), BLOCK):
        ends = np.cumsum(lengths[begin : begin + BLOCK], dtype=np.int64)
        first = done = 0
        while first < len(ends):
            last = max(first + 1, int(np.searchsorted(ends, done + BLOCK, side="right")))
            yield begin + first, begin + last
            first, done = last, int(ends[last - 1])

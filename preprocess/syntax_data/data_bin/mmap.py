"""fairseq's mmap format: integers of many sentences in PREFIX.bin, and in PREFIX.idx where each sentence begins.

Read many sentences at a time, and not before the index fits the values; written in constant memory.
"""

from __future__ import annotations

import os
import struct
import tempfile
from collections.abc import Iterator

import numpy as np

from syntax_data.errors import InputError

_HEADER = struct.Struct("<9sQBQ")  # of the index: magic, version, type of the values, number of sentences
_MAGIC = b"MMIDIDX\x00\x00"
_VERSION = 1
_TYPES = {1: "uint8", 2: "int8", 3: "int16", 4: "int32", 5: "int64", 8: "uint16", 9: "uint32", 10: "uint64"}
_CODES = {name: code for code, name in _TYPES.items()}
#: Values, or lengths, that are read at a time.
AT_ONCE = 1 << 17


class MmapValues:
    """The values of a dataset in fairseq's mmap format, mapped from its file.

    Args:
        prefix: path of the files ``prefix.idx`` and ``prefix.bin``, without ending.
        dtype: the values' type; ``None``: any integers.

    Attributes:
        prefix: as given.
        lengths: how many values each sentence has, ``(sentences,)``.

    Raises:
        InputError: the files are not of this format or type, or do not fit each other.
    """

    def __init__(self, prefix: str, dtype: str | None = None):
        self.prefix = prefix
        path = f"{prefix}.idx"
        found, sentences = _read_header(path, dtype)
        index = np.memmap(path, mode="r")[_HEADER.size :]
        self.lengths = index[: 4 * sentences].view("<i4")
        self._offsets = index[4 * sentences :].view("<i8")
        count = self._check_offsets(path, found.itemsize)
        self._values = _mapped(f"{prefix}.bin", found, count)

    def _check_offsets(self, path: str, width: int) -> int:
        """Check that the sentences' values follow one another; return their number."""
        count = 0
        for begin in range(0, len(self.lengths), AT_ONCE):
            lengths, offsets = self.lengths[begin : begin + AT_ONCE], self._offsets[begin : begin + AT_ONCE]
            ends = count + np.cumsum(lengths, dtype=np.int64)
            wrong = (lengths < 0) | (offsets != (ends - lengths) * width)
            if wrong.any():
                at = int(wrong.argmax())
                raise InputError(
                    path,
                    None,
                    "expected the values of each sentence to follow those of the one before, found those of sentence "
                    f"{begin + at} (counted from 0), of length {lengths[at]}, at byte {offsets[at]}",
                )
            count = int(ends[-1])
        return count

    def between(self, first: int, last: int) -> np.ndarray:
        """The values of sentences `first` to `last` - 1, of which there is one at least."""
        start = self._offsets[first] // self._values.itemsize
        return self._values[start : start + self.lengths[first:last].sum(dtype=np.int64)]


def _read_header(path: str, dtype: str | None) -> tuple[np.dtype, int]:
    """Type of the values and number of sentences of an index."""
    with open(path, "rb") as file:
        start = file.read(_HEADER.size)
    magic, version, code, sentences = _HEADER.unpack(start.ljust(_HEADER.size, b"\x00"))
    if (magic, version) != (_MAGIC, _VERSION):
        raise InputError(
            path,
            None,
            f"expected an index of fairseq's mmap format, version 1, found {start!r}; fairseq-preprocess writes it "
            "without --dataset-impl",
        )
    name = _TYPES.get(code, f"type number {code}")
    if name not in ([dtype] if dtype else _TYPES.values()):
        raise InputError(path, None, f"expected values of {dtype or 'integers'}, found {name}")
    check_size(path, _HEADER.size + 12 * sentences, f"for {sentences} sentences")
    return np.dtype(name), sentences


def _mapped(path: str, dtype: np.dtype, count: int) -> np.ndarray:
    # A file without any value has one byte, since an empty one cannot be mapped; fairseq's is empty all the same.
    if not count and os.path.getsize(path) <= 1:
        return np.empty(0, dtype)
    check_size(path, count * dtype.itemsize, "by its index")
    return np.memmap(path, dtype=dtype, mode="r")


def check_size(path: str, expected: int, why: str) -> None:
    """Raise :class:`InputError` unless a file has `expected` bytes."""
    found = os.path.getsize(path)
    if found != expected:
        raise InputError(path, None, f"expected {expected} bytes, {why}, found {found}")


class MmapWriter:
    """Writes a dataset in fairseq's mmap format, in constant memory.

    Args:
        prefix: path of the files, without ending.
        dtype: type of the values.
    """

    def __init__(self, prefix: str, dtype: str):
        self.prefix = prefix
        self.dtype = np.dtype(dtype)
        self._values = open(f"{prefix}.bin", "wb")  # noqa: SIM115
        self._sizes = tempfile.TemporaryFile(dir=os.path.dirname(prefix))  # noqa: SIM115

    def write(self, lengths: np.ndarray, values: np.ndarray) -> None:
        """Add sentences of `lengths`, whose values are one after another in `values`."""
        self._values.write(values.astype(self.dtype, copy=False).tobytes())
        self._sizes.write(lengths.astype(np.int32).tobytes())

    def close(self) -> None:
        """Write the index: all sentences' lengths, then the byte at which each begins."""
        sentences = self._sizes.tell() // 4
        if not self._values.tell():  # no sentence has a parse
            self._values.write(bytes(1))  # an empty file cannot be mapped; no sentence points at this
        self._values.close()
        with open(f"{self.prefix}.idx", "wb") as index:
            index.write(_HEADER.pack(_MAGIC, _VERSION, _CODES[self.dtype.name], sentences))
            for sizes in self._read_sizes():
                index.write(sizes.tobytes())
            begin = 0
            for sizes in self._read_sizes():
                ends = begin + np.cumsum(sizes, dtype=np.int64) * self.dtype.itemsize
                index.write(np.concatenate([[begin], ends[:-1]]).astype(np.int64).tobytes())
                begin = ends[-1]
        self._sizes.close()

    def _read_sizes(self) -> Iterator[np.ndarray]:
        self._sizes.seek(0)
        while read := self._sizes.read(4 << 16):
            yield np.frombuffer(read, dtype=np.int32)


def ranges(lengths: np.ndarray) -> Iterator[tuple[int, int]]:
    """Cut sentences of these lengths into ranges, first and last + 1, of about :data:`AT_ONCE` values."""
    for begin in range(0, len(lengths), AT_ONCE):
        ends = np.cumsum(lengths[begin : begin + AT_ONCE], dtype=np.int64)
        first = done = 0
        while first < len(ends):
            last = max(first + 1, int(np.searchsorted(ends, done + AT_ONCE, side="right")))
            yield begin + first, begin + last
            first, done = last, int(ends[last - 1])

"""fairseq's mmap format: integers in PREFIX.bin, sentences' bounds in PREFIX.idx."""

from __future__ import annotations

import os
import struct
import tempfile

import numpy as np

from syntax_data.errors import InputError

_HEADER = struct.Struct("<9sQBQ")  # of the index: magic, version, type of the values, number of sentences
_MAGIC = b"MMIDIDX\x00\x00"
_VERSION = 1
_TYPES = {1: "uint8", 2: "int8", 3: "int16", 4: "int32", 5: "int64", 8: "uint16", 9: "uint32", 10: "uint64"}
_CODES = {name: code for code, name in _TYPES.items()}
#: Sentences that are read at a time.
AT_ONCE = 1 << 12


class MmapValues:
    """The values of a dataset in fairseq's mmap format, mapped from its file.

    Args:
        prefix: path of the files ``prefix.idx`` and ``prefix.bin``, without ending.
        dtype: the values' type; ``None``: any integers.

    Attributes:
        lengths: how many values each sentence has, ``(sentences,)``.

    Raises :class:`InputError` if the files are not of this format or type, or do not fit each other.
    """

    def __init__(self, prefix: str, dtype: str | None = None):
        self.prefix = prefix
        path = f"{prefix}.idx"
        found, sentences = _read_header(path, dtype)
        index = np.memmap(path, mode="r")[_HEADER.size :]
        self.lengths = index[: 4 * sentences].view("<i4")
        self._offsets = index[4 * sentences :].view("<i8")
        count = self._check_offsets(path, found.itemsize)
        content = f"{prefix}.bin"
        if count or os.path.getsize(content) > 1:
            check_size(content, count * found.itemsize, "by its index")
            self._values: np.ndarray = np.memmap(content, dtype=found, mode="r")
        else:  # one byte, since an empty file cannot be mapped; fairseq's is empty
            self._values = np.empty(0, found)

    def _check_offsets(self, path: str, width: int) -> int:
        """Check that the sentences' values follow one another; return their number."""
        count = 0
        for begin in range(0, len(self.lengths), AT_ONCE):
            lengths, offsets = self.lengths[begin : begin + AT_ONCE], self._offsets[begin : begin + AT_ONCE]
            ends = count + np.cumsum(lengths, dtype=np.int64)
            wrong = (lengths < 0) | (offsets != (ends - lengths) * width)
            if wrong.any():
                at = int(wrong.argmax())
                found = f"sentence {begin + at} (counted from 0), of length {lengths[at]}, at byte {offsets[at]}"
                message = f"expected each sentence's values to follow those of the one before, found those of {found}"
                raise InputError(path, None, message)
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
        message = f"expected an index of fairseq's mmap format, version 1, found {start!r}; "
        raise InputError(path, None, f"{message}fairseq-preprocess writes it without --dataset-impl")
    name = _TYPES.get(code, f"type number {code}")
    if name not in ([dtype] if dtype else _TYPES.values()):
        raise InputError(path, None, f"expected values of {dtype or 'integers'}, found {name}")
    check_size(path, _HEADER.size + 12 * sentences, f"for {sentences} sentences")
    return np.dtype(name), sentences


def check_size(path: str, expected: int, why: str) -> None:
    """Raise :class:`InputError` unless a file has `expected` bytes."""
    found = os.path.getsize(path)
    if found != expected:
        raise InputError(path, None, f"expected {expected} bytes, {why}, found {found}")


class MmapWriter:
    """Writer of a dataset in fairseq's mmap format, whose lengths wait in a file.

    Args:
        prefix: path of the files, without ending.
        dtype: type of the values.
    """

    def __init__(self, prefix: str, dtype: str):
        self.prefix = prefix
        self.dtype = np.dtype(dtype)
        self._values = open(f"{prefix}.bin", "wb")  # noqa: SIM115
        self._lengths = tempfile.TemporaryFile(dir=os.path.dirname(prefix))  # noqa: SIM115

    def write(self, lengths: np.ndarray, values: np.ndarray) -> None:
        """Add sentences of `lengths`, whose values are one after another in `values`."""
        self._values.write(values.astype(self.dtype, copy=False).tobytes())
        self._lengths.write(lengths.astype(np.int32).tobytes())

    def close(self) -> None:
        """Write the index: all sentences' lengths, then the byte at which each begins."""
        if not self._values.tell():  # no sentence has a parse
            self._values.write(bytes(1))  # an empty file cannot be mapped; no sentence points at this
        self._values.close()
        self._lengths.seek(0)
        lengths = np.frombuffer(self._lengths.read(), np.int32)
        self._lengths.close()
        begins = np.cumsum(lengths, dtype=np.int64) - lengths
        with open(f"{self.prefix}.idx", "wb") as index:
            index.write(_HEADER.pack(_MAGIC, _VERSION, _CODES[self.dtype.name], len(lengths)))
            index.write(lengths.tobytes())
            index.write((begins * self.dtype.itemsize).tobytes())

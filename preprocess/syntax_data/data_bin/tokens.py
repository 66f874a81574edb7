"""A split's token ids, in the formats of fairseq that can be read without it."""

from __future__ import annotations

import os
import struct
from array import array
from typing import Protocol

import numpy as np

from syntax_data.data_bin.dictionary import Symbols
from syntax_data.data_bin.mmap import MAGIC, MmapValues, check_size, dtype_of_code
from syntax_data.errors import InputError
from syntax_data.text.lines import tokenize_line

_LEGACY_MAGIC = b"TNTIDX\x00\x00"
_LEGACY_HEADER = struct.Struct("<8sQQQQQ")  # magic, version, type and width of the values, sentences, sizes


class Tokens(Protocol):
    """A split's token ids.

    Attributes:
        prefix: path of their files, without ending.
        lengths: of the sentences, ``</s>`` included, ``(sentences,)``.
    """

    prefix: str
    lengths: np.ndarray

    def between(self, first: int, last: int) -> np.ndarray:
        """The ids of sentences `first` to `last` - 1, of which there is one at least, in a row."""


def tokens_exist(prefix: str, dataset_impl: str | None = None) -> bool:
    """Whether there are tokens of a format of fairseq's; ``None``: of any but ``raw``."""
    if dataset_impl == "raw":
        return os.path.exists(prefix)
    return os.path.exists(f"{prefix}.idx") and os.path.exists(f"{prefix}.bin")


def found_format(prefix: str) -> str | None:
    """The format in which there are tokens, by the name that ``--dataset-impl`` has for it; ``None``: none is known."""
    if tokens_exist(prefix, "raw"):
        return "raw"
    if not tokens_exist(prefix):
        return None
    with open(f"{prefix}.idx", "rb") as file:
        magic = file.read(8)
    return {_LEGACY_MAGIC: "cached", MAGIC[:8]: "mmap"}.get(magic)


def open_tokens(prefix: str, symbols: Symbols, dataset_impl: str | None = None) -> Tokens:
    """The tokens at `prefix`.

    Args:
        prefix: path of the token files, without ending.
        symbols: the dictionary.
        dataset_impl: their format; ``None``: as :func:`found_format` says.

    Raises:
        InputError: the format is another one than mmap, cached, lazy or raw, or the files are broken.
    """
    found = dataset_impl or found_format(prefix)
    if found == "mmap":
        return MmapValues(prefix)
    if found in ("cached", "lazy"):
        return _LegacyTokens(prefix)
    if found == "raw":
        return _RawTokens(prefix, symbols)
    raise InputError(
        prefix,
        None,
        f"expected tokens in fairseq's format mmap, cached, lazy or raw, found {found or _other_format(prefix)}; make "
        "them with fairseq-preprocess --dataset-impl mmap",
    )


def _other_format(prefix: str) -> str:
    """What to call the format of tokens that are of no known one."""
    if not tokens_exist(prefix):
        return "none of them"
    with open(f"{prefix}.idx", "rb") as file:
        return f"another one (magic {file.read(8)!r})"


class _LegacyTokens:
    """Tokens of fairseq's formats ``lazy`` and ``cached``, which count from 1."""

    def __init__(self, prefix: str):
        self.prefix = prefix
        path = f"{prefix}.idx"
        with open(path, "rb") as file:
            start = file.read(_LEGACY_HEADER.size)
        magic, version, code, width, sentences, sizes = _LEGACY_HEADER.unpack(start.ljust(_LEGACY_HEADER.size, b"\x00"))
        if (magic, version) != (_LEGACY_MAGIC, 1):
            raise InputError(path, None, f"expected an index of fairseq's legacy format, version 1, found {start!r}")
        dtype = dtype_of_code(path, code)
        if (width, sizes) != (dtype.itemsize, sentences):
            raise InputError(
                path,
                None,
                f"expected values of {dtype.itemsize} bytes and {sentences} lengths, one a sentence, found {width} "
                f"bytes and {sizes} lengths",
            )
        check_size(path, _LEGACY_HEADER.size + 8 * (2 * (sentences + 1) + sentences), f"for {sentences} sentences")
        # Of which dimensions are each sentence's, where its values begin and where the last ones end, and lengths.
        index = np.memmap(path, "<i8", "r", offset=_LEGACY_HEADER.size)
        dimensions, self._places, self.lengths = np.split(index, [sentences + 1, 2 * (sentences + 1)])
        if (
            (dimensions != np.arange(sentences + 1)).any()
            or (self.lengths < 0).any()
            or self._places[0] != 0
            or (self._places[1:] != np.cumsum(self.lengths)).any()
        ):
            raise InputError(path, None, "expected one row of values a sentence, one after another, found others")
        count = int(self._places[-1])
        check_size(f"{prefix}.bin", count * width, "as its index says")
        self._values = np.memmap(f"{prefix}.bin", dtype, "r") if count else np.empty(0, dtype)

    def between(self, first: int, last: int) -> np.ndarray:
        return self._values[self._places[first] : self._places[last]] - 1


class _RawTokens:
    """Text, whose lines become tokens here."""

    def __init__(self, path: str, symbols: Symbols):
        self.prefix = path
        ids, lengths = array("i"), array("i")
        with open(path, encoding="utf-8") as file:
            for line in file:
                tokens = tokenize_line(line)
                ids.extend(map(symbols.number, tokens))
                ids.append(symbols.eos)
                lengths.append(len(tokens) + 1)
        self._ids = np.array(ids, np.int32)
        self.lengths = np.array(lengths, np.int32)
        self._ends = np.cumsum(self.lengths, dtype=np.int64)

    def between(self, first: int, last: int) -> np.ndarray:
        return self._ids[self._ends[first] - self.lengths[first] : self._ends[last - 1]]

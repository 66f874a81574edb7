"""Token ids, read without fairseq, beside fairseq's own readers."""

from __future__ import annotations

import struct
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from fairseq.data import Dictionary, data_utils, indexed_dataset

import data_bins
from syntax_data.data_bin.dictionary import Symbols
from syntax_data.data_bin.tokens import found_format, open_tokens, tokens_exist
from syntax_data.errors import InputError

FORMATS = ["mmap", "cached", "lazy", "raw"]
LINES = ["a b c", "", "c  unknown\tb\r", "a"]


def made(folder: Path, dataset_impl: str, lines: list[str]) -> tuple[str, Symbols, Dictionary]:
    data_bins.preprocess(folder / "bin", "train", lines, known=["a b c"], dataset_impl=dataset_impl)
    dictionary = f"{folder}/bin/dict.en.txt"
    return f"{folder}/bin/train.en-de.en", Symbols.read(dictionary), Dictionary.load(dictionary)


@pytest.mark.parametrize(
    ("dataset_impl", "lines"),
    [*((dataset_impl, LINES) for dataset_impl in FORMATS), ("cached", []), ("raw", [])],  # fairseq maps no empty file
)
def test_ids_are_fairseqs(tmp_path, dataset_impl, lines):
    prefix, symbols, dictionary = made(tmp_path, dataset_impl, lines)
    expected = data_utils.load_indexed_dataset(prefix, dictionary, "lazy" if dataset_impl == "cached" else dataset_impl)
    for stated in (dataset_impl, None):
        found = open_tokens(prefix, symbols, stated)
        assert found.lengths.tolist() == list(expected.sizes)
        for first in range(len(lines)):
            for last in range(first + 1, len(lines) + 1):
                assert found.between(first, last).tolist() == [
                    i for k in range(first, last) for i in expected[k].tolist()
                ]


@pytest.mark.parametrize("dataset_impl", FORMATS)
def test_formats_are_found_as_fairseq_finds_them(tmp_path, dataset_impl):
    prefix, _, _ = made(tmp_path, dataset_impl, LINES)
    assert found_format(prefix) == indexed_dataset.infer_dataset_impl(prefix)
    for asked in (None, *FORMATS):
        if asked != "mmap" or dataset_impl in ("mmap", "raw"):
            assert tokens_exist(prefix, asked) == bool(indexed_dataset.dataset_exists(prefix, asked))


@pytest.mark.parametrize("stated", [None, "huffman", "fasta"])
def test_other_formats_are_refused_with_advice(tmp_path, stated):
    prefix, symbols, _ = made(tmp_path, "mmap", LINES)
    if stated is None:
        Path(f"{prefix}.idx").write_bytes(b"HUFFIDX\x00\x00" + bytes(20))
    with pytest.raises(InputError, match=r"train\.en-de\.en: expected tokens in .*; make them with fairseq-preprocess"):
        open_tokens(prefix, symbols, stated)


def test_an_unknown_format_is_told_from_none(tmp_path):
    prefix, symbols, _ = made(tmp_path, "mmap", LINES)
    Path(f"{prefix}.idx").write_bytes(b"HUFFIDX\x00\x00" + bytes(20))
    with pytest.raises(InputError, match=r"found another one \(magic b'HUFFIDX\\x00'\); make"):
        open_tokens(prefix, symbols)
    with pytest.raises(InputError, match="found none of them; make"):
        open_tokens(f"{tmp_path}/none", symbols)


def legacy_index(prefix: Path, lengths: np.ndarray) -> None:
    """An index of fairseq's legacy format for int32 values, and as many values."""
    count = len(lengths)
    header = struct.pack("<8sQQQQQ", b"TNTIDX\x00\x00", 1, 4, 4, count, count)
    places = np.concatenate([[0], np.cumsum(lengths)])
    numbers = np.concatenate([np.arange(count + 1), places, lengths]).astype("<i8")
    Path(f"{prefix}.idx").write_bytes(header + numbers.tobytes())
    Path(f"{prefix}.bin").write_bytes(bytes(4 * int(places[-1])))


def test_negative_lengths_in_a_legacy_index_are_refused(tmp_path):
    _, symbols, _ = made(tmp_path, "cached", LINES)
    legacy_index(tmp_path / "x", np.array([3, -1, 2]))
    with pytest.raises(InputError, match=r"x\.idx: expected one row of values a sentence"):
        open_tokens(f"{tmp_path}/x", symbols)


def test_a_legacy_index_takes_little_memory(tmp_path):
    _, symbols, _ = made(tmp_path, "cached", LINES)
    count = 200_000
    legacy_index(tmp_path / "x", np.full(count, 2))
    tracemalloc.start()
    try:
        open_tokens(f"{tmp_path}/x", symbols)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < 20 * count  # an array of integers, and one of bools


def test_a_number_that_is_out_of_place_in_a_legacy_index_is_refused(tmp_path):
    prefix, symbols, _ = made(tmp_path, "cached", LINES)
    index, data = Path(f"{prefix}.idx"), Path(f"{prefix}.bin")
    whole = index.read_bytes()
    assert len(whole) == 48 + 8 * (5 + 5 + 4)
    for place in range(0, len(whole), 8):
        index.write_bytes(whole[:place] + struct.pack("<q", 77) + whole[place + 8 :])
        with pytest.raises(InputError, match=r"train\.en-de\.en\.(idx|bin): expected "):
            open_tokens(prefix, symbols, "cached")
    for broken in (whole[:-8], whole[:20], b""):
        index.write_bytes(broken)
        with pytest.raises(InputError, match=r"\.idx: expected "):
            open_tokens(prefix, symbols, "lazy")
    index.write_bytes(whole)
    data.write_bytes(data.read_bytes() + b"\x00")
    with pytest.raises(InputError, match=r"\.bin: expected 44 bytes, as its index says, found 45"):
        open_tokens(prefix, symbols)
    assert np.fromfile(data, np.int32, 11).min() > 0  # legacy formats count from 1

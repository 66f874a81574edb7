"""Our writer of feature files and our reader of dictionaries, beside fairseq's."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from fairseq.data import Dictionary, indexed_dataset
from fairseq.data.indexed_dataset import MMapIndexedDatasetBuilder
from hypothesis import given
from hypothesis import strategies as st

from syntax_data.data_bin.dictionary import EOS, UNKNOWN, read_dictionary
from syntax_data.data_bin.mmap import MmapWriter
from syntax_data.errors import InputError


@pytest.mark.parametrize("dtype", ["uint8", "uint16"])
@pytest.mark.parametrize("sentences", [0, 1, 7, 70_000])
def test_files_are_what_fairseqs_builder_writes(tmp_path, dtype, sentences):
    random = np.random.default_rng(1)
    lengths = random.integers(0, 4, sentences)
    values = random.integers(0, 255, lengths.sum())
    ours, theirs = str(tmp_path / "ours"), str(tmp_path / "theirs")
    writer = MmapWriter(ours, dtype)
    half = sentences // 2
    cut = lengths[:half].sum()
    writer.write(lengths[:half], values[:cut])
    writer.write(lengths[half:], values[cut:])
    writer.close()
    builder = MMapIndexedDatasetBuilder(indexed_dataset.data_file_path(theirs), dtype=np.dtype(dtype).type)
    for row in np.split(values, lengths.cumsum()[:-1]) if sentences else []:
        builder.add_item(torch.from_numpy(row))
    builder.finalize(indexed_dataset.index_file_path(theirs))
    for ending in ("bin", "idx"):
        expected = (tmp_path / f"theirs.{ending}").read_bytes()
        assert (tmp_path / f"ours.{ending}").read_bytes() == (expected or bytes(1))
    assert sorted(p.name for p in tmp_path.iterdir()) == ["ours.bin", "ours.idx", "theirs.bin", "theirs.idx"]
    dataset = indexed_dataset.make_dataset(ours, "mmap")
    assert len(dataset) == sentences


SYMBOLS = ["a", "b", "▁c", "d@@", "e f", "", "ä\u2028", "<unk>", "<s>", "#fairseq:overwrite", "\x85"]
COUNTS = [" 1", " -2", " 1_0", " ٣", " 1 #fairseq:overwrite", " x", "", " #fairseq:overwrite", "\t1", "  7"]


@given(st.lists(st.tuples(*map(st.sampled_from, (SYMBOLS, COUNTS, ["\n", "\r\n", " \n"]))), max_size=5))
def test_ids_are_fairseqs(tmp_path_factory, lines):
    path = tmp_path_factory.mktemp("dictionary") / "dict.en.txt"
    path.write_bytes("".join(map("".join, lines)).encode())
    try:
        expected = Dictionary.load(str(path))
    except (RuntimeError, ValueError):
        with pytest.raises(InputError, match=r"dict\.en\.txt:[1-9]: expected "):
            read_dictionary(str(path))
        return
    assert read_dictionary(str(path)) == expected.indices
    assert (expected.eos(), expected.unk()) == (EOS, UNKNOWN)


def test_what_is_not_utf8_is_refused(tmp_path):
    (tmp_path / "dict").write_bytes(b"a 1\n\xff 1\n")
    with pytest.raises(InputError, match=r"dict:2: expected UTF-8"):
        read_dictionary(str(tmp_path / "dict"))

"""Feature files: the format, and what is refused when they are read."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from fairseq.data import indexed_dataset
from fairseq.data.indexed_dataset import MMapIndexedDatasetBuilder

from syntax_data.data_bin.mmap import MmapWriter


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

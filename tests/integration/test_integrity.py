"""Features of another text, damaged files and invalid values are refused."""

from __future__ import annotations

import json
import logging
import shutil
import struct
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from fairseq.data import indexed_dataset

import data_bins
from binarizing import preprocess
from fairseq_syntax.data import features
from syntax_data.commands import binarize
from syntax_data.data_bin import mmap
from syntax_data.errors import InputError


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Path:
    """300 sentences of 6 words."""
    return data_bins.make(tmp_path_factory.mktemp("made"), data_bins.sentences(300))


@pytest.fixture
def data(made, tmp_path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "data"))


@pytest.fixture
def without_hashes(monkeypatch) -> None:
    """As if the files were too large to be compared with their hashes."""
    monkeypatch.setattr(features, "HASHED_AT_LOAD", 0)


def refused(data: Path, expected: str, **options) -> None:
    """Both loading and verifying the split fail with this message."""
    with pytest.raises(InputError, match=expected):
        data_bins.load(data, **options)
    with pytest.raises(SystemExit, match=expected):
        data_bins.verify(data)


def test_features_are_loaded_and_verified(made, capsys, caplog):
    before = {path.name: path.read_bytes() for path in made.iterdir()}
    with caplog.at_level(logging.INFO):
        assert len(data_bins.load(made)) == 300
    assert "train: 300 of 300 sentences have a parse (conllu)" in caplog.messages
    data_bins.verify(made)
    (line,) = capsys.readouterr().out.splitlines()
    assert line.startswith("train: 24 files as in the signature; 300 sentences with valid word, distance, head, ")
    assert {path.name: path.read_bytes() for path in made.iterdir()} == before


def test_tokens_of_another_order_are_refused_also_without_hashes(data, without_hashes):
    tokens, starts = data_bins.values(data, None)
    rows = tokens.reshape(len(starts), 7)
    rows[[7, 8]] = rows[[8, 7]]
    tokens.flush()
    expected = r"train\.en-de\.en\.bin: expected the file of the signature .*after fairseq-preprocess run"
    for names in (("word",), ("distance",), ("word", "head", "distance")):
        refused(data, expected, features=names)


def test_another_format_of_tokens_is_refused(data):
    with pytest.raises(ValueError, match="--dataset-impl: expected mmap, found lazy: "):
        data_bins.load(data, dataset_impl="lazy")
    preprocess(data, "train", "".join(f"{line}\n" for line in data_bins.sentences(300)), dataset_impl="cached")
    refused(data, r"train\.en-de\.en\.bin: expected ")


def test_each_of_combined_splits_is_compared(tmp_path):
    lines = data_bins.sentences(50, words=None)
    data_bins.make(tmp_path, lines)
    data = data_bins.make(tmp_path, lines[:20], "train1")
    for options in ({}, {"truncate_source": True, "max_source_positions": 4}):
        dataset = data_bins.load(data, combine=True, upsample_primary=3, **options)
        assert len(dataset) == 170
        item = dataset[165]
        assert len(item["source"]) == len(item["syntax"]["word"])
    damage(data / "train1.en-de.en.bin", flipped)
    refused(data, r"train1\.en-de\.en\.bin: expected the file of the signature", combine=True, upsample_primary=1)
    assert len(data_bins.load(data)) == 50


def truncated(content: bytes) -> bytes:
    return content[:-3]


def extended(content: bytes) -> bytes:
    return content + bytes(8)


def flipped(content: bytes) -> bytes:
    at = len(content) * 2 // 3
    return content[:at] + bytes([content[at] ^ 4]) + content[at + 1 :]


def damage(path: Path, how) -> None:
    path.write_bytes(how(path.read_bytes()))


@pytest.mark.parametrize("how", [truncated, extended, flipped])
@pytest.mark.parametrize("ending", ["bin", "idx", "word.bin", "head.idx"])
def test_damaged_files_are_refused_by_name(data, ending, how):
    path = data / f"train.en-de.en.{ending}"
    size = path.stat().st_size
    damage(path, how)
    found = path.stat().st_size
    expected = "the file of the" if how is flipped else f"{size} bytes, .*found {found}"
    refused(data, rf"train\.en-de\.en\.{ending}: expected {expected}")


@pytest.mark.parametrize(
    ("at", "value", "expected"),
    [
        (17, b"\x01", "expected values of uint16, found uint8"),
        (0, b"TNTIDX\x00\x00", "expected an index of fairseq's mmap format"),
        (18, struct.pack("<Q", 299), r"expected 3614 bytes, for 299 sentences, found 3626"),
        (826, struct.pack("<i", 5), r"found those of sentence 201 \(counted from 0\)"),
        (826, struct.pack("<i", -1), r"found those of sentence 200 \(counted from 0\), of length -1"),
        (-800, struct.pack("<q", 98), r"found those of sentence 200 .* at byte 98"),
    ],
)
def test_an_index_is_checked_also_without_hashes(data, without_hashes, at, value, expected):
    path = data / "train.en-de.en.head.idx"
    content = bytearray(path.read_bytes())
    content[at : at + len(value)] = value
    path.write_bytes(content)
    data_bins.sign(data)
    refused(data, rf"train\.en-de\.en\.head\.idx: .*{expected}")


def test_only_verify_finds_a_flipped_value_of_large_files(data, without_hashes, caplog):
    damage(data / "train.en-de.en.head.bin", flipped)
    with caplog.at_level(logging.INFO):
        data_bins.load(data)
    assert [message for message in caplog.messages if "--verify" in message]
    with pytest.raises(SystemExit, match=r"train\.en-de\.en\.head\.bin: expected the file of"):
        data_bins.verify(data)


@pytest.mark.parametrize(
    ("feature", "position", "values", "expected"),
    [
        ("word", 0, [1], "the first word to be number 0"),
        ("word", 3, [7], "the same word as before or the next"),
        ("word", 3, [1], "the same word as before or the next"),
        ("word", 6, [5], "a word of its own for </s>"),
        ("head", 2, [7], "a head among the sentence's words"),
        ("head", 2, [65535], "a head among the sentence's words"),
        ("head", 6, [1], "no head for </s>"),
        ("head", 3, [4], "a head from which heads lead to a root, not into a cycle"),
        ("head", 2, [4, 5, 3, 1], "a head from which heads lead to a root, not into a cycle"),
        ("distance", 5, [3], "65535 before and after </s>"),
        ("distance", 6, [0], "65535 before and after </s>"),
        ("upos", 0, [0], "a number from 1 to 20"),
        ("upos", 0, [21], "a number from 1 to 20"),
        ("deprel", 6, [1], "0 for </s>"),
        ("case", 1, [3], "a number from 1 to 2"),
        ("position", 1, [0], "a number from 1 to 4"),
    ],
)
def test_verify_finds_invalid_values(data, monkeypatch, capsys, feature, position, values, expected):
    monkeypatch.setattr(mmap, "AT_ONCE", 20)
    found, starts = data_bins.values(data, feature)
    begin = starts[123] + position
    found[begin : begin + len(values)] = values
    data_bins.sign(data)
    place = rf"{feature}\.bin: expected {expected}, found {values[0]} in sentence 123, position {position} \("
    with pytest.raises(SystemExit, match=rf"fairseq-syntax-binarize: error: .*/train\.en-de\.en\.{place}"):
        data_bins.verify(data)
    assert capsys.readouterr().out.startswith("train: wrong: ")


def test_verify_wants_one_head_a_word(tmp_path):
    data_bins.parse(tmp_path, "train", ["ab c"])
    (tmp_path / "train.en").write_text("a@@ b c\n")
    preprocess(tmp_path / "bin", "train", "a@@ b c\n")
    binarize.main([*data_bins.LANGUAGES, f"--trainpref={tmp_path}/train", f"--destdir={tmp_path}/bin"])
    data_bins.verify(tmp_path / "bin")
    heads, _ = data_bins.values(tmp_path / "bin", "head")
    heads[1] = 2
    data_bins.sign(tmp_path / "bin")
    with pytest.raises(SystemExit, match="one head for all subwords of a word, found 2 in sentence 0, position 1"):
        data_bins.verify(tmp_path / "bin")


def test_verify_prints_every_split(tmp_path, capsys):
    lines = data_bins.sentences(30, words=None)
    for name in ("train", "valid", "test"):
        data = data_bins.make(tmp_path, lines, name)
    damage(data / "valid.en-de.en.upos.bin", flipped)
    capsys.readouterr()
    with pytest.raises(SystemExit, match=r"valid\.en-de\.en\.upos\.bin"):
        data_bins.verify(data)
    printed = dict(line.split(": ", 1) for line in capsys.readouterr().out.splitlines())
    assert {split: text.startswith("wrong: ") for split, text in printed.items()} == {
        "train": False, "valid": True, "test": False
    }  # fmt: skip
    signature = data / "syntax.en-de.en.json"
    content = json.loads(signature.read_text())
    del content["splits"]["valid"]
    signature.write_text(json.dumps(content))
    data_bins.verify(data)
    assert capsys.readouterr().out.splitlines()[2] == "valid: tokens without features"
    signature.write_text(json.dumps({**content, "splits": {}}))
    with pytest.raises(SystemExit, match=r"en\.json: expected a signature with splits, found none in it"):
        data_bins.verify(data)


@pytest.mark.parametrize("name", ["syntax.en-de.en.json", "train.en-de.en.idx", "train.en-de.en.upos.bin"])
def test_verify_names_missing_files(data, name):
    (data / name).unlink()
    with pytest.raises(SystemExit, match=rf"{name}: expected .*, found (no file|none)$"):
        data_bins.verify(data)
    with pytest.raises(SystemExit, match="--verify: expected no --trainpref"):
        binarize.main([*data_bins.LANGUAGES, "--verify", f"--destdir={data}", "--trainpref=x"])


@pytest.mark.parametrize(
    ("setting", "value"),
    [("control", "noise:101"), ("subwords", "x"), ("on_bad_parse", []), ("symbols", "*"), ("more", "")],
)
def test_invalid_settings_in_a_signature_are_refused(data, setting, value):
    path = data / "syntax.en-de.en.json"
    content = json.loads(path.read_text())
    content["splits"]["train"]["settings"][setting] = value
    path.write_text(json.dumps(content))
    refused(data, rf"en\.json: expected a signature of feature files, found settings of train: .*{setting}")


def repeat(data: Path, times: int) -> None:
    """Write all sentences and features `times` times."""
    for feature in (None, *data_bins.FEATURES):
        prefix = f"{data}/train.en-de.en" + (f".{feature}" if feature else "")
        dataset = indexed_dataset.make_dataset(prefix, "mmap")
        sizes = np.tile(dataset.sizes, times)
        content = np.tile(np.fromfile(f"{prefix}.bin", dataset._index.dtype), times)
        del dataset
        writer = mmap.MmapWriter(prefix, content.dtype.name)
        writer.write(sizes, content)
        writer.close()
    data_bins.sign(data)


def test_memory_does_not_grow_with_the_text(data, monkeypatch, capsys):
    monkeypatch.setattr(mmap, "AT_ONCE", 400)
    peaks = []
    for sentences in (3000, 90_000):
        repeat(data, 10 if sentences == 3000 else 30)
        tracemalloc.start()
        data_bins.verify(data)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        assert f"; {sentences} sentences with valid " in capsys.readouterr().out
    assert peaks[1] < 1.5 * peaks[0] < 10 << 20  # a number for each sentence would be 0.7 MB more

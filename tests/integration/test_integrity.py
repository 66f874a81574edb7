"""Features of another text, damaged files and invalid values are refused at load, or found by --verify."""

from __future__ import annotations

import json
import logging
import shutil
import struct
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from fairseq.data import indexed_dataset

import data_bins
from fairseq_syntax.data import features
from syntax_data.commands import binarize
from syntax_data.data_bin import mmap
from syntax_data.errors import InputError

FEATURES = ("word", "distance", "head", "deprel", "upos", "case", "position")


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Path:
    """300 sentences of 0 to 9 words."""
    return data_bins.make(tmp_path_factory.mktemp("made"), data_bins.sentences(300, words=None))


@pytest.fixture(scope="module")
def other(tmp_path_factory) -> Path:
    """Another data-bin, whose files have the sizes of those of `equal`."""
    return data_bins.make(tmp_path_factory.mktemp("other"), data_bins.sentences(300, seed=2))


@pytest.fixture(scope="module")
def equal(tmp_path_factory) -> Path:
    """300 sentences of 6 words."""
    return data_bins.make(tmp_path_factory.mktemp("equal"), data_bins.sentences(300))


@pytest.fixture
def data(made, tmp_path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "data"))


@pytest.fixture
def alike(equal, tmp_path) -> Path:
    return Path(shutil.copytree(equal, tmp_path / "alike"))


def refused(data: Path, expected: str, **options) -> None:
    """The split is neither loaded nor verified, and both say why."""
    with pytest.raises(InputError, match=expected):
        data_bins.load(data, **options)
    with pytest.raises(SystemExit, match=expected):
        data_bins.verify(data)


def test_features_are_loaded_and_verified(made, capsys, caplog):
    with caplog.at_level(logging.INFO):
        assert len(data_bins.load(made)) == 300
    assert "train: 300 of 300 sentences have a parse (conllu)" in caplog.messages
    data_bins.verify(made)
    (line,) = capsys.readouterr().out.splitlines()
    assert line.startswith("train: 16 files as in the signature; 300 sentences with valid word, distance, head, ")


def one_token(rows: np.ndarray) -> None:
    rows[150, 3] = 4 + (rows[150, 3] - 3) % 20


def one_line_missing(rows: np.ndarray) -> None:
    rows[100:] = np.roll(rows[100:], -1, axis=0)


def two_lines_swapped(rows: np.ndarray) -> None:
    rows[[7, 8]] = rows[[8, 7]]


def two_words_swapped(rows: np.ndarray) -> None:
    first, second = next((i, j) for i in range(6) for j in range(i) if rows[9, i] != rows[9, j])
    rows[9, [first, second]] = rows[9, [second, first]]


@pytest.mark.parametrize("change", [one_token, one_line_missing, two_lines_swapped, two_words_swapped])
def test_tokens_of_another_text_or_order_are_refused(alike, change, without_hashes):
    """Also if the feature files are too large for their hashes, and whatever features are loaded."""
    tokens, starts = data_bins.values(alike, None)
    change(tokens.reshape(len(starts), 7))
    tokens.flush()
    expected = r"train\.en-de\.en\.bin: expected the file of the signature .*after fairseq-preprocess run"
    for names in (("word",), ("distance",), ("word", "head", "distance")):
        refused(alike, expected, features=names)


def test_another_format_of_tokens_is_refused(alike):
    with pytest.raises(ValueError, match="--dataset-impl: expected mmap, found lazy: "):
        features.load_features(
            str(alike), "train", "en", "de", names=["word"], combine=False, dataset_impl="lazy", upsample_primary=1
        )
    data_bins.preprocess(alike, "train", data_bins.sentences(300), dataset_impl="cached")
    with pytest.raises(SystemExit, match=r"train\.en-de\.en\.bin: expected "):
        data_bins.verify(alike)


def test_each_of_combined_splits_is_compared(tmp_path):
    lines = data_bins.sentences(50, words=None)
    data_bins.make(tmp_path, lines)
    data = data_bins.make(tmp_path, lines[:20], "train1")
    for options in ({}, {"truncate_source": True, "max_source_positions": 4}):
        dataset = data_bins.load(data, combine=True, upsample_primary=3, **options)
        assert len(dataset) == 170
        item = dataset[165]
        assert len(item["source"]) == len(item["syntax"]["word"])
    flipped(data / "train1.en-de.en.bin", data)
    refused(data, r"train1\.en-de\.en\.bin: expected the file of the signature", combine=True, upsample_primary=1)
    assert len(data_bins.load(data)) == 50


def truncated(path: Path, _: Path) -> None:
    path.write_bytes(path.read_bytes()[:-3])


def emptied(path: Path, _: Path) -> None:
    path.write_bytes(b"")


def extended(path: Path, _: Path) -> None:
    path.write_bytes(path.read_bytes() + bytes(8))


def flipped(path: Path, _: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) * 2 // 3] ^= 4
    path.write_bytes(content)


def foreign(path: Path, other: Path) -> None:
    content = (other / path.name).read_bytes()
    if content == path.read_bytes():  # of sentences of the same lengths the indexes are the same
        content = content[:-1] + bytes([content[-1] ^ 1])
    path.write_bytes(content)


@pytest.mark.parametrize("damage", [truncated, emptied, extended, flipped, foreign], ids=lambda damage: damage.__name__)
@pytest.mark.parametrize("ending", ["bin", "idx", "word.bin", "head.idx"])
def test_damaged_and_foreign_files_are_refused_by_name(alike, other, ending, damage):
    path = alike / f"train.en-de.en.{ending}"
    size = path.stat().st_size
    damage(path, other)
    resized = path.stat().st_size != size
    if ending in ("bin", "idx") and resized:  # fairseq opens tokens itself, before us
        with pytest.raises(SystemExit, match=rf"train\.en-de\.en\.{ending}: expected {size} bytes"):
            data_bins.verify(alike)
        return
    expected = f"expected {size} bytes, .*found {path.stat().st_size}" if resized else "expected the file of the"
    refused(alike, rf"train\.en-de\.en\.{ending}: {expected}")


@pytest.fixture
def without_hashes(monkeypatch) -> None:
    """As if the files were too large to be compared with their hashes."""
    monkeypatch.setattr(features, "HASHED_AT_LOAD", 0)


def test_of_large_files_the_log_says_that_they_are_not_hashed(made, without_hashes, caplog):
    with caplog.at_level(logging.INFO):
        data_bins.load(made)
    assert [message for message in caplog.messages if "--verify" in message]


def another_type(content: bytearray) -> bytes:
    content[17] = 1  # uint8
    return content


def another_magic(content: bytearray) -> bytes:
    return b"TNTIDX\x00\x00" + content[8:]


def another_number(content: bytearray) -> bytes:
    content[18:26] = struct.pack("<Q", 299)
    return content


def another_length(content: bytearray) -> bytes:
    content[26 + 4 * 200 : 30 + 4 * 200] = struct.pack("<i", 5)
    return content


def a_negative_length(content: bytearray) -> bytes:
    content[26 + 4 * 200 : 30 + 4 * 200] = struct.pack("<i", -1)
    return content


def another_place(content: bytearray) -> bytes:
    content[-8 * 100 : -8 * 99] = struct.pack("<q", 14 * 7)
    return content


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (another_type, "expected values of uint16, found uint8"),
        (another_magic, "expected an index of fairseq's mmap format"),
        (another_number, r"expected 3614 bytes, for 299 sentences, found 3626"),
        (another_length, r"found those of sentence 201 \(counted from 0\)"),
        (a_negative_length, r"found those of sentence 200 \(counted from 0\), of length -1"),
        (another_place, r"found those of sentence 200 .* at byte 98"),
    ],
)
def test_an_index_is_checked_also_without_hashes(alike, without_hashes, change, expected):
    path = alike / "train.en-de.en.head.idx"
    path.write_bytes(change(bytearray(path.read_bytes())))
    data_bins.sign(alike)
    refused(alike, rf"train\.en-de\.en\.head\.idx: .*{expected}")


def test_only_verify_finds_a_flipped_value_of_large_files(alike, without_hashes):
    flipped(alike / "train.en-de.en.head.bin", alike)
    data_bins.load(alike)
    with pytest.raises(SystemExit, match=r"train\.en-de\.en\.head\.bin: expected the file of"):
        data_bins.verify(alike)


def change(feature: str, position: int, value: int) -> Callable[[Path], None]:
    """Changes a value of sentence 123, of 6 words of one subword each."""

    def apply(data: Path) -> None:
        found, starts = data_bins.values(data, feature)
        found[starts[123] + position] = value

    return apply


def cycle(data: Path) -> None:
    found, starts = data_bins.values(data, "head")
    found[starts[123] : starts[123] + 6] = [0, 1, 4, 5, 3, 1]


@pytest.mark.parametrize(
    ("damage", "feature", "position", "expected"),
    [
        (change("word", 0, 1), "word", 0, "the first word to be number 0, found 1"),
        (change("word", 3, 7), "word", 3, "the same word as before or the next, found 7"),
        (change("word", 3, 1), "word", 3, "the same word as before or the next, found 1"),
        (change("word", 6, 5), "word", 6, "a word of its own for </s>, found 5"),
        (change("head", 2, 7), "head", 2, "a head among the sentence's words, found 7"),
        (change("head", 2, 65535), "head", 2, "a head among the sentence's words, found 65535"),
        (change("head", 6, 1), "head", 6, "no head for </s>, found 1"),
        (change("head", 3, 4), "head", 3, "a head from which heads lead to a root, not into a cycle, found 4"),
        (cycle, "head", 2, "a head from which heads lead to a root, not into a cycle, found 4"),
        (change("distance", 5, 3), "distance", 5, "65535 before and after </s>, found 3"),
        (change("distance", 6, 0), "distance", 6, "65535 before and after </s>, found 0"),
        (change("upos", 0, 0), "upos", 0, "a number from 1 to 20, found 0"),
        (change("upos", 0, 21), "upos", 0, "a number from 1 to 20, found 21"),
        (change("deprel", 6, 1), "deprel", 6, "0 for </s>, found 1"),
        (change("case", 1, 3), "case", 1, "a number from 1 to 2, found 3"),
        (change("position", 1, 0), "position", 1, "a number from 1 to 4, found 0"),
    ],
)
def test_verify_finds_invalid_values(alike, monkeypatch, capsys, damage, feature, position, expected):
    monkeypatch.setattr(mmap, "AT_ONCE", 100)
    damage(alike)
    data_bins.sign(alike)
    place = rf"{feature}\.bin: expected {expected} in sentence 123, position {position} \("
    with pytest.raises(SystemExit, match=rf"fairseq-syntax-binarize: error: .*/train\.en-de\.en\.{place}"):
        data_bins.verify(alike)
    assert capsys.readouterr().out.startswith("train: wrong: ")


def test_verify_wants_one_head_a_word(tmp_path):
    data_bins.parse(tmp_path, "train", ["ab c"])
    (tmp_path / "train.en").write_text("a@@ b c\n")
    data_bins.preprocess(tmp_path / "bin", "train", ["a@@ b c"])
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
    flipped(data / "valid.en-de.en.upos.bin", data)
    capsys.readouterr()
    with pytest.raises(SystemExit, match=r"valid\.en-de\.en\.upos\.bin"):
        data_bins.verify(data)
    told = dict(line.split(": ", 1) for line in capsys.readouterr().out.splitlines())
    assert set(told) == {"train", "valid", "test"}
    assert [split for split in told if told[split].startswith("wrong: ")] == ["valid"]
    signature = data / "syntax.en-de.en.json"
    content = json.loads(signature.read_text())
    del content["splits"]["valid"]
    signature.write_text(json.dumps(content))
    data_bins.verify(data)
    assert capsys.readouterr().out.splitlines()[2] == "valid: tokens without features"
    signature.write_text(json.dumps({**content, "splits": {}}))
    with pytest.raises(
        SystemExit, match=r"syntax\.en-de\.en\.json: expected a signature with splits, found none in it"
    ):
        data_bins.verify(data)


@pytest.mark.parametrize("name", ["syntax.en-de.en.json", "train.en-de.en.idx", "train.en-de.en.upos.bin"])
def test_verify_names_missing_files(alike, name):
    (alike / name).unlink()
    with pytest.raises(SystemExit, match=rf"{name}: expected .*, found (no file|none)$"):
        data_bins.verify(alike)


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("control", ""),
        ("control", "noise:101"),
        ("subwords", "x"),
        ("on_bad_parse", []),
        ("symbols", "*"),
        ("more", ""),
    ],
)
def test_settings_that_nothing_could_have_written_are_refused(alike, setting, value):
    path = alike / "syntax.en-de.en.json"
    content = json.loads(path.read_text())
    content["splits"]["train"]["settings"][setting] = value
    path.write_text(json.dumps(content))
    refused(alike, rf"en\.json: expected a signature of feature files, found settings of train: .*{setting}")


def test_verify_writes_nothing(alike, tmp_path):
    with pytest.raises(SystemExit, match="--verify: expected no --trainpref"):
        binarize.main([*data_bins.LANGUAGES, "--verify", f"--destdir={alike}", "--trainpref", str(tmp_path / "train")])
    before = {path.name: path.read_bytes() for path in alike.iterdir()}
    data_bins.verify(alike)
    assert {path.name: path.read_bytes() for path in alike.iterdir()} == before


def repeat(data: Path, times: int) -> None:
    """Write all sentences and features `times` times."""
    for feature in (None, *FEATURES):
        prefix = f"{data}/train.en-de.en" + (f".{feature}" if feature else "")
        dataset = indexed_dataset.make_dataset(prefix, "mmap")
        sizes = np.tile(dataset.sizes, times)
        content = np.tile(np.fromfile(f"{prefix}.bin", dataset._index.dtype), times)
        del dataset
        writer = mmap.MmapWriter(prefix, content.dtype.name)
        writer.write(sizes, content)
        writer.close()
    data_bins.sign(data)


def test_memory_does_not_grow_with_the_text(alike, monkeypatch, capsys):
    monkeypatch.setattr(mmap, "AT_ONCE", 1000)
    peaks = []
    for sentences in (3000, 90_000):
        repeat(alike, 10 if sentences == 3000 else 30)
        tracemalloc.start()
        data_bins.verify(alike)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        assert f"; {sentences} sentences with valid " in capsys.readouterr().out
    assert peaks[1] < 1.5 * peaks[0] < 10 << 20  # a number for each sentence would be 0.7 MB more

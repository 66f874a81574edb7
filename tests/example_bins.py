"""Data folders of classification, ranking and masked language modelling, of random sentences with random parses."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random

from fairseq.data import Dictionary, indexed_dataset

import data_bins
from syntax_data.commands import binarize

#: The words of :func:`data_bins.sentences`, in the dictionary's order.
WORDS = "abcdefghijklmnopqrst"


def tokens(folder: Path, split: str, lines: Sequence[str], symbols: Sequence[str] = WORDS) -> None:
    """Write tokens as fairseq-preprocess --only-source does."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "dict.txt").write_text("".join(f"{symbol} 1\n" for symbol in symbols))
    dictionary = Dictionary.load(str(folder / "dict.txt"))
    builder = indexed_dataset.make_builder(f"{folder}/{split}.bin", "mmap", vocab_size=len(dictionary))
    for line in lines:
        builder.add_item(dictionary.encode_line(line, add_if_not_exist=False))
    builder.finalize(f"{folder}/{split}.idx")


def text(folder: Path, splits: Mapping[str, Sequence[str]], *options: str, parsed: bool = True) -> Path:
    """Write lines of words as tokens, and features of random parses of them."""
    raw = folder.parent / f"raw-{folder.name}"
    raw.mkdir(parents=True, exist_ok=True)
    for split, lines in splits.items():
        tokens(folder, split, lines)
        data_bins.parse(raw, split, lines)
        for ending in ("", ".trees", ".conllu"):
            shutil.move(raw / f"{split}.en{ending}", raw / f"{split}{ending}")
    if parsed:
        prefixes = [f"--{split}pref={raw}/{split}" for split in splits]
        binarize.main(["--only-source", *prefixes, "--destdir", str(folder), *options])
    return folder


def examples(data: Path, inputs: int = 2, *, number: int = 12, splits: Sequence[str] = ("train", "valid")) -> Path:
    """Write a folder with texts `input0` …, each line of 0 to 9 words, and labels ``no``, ``yes``; all splits equal."""
    for i in range(inputs):
        lines = data_bins.sentences(number, words=None, seed=10 * i + 1)
        text(data / f"input{i}", dict.fromkeys(splits, lines))
    for split in splits:
        random = Random(2)
        tokens(data / "label", split, [random.choice(["no", "yes"]) for _ in range(number)], ["no", "yes"])
        ranked = "".join(f"{random.randrange(inputs - 1)}\n" for _ in range(number)) if inputs > 1 else ""
        (data / f"label/{split}.label").write_text(ranked)
    return data

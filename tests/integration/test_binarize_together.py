"""Several fairseq-syntax-binarize at once on one data-bin: none loses what another one writes."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest
from fairseq.data import Dictionary

import commands
from binarizing import rows, run, write
from fairseq_syntax.data.features import load_features
from fairseq_syntax.tasks.translation_options import SyntaxTranslationConfig
from forked import Forked
from syntax_data.commands import binarize

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")

SPLITS = {  # text and labels, each with some that others have, in another order
    "train": ("a b c", "x y z"),
    "valid": ("c d", "z w"),
    "test": ("e a d", "v y w"),
}


def write_split(folder: Path, name: str) -> Path:
    text, labels = SPLITS[name]
    lines = zip(text.split(), labels.split(), strict=True)
    conllu = "".join(f"{i}\t{w}\t_\t{x.upper()}\t_\t_\t{i - 1}\t{x}\t_\t_\n" for i, (w, x) in enumerate(lines, 1))
    return write(folder, name, text=f"{text}\n", trees=None, conllu=f"{conllu}\n")


def labels_of(folder: Path, split: str, feature: str) -> str:
    """The labels of a split as those who read the feature see them."""
    labels = json.loads((folder / "bin/syntax.en-de.en.json").read_text())["labels"][feature]
    (row,) = rows(folder, feature, split)
    return " ".join(labels[number] for number in row[:-1])


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (folder / "bin").iterdir() if path.is_file()}


@contextmanager
def held(folder: Path, name: str) -> Iterator[Forked]:
    """A run that made a split's features, and waits with moving them into the data-bin until this ends: that is when it
    prints its report."""
    printing, arrived = os.pipe()
    leave, stay = os.pipe()

    class Waiting:
        def write(self, _: str) -> None:
            os.write(arrived, b".")
            os.read(leave, 1)

    def command() -> None:
        os.close(stay)
        sys.stdout = Waiting()
        run(folder, name=name)

    process = Forked(command, folder / f"{name}.log")
    os.close(arrived)
    try:
        assert os.read(printing, 1), process.said
        yield process
    finally:
        os.close(stay)
    assert process.end() == 0, process.said


def check(folder: Path, splits: Iterable[str]) -> None:
    for name in splits:
        labels = SPLITS[name.rstrip("0123456789")][1]
        assert labels_of(folder, name, "deprel") == labels
        assert labels_of(folder, name, "upos") == labels.upper()


@pytest.mark.parametrize(("early", "late"), [("train", "valid"), ("valid", "train")])
@pytest.mark.parametrize("before", [(), ("test",), ("train",), ("test", "train")])
def test_a_split_that_comes_in_the_meantime_is_kept_with_its_labels(tmp_path, early, late, before):
    for name in before:
        run(write_split(tmp_path, name), name=name)
    write_split(tmp_path, early)
    with held(write_split(tmp_path, late), late):
        run(tmp_path, name=early)
    check(tmp_path, {*before, early, late})
    one_by_one = tmp_path / "one by one"
    one_by_one.mkdir()
    for name in (*before, early, late):
        run(write_split(one_by_one, name), name=name)
    assert contents(tmp_path) == contents(one_by_one)


def test_all_splits_at_once(tmp_path):
    splits = ["train", "valid", "test"]
    processes = [
        Forked(partial(run, write_split(tmp_path, name), "--workers", "2", name=name), tmp_path / f"{name}.log")
        for name in splits
    ]
    for process in processes:
        assert process.end() == 0, process.said
    check(tmp_path, splits)


def test_labels_that_are_too_many_only_together_are_refused(tmp_path):
    run(write_split(tmp_path, "valid"), name="valid")
    before = contents(tmp_path)
    conllu = "".join(f"1\tw\t_\t_\t_\t_\t0\tl{i}\t_\t_\n\n" for i in range(254))
    write(tmp_path, text="w\n" * 254, trees=None, conllu=conllu)
    with pytest.raises(SystemExit, match=r"syntax\.en-de\.en\.json: deprel: expected at most 255 .*, found 256"):
        run(tmp_path)
    assert contents(tmp_path) == before | {".syntax.en-de.en.train.lock": b""}


def test_a_second_run_on_the_same_split_is_refused(tmp_path):
    write_split(tmp_path, "valid")
    options = ["-s", "en", "-t", "de", "--destdir", f"{tmp_path}/bin"]
    with held(write_split(tmp_path, "train"), "train"):
        for prefixes in (["train"], ["valid", "train"]):
            with pytest.raises(SystemExit, match="to be the only one that binarizes train, found this lock held"):
                binarize.main([*options, *(f"--{name}pref={tmp_path}/{name}" for name in prefixes)])
        assert all(name.startswith(".") for name in contents(tmp_path))
        run(tmp_path, name="valid")
    check(tmp_path, ["train", "valid"])
    hidden = {name for name in contents(tmp_path) if name.startswith(".")}
    assert hidden == {".syntax.en-de.en.lock", ".syntax.en-de.en.train.lock", ".syntax.en-de.en.valid.lock"}
    run(tmp_path)


def test_splits_made_one_by_one_are_loaded_with_the_right_labels(corpus, plain_data_bin, tmp_path):
    data = commands.copy(plain_data_bin, tmp_path / "data-bin")
    first = {"test": "det", "valid": "nsubj", "train": "root"}  # the label of each sentence's first word
    for name, label in first.items():
        shutil.copy(corpus / f"{name}.src.trees", tmp_path)
        swapped = {"det": label, label: "det"}
        conllu = (corpus / f"{name}.src.conllu").read_text()
        conllu = re.sub(r"\t(\w+)(?=\t_\t_\n)", lambda found, s=swapped: f"\t{s.get(found[1], found[1])}", conllu)
        (tmp_path / f"{name}.src.conllu").write_text(conllu)
        places = [f"--{name}pref={corpus}/bpe/{name}", f"--{name}parse={tmp_path}/{name}", f"--destdir={data}"]
        binarize.main(["-s=src", "-t=tgt", *places])
    labels = json.loads((data / "syntax.src-tgt.src.json").read_text())["labels"]["deprel"]
    for name, label in first.items():
        cfg = SyntaxTranslationConfig(data=str(data), source_lang="src", target_lang="tgt", dataset_impl=None)
        dictionary = Dictionary.load(str(data / "dict.src.txt"))
        features = load_features(cfg, name, ["deprel"], dictionary=dictionary).rows["deprel"]
        assert {labels[features[i][0]] for i in range(len(features))} == {label}

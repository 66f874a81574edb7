"""Small files that users have, each with what the commands are to make of it.

A folder of ``tests/data/cases`` has the files and ``case.toml``: runs of commands in that folder, one after the other,
each with its exit status, what it says, and what is in its files and features afterwards.
"""

from __future__ import annotations

import shlex
import shutil
import tomllib
from pathlib import Path

import pytest
from fairseq.data import indexed_dataset

import syntax_data.commands.binarize
import syntax_data.commands.parse
from binarizing import preprocess
from places import TESTS

CASES = TESTS / "data" / "cases"
MAIN = {"parse": syntax_data.commands.parse.main, "binarize": syntax_data.commands.binarize.main}


@pytest.mark.parametrize("case", sorted(path.name for path in CASES.iterdir()))
def test_a_file_that_users_have(case, tmp_path, monkeypatch, capfd):
    folder = tmp_path / case
    shutil.copytree(CASES / case, folder)
    monkeypatch.chdir(folder)
    for step in tomllib.loads((folder / "case.toml").read_text(encoding="utf-8"))["run"]:
        command, *options = shlex.split(step["command"])
        if command == "binarize":
            prefix = options[options.index("--trainpref") + 1]
            preprocess(folder / "bin", "train", Path(f"{prefix}.en").read_text(encoding="utf-8"))
        status = 0
        try:
            MAIN[command](options)
        except SystemExit as end:
            status = 1 if isinstance(end.code, str) else end.code or 0
            print(end.code)
        said = " ".join("".join(capfd.readouterr()).split())
        assert status == step.get("status", 0), said
        for words in step.get("says", []):
            assert words in said
        for name, content in step.get("files", {}).items():
            assert Path(name).read_text(encoding="utf-8") == content
        for name in step.get("no_files", []):
            assert not Path(name).exists()
        for name, rows in step.get("features", {}).items():
            found = indexed_dataset.make_dataset(f"bin/train.en-de.en.{name}", "mmap")
            assert [row.tolist() for row in found] == rows

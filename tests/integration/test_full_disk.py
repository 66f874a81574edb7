"""A disk that is full, as a limit of the size of files: one line that names the file, and nothing is left of it."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import commands
from fairseq_syntax.commands import average_checkpoints, dump
from syntax_data.commands import parse, score
from time_limit import small_files


@pytest.fixture
def text(tmp_path) -> Path:
    (tmp_path / "text").write_text("so many words\n" * 2000)
    (tmp_path / "reference").write_text("so many words\n" * 2000)
    return tmp_path / "text"


@pytest.mark.parametrize("size", [0, 1000, 20_000, 481_500], ids=str)
def test_average(tmp_path, size):
    (tmp_path / "full").mkdir()
    torch.save({"model": {str(i): torch.zeros(30_000) for i in range(4)}}, tmp_path / "x.pt")
    output = tmp_path / "full/a.pt"
    with pytest.raises(SystemExit, match=rf"^[a-z-]+: error: {output}: File too large$"), small_files(size):
        average_checkpoints.main([f"--inputs={tmp_path}/x.pt", f"--output={output}"])
    assert not list(output.parent.iterdir())


def test_dump(trained, tmp_path):
    options = ["--path", str(trained.checkpoint), "--cpu", f"--output={tmp_path}/x.npz"]
    with pytest.raises(SystemExit, match=rf": error: {tmp_path}/x\.npz: File too large$"), small_files(1000):
        dump.main([str(trained.data), *options])
    assert not list(tmp_path.iterdir())


def test_parse(text, tmp_path):
    (tmp_path / "parses").write_text("(S so many words)\n" * 2000)
    given = ["--parser=trees", f"--parse-file={tmp_path}/parses", f"--input={text}"]
    with pytest.raises(SystemExit, match=rf": error: {text}\S+: File too large$"), small_files(5000):
        parse.main(given)
    assert not list(tmp_path.glob("text.trees"))


def test_binarize(corpus, plain_data_bin, tmp_path):
    data = commands.copy(plain_data_bin, tmp_path / "bin")
    before = {path.name for path in data.iterdir()}
    with pytest.raises(SystemExit, match=rf": error: {data}/\S+: File too large$"), small_files(2000):
        commands.binarize(corpus, data)
    assert {path.name for path in data.iterdir() if not path.name.endswith(".lock")} == before


def test_score(text, tmp_path):
    files = [f"--hypotheses={text}", f"--references={tmp_path}/reference", f"--output={tmp_path}/out"]
    with pytest.raises(SystemExit, match=rf": error: {tmp_path}/out: File too large$"), small_files(1000):
        score.main(files)
    assert {path.name for path in tmp_path.iterdir()} == {"text", "reference"}

"""A disk that is full, as a limit of the size of files: one line that names the file, and nothing is left of it."""

from __future__ import annotations

import pytest
import torch

import commands
from fairseq_syntax.commands import average_checkpoints, dump
from syntax_data.commands import score
from time_limit import small_files

#: Commands, and the sizes at which files are full: before, inside and at the end of what is written.
CASES = [("average", size) for size in (0, 1000, 20_000, 481_500)]
CASES += [("dump", 1000), ("binarize", 2000), ("score", 1000)]  # test_parse.py has parse


@pytest.mark.parametrize(("command", "size"), CASES)
def test_a_full_disk(command, size, trained, corpus, plain_data_bin, tmp_path):
    for name in ("text", "reference"):
        (tmp_path / name).write_text("as many words\n" * 2000)
    torch.save({"model": {str(i): torch.zeros(30_000) for i in range(4)}}, tmp_path / "x.pt")
    full = tmp_path / "full"
    commands.copy(plain_data_bin, full) if command == "binarize" else full.mkdir()
    before = {path.name for path in full.iterdir()}
    score_of = [f"--hypotheses={tmp_path}/text", f"--references={tmp_path}/reference"]
    run = {
        "average": lambda: average_checkpoints.main([f"--inputs={tmp_path}/x.pt", f"--output={full}/x"]),
        "dump": lambda: dump.main([str(trained.data), f"--path={trained.checkpoint}", "--cpu", f"--output={full}/x"]),
        "binarize": lambda: commands.binarize(corpus, full),
        "score": lambda: score.main([*score_of, f"--output={full}/x"]),
    }[command]
    with pytest.raises(SystemExit, match=rf"^[a-z-]+: error: {full}/\S+: File too large$"), small_files(size):
        run()
    assert not {path.name for path in full.iterdir() if not path.name.endswith(".lock")} - before

"""Commands that are stopped or lose a worker end at once, and lose nothing."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from binarizing import CONLLU, TEXT, TREES, contents, hidden_folders, run, write
from tiers import others_nightly

linux = pytest.mark.skipif(sys.platform != "linux", reason="finds processes in Linux's /proc")
SECONDS = 20  # a command that ends at once has ended by then, on a busy machine too


#: Whom which signal ends: the status of the command, and its last words.
ENDS = {
    "worker killed": (signal.SIGKILL, "worker", 1, "fairseq-syntax-binarize: error: a worker process died"),
    "terminated": (signal.SIGTERM, "parent", 143, "fairseq-syntax-binarize: terminated"),
    "stopped": (signal.SIGINT, "parent", 130, "fairseq-syntax-binarize: stopped"),
    "stopped by Ctrl-C": (signal.SIGINT, "group", 130, "fairseq-syntax-binarize: stopped"),
    "killed": (signal.SIGKILL, "parent", -signal.SIGKILL, ""),
}


@linux
@pytest.mark.parametrize("case", others_nightly(ENDS, {"worker killed", "stopped by Ctrl-C"}))
def test_binarizing_that_is_interrupted_ends_and_the_data_bin_stays(tmp_path, case):
    how, to, status, message = ENDS[case]
    run(write(tmp_path))
    first = contents(tmp_path / "bin")
    write(tmp_path, text=TEXT * 20_000, trees=TREES * 20_000, conllu=(CONLLU + "\n") * 20_000)
    before = contents(tmp_path / "bin")
    options = ["-s", "en", "-t", "de", "--trainpref", f"{tmp_path}/train", "--destdir", f"{tmp_path}/bin"]
    command = [sys.executable, "-m", "syntax_data.commands.binarize", *options, "--workers", "2"]
    with open(tmp_path / "log", "wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
    workers: list[int] = []
    try:
        while len(workers) < 2 or not any(list(path.glob("*word.bin")) for path in hidden_folders(tmp_path / "bin")):
            assert process.poll() is None, (tmp_path / "log").read_text()
            time.sleep(0.02)
            workers = [int(n) for n in Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()]
        {"group": os.killpg}.get(to, os.kill)(workers[0] if to == "worker" else process.pid, how)
        assert process.wait(SECONDS) == status
        end = time.time() + SECONDS
        while left := [worker for worker in workers if Path(f"/proc/{worker}").exists()]:
            assert time.time() < end, left
            time.sleep(0.1)
    finally:
        for number in (process.pid, *workers):
            try:
                os.kill(number, signal.SIGKILL)
            except ProcessLookupError:
                continue
        process.wait()
    said = (tmp_path / "log").read_text()
    assert "Traceback" not in said
    assert sum("fairseq-syntax-binarize" in line for line in said.splitlines()) == bool(message)
    assert message in said
    if status > 0:
        assert contents(tmp_path / "bin") == before
        assert not hidden_folders(tmp_path / "bin")
    run(write(tmp_path))
    assert contents(tmp_path / "bin") == first
    assert not hidden_folders(tmp_path / "bin")

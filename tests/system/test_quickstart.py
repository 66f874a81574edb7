"""The quickstart itself."""

from __future__ import annotations

import subprocess
import sys

from places import EXAMPLES


def test_quickstart_table(tmp_path):
    """The example itself, in full: the parse, and only the right parse, reaches the output."""
    command = [sys.executable, EXAMPLES / "quickstart/run.py", "--work", tmp_path / "work"]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    table = lines[next(i for i, line in enumerate(lines) if line.startswith("system")) :]
    exact = {line[:40].strip(): float(line.split()[-1].rstrip("%")) for line in table[1:5]}
    best = exact.pop("best possible without seeing the tree")
    ours = exact.pop("gated syntax Transformer")
    assert ours >= 95
    assert len(exact) == 2
    assert all(abs(control - best) <= 5 for control in exact.values())

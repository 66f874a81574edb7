"""The quickstart itself."""

from __future__ import annotations

import csv
import re
import subprocess
import sys

from experiment import experiment
from pages import blocks
from places import ROOT
from shell import run


def test_quickstart_table(tmp_path):
    """The example itself, in full: the parse, and only the right parse, reaches the output."""
    command = experiment("quickstart", "--work", tmp_path)
    done = subprocess.run(**command, stdin=subprocess.DEVNULL, capture_output=True, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "gated syntax Transformer, shuffled trees (control)" in done.stdout
    with open(tmp_path / "recipes/quickstart/table.csv") as file:
        rows = [row for row in csv.DictReader(file) if row["metric"] == "exact match"]
    exact = {row["system"]: float(row["value"]) for row in rows}
    assert exact.keys() == {"transformer", "gated", "gated_false"}
    assert exact.pop("gated") >= 95
    assert all(abs(control - 28.3) <= 5 for control in exact.values())
    *_, ask = blocks("examples/quickstart/README.md", "bash")
    (tmp_path / "experiments").symlink_to(tmp_path)
    *_, answer = run(ask.text, tmp_path).splitlines()
    assert answer == "['pintero rivano teleska wis sehi', 'pintero teleska wis rivano sehi']"
    draw = [sys.executable, ROOT / "docs/figures/make.py", tmp_path, "--output", tmp_path / "picture"]
    subprocess.run(draw, check=True, capture_output=True)
    svg = (tmp_path / "picture.svg").read_text()
    assert len(re.findall("translation: pintero [a-z ]+ sehi", svg)) == 2
    assert len(svg) < 150_000

"""The quickstart: parses, and only the right parses, reach the translations."""

from __future__ import annotations

import csv
import re
import subprocess
import sys
from pathlib import Path

import pytest

from experiment import experiment, run_here
from pages import blocks
from places import EXPERIMENTS, ROOT, TESTS
from shell import run

#: The recipe on a language of fewer words, with fewer sentences and updates.
SMALL = f"""
extends: {EXPERIMENTS}/recipes/quickstart.yaml
corpus:
  command: python {TESTS}/small_grammar.py --train 2000 --held-out 40 --seed 1 {{output}}
train: {{max-update: 300, total-num-update: 300, warmup-updates: 30, batch-size: 100, lr: 0.005}}
systems: {{transformer: null, gated_false: null}}
bounds: null
"""


def scores(recipe: object, work: Path, metric: str = "exact match") -> dict[str, float]:
    """Run a recipe; return a score of each system, in percent."""
    command = experiment(recipe, "--work", work)
    done = subprocess.run(**command, stdin=subprocess.DEVNULL, capture_output=True, cwd=work)
    assert done.returncode == 0, done.stdout + done.stderr
    return read_scores(recipe, work, metric)


def read_scores(recipe: object, work: Path, metric: str) -> dict[str, float]:
    with open(work / "recipes" / Path(str(recipe)).stem / "table.csv") as file:
        return {row["system"]: float(row["value"]) for row in csv.DictReader(file) if row["metric"] == metric}


def test_quickstart_of_a_smaller_language(tmp_path, monkeypatch):
    recipe = tmp_path / "small.yaml"
    recipe.write_text(SMALL)
    run_here(str(recipe), "--work", tmp_path, monkeypatch=monkeypatch, cwd=tmp_path)
    exact = read_scores(recipe, tmp_path, "exact match")
    assert exact["gated"] >= 85, "a system that does not see the parses is right in 29.2% at most"


@pytest.mark.nightly
def test_quickstart_table(tmp_path):
    """The example itself, in full, the question that its page asks the model, and the picture of README."""
    exact = scores("quickstart", tmp_path)
    assert exact.keys() == {"transformer", "gated", "gated_false"}
    assert exact.pop("gated") >= 95
    assert all(abs(control - 28.3) <= 5 for control in exact.values())
    (ask,) = (block for block in blocks("docs/tutorial.md", "bash") if block.text.startswith("cd experiments"))
    (tmp_path / "experiments").symlink_to(tmp_path)
    *_, answer = run(ask.text, tmp_path).splitlines()
    assert answer == "['pintero rivano teleska wis sehi', 'pintero teleska wis rivano sehi']"
    draw = [sys.executable, ROOT / "docs/figures/make.py", tmp_path, "--output", tmp_path / "picture"]
    subprocess.run(draw, check=True, capture_output=True)
    svg = (tmp_path / "picture.svg").read_text()
    assert len(re.findall("translation: pintero [a-z ]+ sehi", svg)) == 2
    assert len(svg) < 150_000


@pytest.mark.nightly
def test_quickstart_of_classification(tmp_path):
    accuracy = scores("quickstart_attachment", tmp_path, "accuracy")
    assert accuracy.pop("tree_bias") >= 95
    assert accuracy.keys() == {"roberta", "tree_bias_shuffled", "sg_net_first"}
    assert all(found == pytest.approx(50, abs=4) for found in accuracy.values())

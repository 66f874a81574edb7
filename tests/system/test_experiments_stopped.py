"""An experiment that is stopped at any point ends with the table of one that is not."""

from __future__ import annotations

import csv
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from experiment import experiment, run_here
from places import EXPERIMENTS

TIMES = {"words_per_second", "hours"}


@pytest.fixture
def recipe(tmp_path, often) -> Path:
    path = tmp_path / "small.yaml"
    left_out = "{gated_false: ~}" if often else "{gated_false: ~, transformer: ~}"
    path.write_text(f"""
extends: quickstart
corpus:
  command: python {EXPERIMENTS}/corpora/grammar.py --train 300 --held-out 10 --seed 1 {{output}}
train: {{max-update: 12, warmup-updates: 2}}
score: {{bootstrap: 10, randomisation: 10}}
systems: {left_out}
""")
    return path


def start(recipe: Path, work: Path, *options: object) -> subprocess.Popen[str]:
    command = experiment(recipe, "--work", work, "--cores", 2, *options)
    return subprocess.Popen(**command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)


def finish(running: subprocess.Popen[str]) -> str:
    said = running.communicate()
    assert running.returncode == 0, said
    return said[0]


def numbers(work: Path) -> set[tuple[str, ...]]:
    with open(work / "recipes/small/table.csv") as file:
        return {tuple(row.values()) for row in csv.DictReader(file) if row["metric"] not in TIMES}


def made(work: Path) -> set[Path]:
    return set(work.glob("*/*/metadata.json"))


def wait_for(running: subprocess.Popen[str], reached: Callable[[], object]) -> None:
    while not reached():
        assert running.poll() is None, running.communicate()
        time.sleep(0.05)


def harm_nothing(recipe: Path, work: Path, running: subprocess.Popen[str]) -> None:
    """Other commands in the same work directory."""
    assert any(" steps to do; log: " in line for line in running.stderr), "it has Snakemake's lock now"
    dry = [start(recipe, work, "-n") for _ in range(2)]  # need no lock
    second = start(recipe, work)
    assert "Directory cannot be locked" in second.communicate()[1]
    assert second.returncode == 1
    assert [(one.communicate(), one.returncode)[1] for one in dry] == [0, 0]
    wait_for(running, lambda: list(work.glob("runs/*/metadata.json")))
    assert "| Transformer (fairseq) " in finish(start(recipe, work, "--partial"))
    assert (work / "recipes/small.partial/table.csv").exists()


@pytest.mark.nightly
@pytest.mark.parametrize("often", [False, True])
def test_killed(often, recipe, tmp_path, monkeypatch):
    alone, killed = tmp_path / "alone", tmp_path / "killed"
    run_here(str(recipe), "--work", alone, monkeypatch=monkeypatch, cwd=tmp_path)
    # Snakemake goes on where text and data are made.
    shutil.copytree(alone, killed, symlinks=True)
    for path in made(killed):
        if path.parts[-3] in ("models", "runs", "scores", "comparisons", "tables"):
            shutil.rmtree(path.parent)
        else:
            (path.parent / ".done").touch()
    before = {path: path.stat().st_mtime_ns for path in made(killed)}

    def trainings() -> int:
        return sum(log.read_text().count("$ fairseq-train") for log in killed.glob("models/*/train.log"))

    for kill in (os.killpg, os.kill)[: 1 + often]:  # alone: its trainings go on without it, and are waited for
        running, begun = start(recipe, killed), trainings()
        wait_for(running, lambda begun=begun: trainings() > begun)
        kill(running.pid, signal.SIGKILL)
        running.communicate() if kill is os.killpg else running.wait()

    running = start(recipe, killed)
    if often:
        harm_nothing(recipe, killed, running)
    finish(running)
    whole = {killed / path.parent.relative_to(alone) for path in made(alone)}
    assert {path.parent for path in made(killed)} >= whole
    assert all(path.stat().st_mtime_ns == changed for path, changed in before.items()), "whole targets are kept"
    assert numbers(killed) == numbers(alone)
    assert len(numbers(alone)) > 5
    for log in killed.glob("models/*/train.log"):
        assert log.read_text().count("| done training in ") == 1
    if not often:
        return

    # What is deleted is made again, and nothing else.
    before = {path: path.stat().st_mtime_ns for path in made(killed)}
    table = (killed / "recipes/small/table.csv").resolve().parent / "metadata.json"
    shutil.rmtree(table.parent)
    assert "gated syntax Transformer" in finish(start(recipe, killed))
    assert {path for path, changed in before.items() if path.stat().st_mtime_ns != changed} == {table}

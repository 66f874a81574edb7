"""An experiment that is stopped at any point ends with the table of one that is not."""

from __future__ import annotations

import csv
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

from experiment import experiment
from places import EXPERIMENTS

TIMES = {"words_per_second", "hours"}


@pytest.fixture
def recipe(tmp_path) -> Path:
    path = tmp_path / "small.yaml"
    path.write_text(f"""
extends: quickstart
corpus:
  command: python {EXPERIMENTS}/corpora/grammar.py --train 300 --held-out 10 --seed 1 {{output}}
train: {{max-update: 12, warmup-updates: 2}}
score: {{bootstrap: 10, randomisation: 10}}
systems: {{gated_false: ~}}
baselines: [transformer]
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


def wait_for(running: subprocess.Popen[str], work: Path, steps: int) -> None:
    while len(made(work)) < steps:
        assert running.poll() is None, running.communicate()
        time.sleep(0.1)


def test_killed_again_and_again(recipe, tmp_path):
    alone, killed = tmp_path / "alone", tmp_path / "killed"
    finish(start(recipe, alone))

    running = start(recipe, killed)
    wait_for(running, killed, 2)
    running.terminate()  # the command alone: Snakemake waits for the jobs
    said = running.communicate()[1]
    assert running.returncode == 1
    assert "Will exit after finishing currently running jobs" in said
    with pytest.raises(ProcessLookupError):
        os.killpg(running.pid, 0)

    for steps in (4, 7):
        running = start(recipe, killed)
        wait_for(running, killed, steps)
        os.killpg(running.pid, signal.SIGKILL)
        running.communicate()
    running = start(recipe, killed)
    while not list(killed.glob("models/*/train.log")):
        assert running.poll() is None, running.communicate()
        time.sleep(0.1)
    os.kill(running.pid, signal.SIGKILL)  # its trainings go on without it, and are waited for
    running.wait()

    running = start(recipe, killed)
    assert any("Provided cores" in line for line in running.stderr), "it has Snakemake's lock now"
    second = start(recipe, killed)  # refused, and harms nothing
    said = second.communicate()[1]
    assert second.returncode == 1
    assert "Directory cannot be locked" in said
    finish(running)
    assert {path.parent for path in made(killed)} == {killed / path.parent.relative_to(alone) for path in made(alone)}
    assert numbers(killed) == numbers(alone)
    assert len(numbers(alone)) > 10
    for log in killed.glob("models/*/train.log"):
        assert log.read_text().count("| done training in ") == 1

    # Whole targets are not made again; what is deleted is.
    before = {path: path.stat().st_mtime_ns for path in made(killed)}
    (table,) = killed.glob("tables/*/metadata.json")
    shutil.rmtree(table.parent)
    printed = finish(start(recipe, killed))
    assert "gated syntax Transformer" in printed
    assert {path for path in made(killed) if before[path] != path.stat().st_mtime_ns} == {table}


def test_partial_beside_a_run_has_the_finished_runs(recipe, tmp_path):
    running = start(recipe, tmp_path)
    while not list(tmp_path.glob("runs/*/metadata.json")):
        assert running.poll() is None, running.communicate()
        time.sleep(0.1)
    printed = finish(start(recipe, tmp_path, "--partial"))
    assert "| Transformer (fairseq) " in printed
    finish(running)
    assert (tmp_path / "recipes/small.partial/table.csv").exists()


def test_two_dry_runs_at_once(recipe, tmp_path):
    for running in [start(recipe, tmp_path / "work", "-n") for _ in range(3)]:
        running.communicate()
        assert running.returncode == 0

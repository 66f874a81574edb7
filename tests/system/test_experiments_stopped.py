"""An experiment that is killed, again and again, ends with the table of one that was left alone."""

from __future__ import annotations

import csv
import os
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
extends: {EXPERIMENTS}/recipes/quickstart.yaml
corpus:
  command: python {EXPERIMENTS}/corpora/grammar.py --train 300 --held-out 10 --seed 1 {{output}}
train: {{max-update: 12, warmup-updates: 2}}
score: {{bootstrap: 10, randomisation: 10}}
systems: {{gated_false: ~}}
baselines: [transformer]
""")
    return path


def start(recipe: Path, work: Path) -> subprocess.Popen[str]:
    command = experiment(recipe, "--work", work, "--cores", 2)
    return subprocess.Popen(**command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)


def numbers(work: Path) -> set[tuple[str, ...]]:
    with open(work / "recipes/small/table.csv") as file:
        return {tuple(row.values()) for row in csv.DictReader(file) if row["metric"] not in TIMES}


def made(work: Path) -> set[Path]:
    return set(work.glob("*/*/made.json"))


def test_killed_again_and_again(recipe, tmp_path):
    alone, killed = tmp_path / "alone", tmp_path / "killed"
    running = start(recipe, alone)
    output = running.communicate()
    assert running.returncode == 0, output
    steps = len(made(alone))

    running = start(recipe, killed)
    while len(made(killed)) < 2 and running.poll() is None:
        time.sleep(0.1)
    running.terminate()  # the command alone, which passes it on
    said = running.communicate()[1]
    assert running.returncode == 143
    assert said.endswith("fairseq-syntax-experiment: terminated; the same command goes on where it was\n")
    with pytest.raises(ProcessLookupError):
        os.killpg(running.pid, 0)

    stops = [3, 7, 9]  # steps that are made when it is killed
    while stops:
        running = start(recipe, killed)
        while len(made(killed)) < stops[0] and running.poll() is None:
            time.sleep(0.1)
        assert running.poll() is None, running.communicate()
        del stops[0]
        if not stops:  # the last time its trainings go on without it
            os.kill(running.pid, signal.SIGKILL)
        else:
            os.killpg(running.pid, signal.SIGKILL)
        running.communicate() if stops else running.wait()
    orphan = running.pid

    # What outlives it still holds the folder: a second one at the same time is refused, and harms nothing.
    second = start(recipe, killed)
    said = second.communicate()
    assert second.returncode == 1
    assert "another experiment works in this folder" in said[1]
    os.killpg(orphan, signal.SIGKILL)

    running = start(recipe, killed)
    output = running.communicate()
    assert running.returncode == 0, output
    assert len(made(killed)) == steps
    assert numbers(killed) == numbers(alone)
    assert len(numbers(alone)) > 10

"""An experiment that is stopped, wherever it is, ends; killed again and again, with the table of one left alone."""

from __future__ import annotations

import csv
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from experiment import experiment
from places import EXPERIMENTS
from syntax_experiments.make import spec_path

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


#: Snakemake that SIGTERM reaches when it has the lock of its scheduler.
TERMINATED = """
import os, signal
from snakemake.cli import main
from snakemake.workflow import JobScheduler

def finish_jobs(self, finish_jobs=JobScheduler._finish_jobs):
    assert self._lock.locked()
    if self._tofinish:
        os.kill(os.getpid(), signal.SIGTERM)
    finish_jobs(self)

JobScheduler._finish_jobs = finish_jobs
main()
"""


def test_terminated_where_the_engine_has_its_lock(tmp_path):
    steps = [f"generated/{i}" for i in range(4)]
    spec = {"kind": "generated", "settings": {}, "places": {"command": "true"}, "threads": 1, "priority": 0, "gpus": 0}
    (tmp_path / spec_path(steps[0])).parent.mkdir(parents=True)
    for step, before in zip(steps, [None, *steps], strict=False):
        (tmp_path / spec_path(step)).write_text(json.dumps({**spec, "inputs": {"before": before} if before else {}}))
    options = ["--snakefile", EXPERIMENTS / "Snakefile", "--config", f"targets={steps[-1]}", "--cores", "1"]
    env = {**os.environ, "PYTHONPATH": str(EXPERIMENTS.parent)}
    command = [sys.executable, "-c", TERMINATED, *options]
    done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=60)
    assert "Will exit after finishing currently running jobs" in done.stderr, done.stderr
    assert done.returncode == 1
    assert (tmp_path / steps[0] / "made.json").exists()
    assert not (tmp_path / steps[-1] / "made.json").exists()

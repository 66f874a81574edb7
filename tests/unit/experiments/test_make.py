"""A target is made once; commands and locks of a step."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import shutil
from pathlib import Path

import pytest

from syntax_experiments import make, steps


@pytest.fixture
def made(tmp_path, monkeypatch) -> list[list[str]]:
    """The content of the folder when a step of the kind ``text``, or ``models``, begins, in an empty work directory."""
    found: list[list[str]] = []
    monkeypatch.chdir(tmp_path)

    def write(step: make.Step) -> None:
        found.append(sorted(os.listdir(step.folder)))
        (step.folder / "text").write_text(step.local["what"])
        if not step.settings["what"]:
            raise ValueError("stopped")

    monkeypatch.setattr(steps, "step_of", lambda kind: write)
    for kind in ("text", "models"):
        Path("specs", kind).mkdir(parents=True)
        for name in ("", "a"):
            spec = {"kind": kind, "settings": {"what": name}, "inputs": {}, "local": {"what": "here"}}
            Path(f"specs/{kind}/{name or 'stopped'}.json").write_text(json.dumps(spec))
    return found


def test_once(made):
    make.make("text/a")
    make.make("text/a")
    assert made == [[]]
    metadata = json.loads(Path("text/a/metadata.json").read_text())
    assert metadata["settings"] == {"what": "a"}
    assert "local" not in metadata
    shutil.rmtree("text/a")
    make.make("text/a")
    assert made == [[], []]
    assert [path.name for path in make.files_in(Path("text/a"))] == ["text"]


@pytest.mark.parametrize(("kind", "left"), [("text", []), ("models", ["text"])])
def test_a_training_goes_on_with_what_a_stopped_one_left_and_other_steps_begin_again(made, kind, left):
    for _ in range(2):
        with pytest.raises(ValueError, match="stopped"):
            make.make(f"{kind}/stopped")
    assert made == [[], left]
    assert not make.is_made(f"{kind}/stopped")


def test_on_a_disk_without_locks_there_is_a_remark(tmp_path, monkeypatch, capsys):
    def fail(*_: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", fail)
    with make.locked(tmp_path / "lock") as held:
        assert held is None
    assert "lock: No locks available: going on without a lock" in capsys.readouterr().err


def test_each_job_has_a_gpu_of_its_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with contextlib.ExitStack() as jobs:
        # As often at once as it is named, and not before the others are in use.
        for slurm, gpu in (("1", "2"), ("1", "5"), ("2", "2"), ("1", "2"), ("1", "5")):
            monkeypatch.setenv("SLURM_JOB_ID", slurm)
            monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "2,2,5,5")
            jobs.enter_context(make.on_a_gpu())
            assert os.environ["CUDA_VISIBLE_DEVICES"] == gpu
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    with make.on_a_gpu():
        assert os.environ["CUDA_VISIBLE_DEVICES"] == ""


def test_commands_are_told_of_a_shared_gpu_once_and_of_their_own_threads(tmp_path, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,0,1")
    monkeypatch.setenv("MKL_NUM_THREADS", "2")  # Snakemake's, of all processes of a job together
    told = []
    names = ("CUDA_VISIBLE_DEVICES", "OMP_NUM_THREADS", "MKL_NUM_THREADS")
    monkeypatch.setattr(make.subprocess, "call", lambda *_, env, **__: told.append([env.get(name) for name in names]))
    make.run("python", log=tmp_path / "log")
    assert told == [["0,1", "1", None]]


def test_words_of_commands():
    assert make.fill("x '{a} b' {a}/c {d}", {"a": "1 2"}) == ["x", "1 2 b", "1 2/c", "{d}"]
    assert make.options({"a": True, "b": False, "c": None, "d": 0, "e": "(0.9, 0.98)"}) == [
        "--a", "--d", "0", "--e", "(0.9, 0.98)",
    ]  # fmt: skip

"""Finished runs as one file."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest

from syntax_data.errors import InputError
from syntax_experiments import archive
from syntax_experiments.plan import Artefact

RUNS = {seed: Artefact("runs", {"seed": seed}) for seed in (1, 2, 3)}
MODEL = Artefact("models", {})


def plan(*seeds: int) -> SimpleNamespace:
    runs = {("slr", seed): RUNS[seed] for seed in seeds}
    return SimpleNamespace(runs=runs, artefacts=[MODEL, *runs.values()])


def make(artefact: Artefact, text: str) -> None:
    folder = Path(artefact.path)
    folder.mkdir(parents=True)
    for name in ("run.json", "test.txt", "log", "made.json"):
        (folder / name).write_text(f"{text} {name}")


def files() -> dict[str, str]:
    return {str(path): path.read_text() for path in Path(".").rglob("*") if path.is_file()}


def test_what_one_packs_another_takes_in(tmp_path, monkeypatch, capsys):
    here, there = tmp_path / "here", tmp_path / "there"
    here.mkdir()
    there.mkdir()
    monkeypatch.chdir(here)
    make(RUNS[1], "one")
    make(RUNS[2], "two")
    make(MODEL, "model")
    archive.pack(plan(1, 2, 3), tmp_path / "runs.tar.xz")
    assert "2 runs of 3" in capsys.readouterr().out

    monkeypatch.chdir(there)
    make(RUNS[2], "own")
    archive.unpack(plan(2, 3), tmp_path / "runs.tar.xz")  # a plan without run 1 takes none of it in
    assert "took in 0 runs of 2; the others are here, or of another text" in capsys.readouterr().out
    archive.unpack(plan(1, 2, 3), tmp_path / "runs.tar.xz")
    assert "took in 1 runs of 2" in capsys.readouterr().out
    found = files()
    assert {found[f"{RUNS[1].path}/{name}"] for name in ("run.json", "test.txt", "made.json")} == {
        "one run.json",
        "one test.txt",
        "one made.json",
    }
    assert f"{RUNS[1].path}/log" not in found
    assert found[f"{RUNS[2].path}/run.json"] == "own run.json"
    assert not any(name.startswith("models/") for name in found)


@pytest.mark.parametrize("change", [lambda whole: b"", lambda whole: b"no archive", lambda whole: whole[:-100]])
def test_what_is_no_archive_is_refused(tmp_path, monkeypatch, change):
    monkeypatch.chdir(tmp_path)
    make(RUNS[1], "one")
    archive.pack(plan(1), tmp_path / "runs.tar.xz")
    shutil.rmtree(RUNS[1].path)
    (tmp_path / "runs.tar.xz").write_bytes(change((tmp_path / "runs.tar.xz").read_bytes()))
    with pytest.raises(InputError, match="expected runs that were packed"):
        archive.unpack(plan(1), tmp_path / "runs.tar.xz")


def test_a_file_keeps_its_time(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    make(RUNS[1], "one")
    path = Path(RUNS[1].path, "test.txt")
    os.utime(path, (1_000_000_000, 1_000_000_000))
    archive.pack(plan(1), tmp_path / "runs.tar.xz")
    shutil.rmtree(RUNS[1].path)
    archive.unpack(plan(1), tmp_path / "runs.tar.xz")
    assert path.stat().st_mtime == 1_000_000_000


def test_a_link_in_an_archive_is_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    make(RUNS[1], "one")
    (tmp_path / "secret").write_text("secret")
    Path(RUNS[1].path, "link").symlink_to(tmp_path / "secret")
    archive.pack(plan(1), tmp_path / "runs.tar.xz")
    shutil.rmtree(RUNS[1].path)
    with pytest.raises(InputError, match=r"runs/[0-9a-f]+/link, which is no file"):
        archive.unpack(plan(1), tmp_path / "runs.tar.xz")
    assert not Path(RUNS[1].path, "made.json").exists()

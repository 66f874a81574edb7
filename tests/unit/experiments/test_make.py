"""A step is made once."""

from __future__ import annotations

import json
import shutil

import pytest

from syntax_experiments import make, steps


@pytest.fixture
def made(tmp_path, monkeypatch) -> list[str]:
    """What is made, in an empty folder of all work, by the kind ``text``."""
    done: list[str] = []
    monkeypatch.chdir(tmp_path)

    def write(step: make.Step) -> None:
        done.append(step.settings["what"])
        (step.folder / "text").write_text(step.settings["what"])

    monkeypatch.setitem(steps.STEPS, "text", write)
    spec = {"kind": "text", "settings": {"what": "a"}, "inputs": {}, "places": {}, "threads": 1}
    (tmp_path / "specs/text").mkdir(parents=True)
    (tmp_path / "specs/text/1.json").write_text(json.dumps(spec))
    return done


def test_once(made, tmp_path):
    make.make("text/1")
    make.make("text/1")
    assert made == ["a"]
    assert json.loads((tmp_path / "text/1/made.json").read_text())["settings"] == {"what": "a"}


def test_what_another_process_finished_meanwhile_is_kept(made, tmp_path, capsys):
    """Snakemake takes away the file that it waits for before it starts a job."""
    make.make("text/1")
    before = (tmp_path / "text/1/made.json").read_text()
    (tmp_path / "text/1/made.json").unlink()
    make.make("text/1")
    assert made == ["a"]
    assert (tmp_path / "text/1/made.json").read_text() == before
    assert "text/1 is made already; to have it made anew, delete the folder" in capsys.readouterr().out
    shutil.rmtree(tmp_path / "text/1")
    make.make("text/1")
    assert made == ["a", "a"]

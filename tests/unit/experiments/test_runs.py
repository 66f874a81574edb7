"""Translating by a trained system, and the record of the run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from steps_in import step_in

from syntax_experiments.make import read_lines
from syntax_experiments.steps import runs

LOG = """\
x | num. shared model params: 7
2026-01-01 | INFO | valid | {"epoch": 1, "valid_loss": "6.0", "valid_num_updates": "10"}
"""
WARNING = "2026-01-01 | WARNING | x | x.pt: its gates were never trained: it is of epoch 2\n"


@pytest.mark.parametrize("logged", [{}, {"stdout": WARNING}, {"log": WARNING}], ids=str)
@pytest.mark.parametrize("tokens", [False, True])
def test_translations_and_run_record(tmp_path, monkeypatch, logged, tokens):
    def generate(*command: object, stdout: Path, log: Path, **_: object) -> None:
        of_tests = {"test": "H-1\t-1.0\tein h@@ und &apos;s .\nH-0\t-1.0\tja , doch\n", "test1": "H-0\t-1.0\tnein !\n"}
        second = logged if "test1" in command else {}
        log.write_text(second.get("log", ""))
        stdout.write_text(second.get("stdout", "") + of_tests[str(command[command.index("--gen-subset") + 1])])

    monkeypatch.setattr(runs, "run", generate)
    monkeypatch.setattr(runs, "options", lambda settings: [])
    inputs = {name: tmp_path / name for name in ("model", "data", "text")}
    for folder in inputs.values():
        folder.mkdir()
    (inputs["model"] / "train.log").write_text(LOG)
    (inputs["text"] / "first.reference").write_text("Ja, doch\nein Hund\n")
    (inputs["text"] / "second.reference").write_text("Nein!\n")
    settings = {"source": "en", "target": "de", "tests": ["first", "second"], "generate": {}, "subwords": "subword_nmt"}
    settings |= {"detokenize": True, "tokens": tokens}
    step = step_in(tmp_path / "run", settings, inputs=inputs, local={"system": "slr", "seed": 1})
    runs.translate(step)
    assert read_lines(tmp_path / "run/first.txt") == ["ja, doch", "ein hund 's."]
    files = {path.name: read_lines(path) for path in (tmp_path / "run").glob("*.tokens")}
    assert files == (
        {"first.tokens": ["ja , doch", "ein hund &apos;s ."], "second.tokens": ["nein !"]} if tokens else {}
    )
    record = json.loads((tmp_path / "run/run.json").read_text())
    assert record["gates_never_trained"] == bool(logged)
    assert (record["system"], record["seed"], record["parameters"], record["valid_loss"]) == ("slr", 1, 7, 6.0)
    assert record["versions"]["code"] == "unknown"

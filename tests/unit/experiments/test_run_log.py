"""What a run record has of a training's log, and of translating."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from steps_in import lines_of, step_in

from syntax_experiments.steps import runs
from syntax_experiments.training_log import read_training


def line(kind: str, epoch: int, **numbers: float) -> str:
    told = {"epoch": epoch, **{f"{kind}_{name}": str(value) for name, value in numbers.items()}}
    return f"2026-01-01 10:00:00 | INFO | {kind} | {json.dumps(told)}"


def heads(subset: str, updates: int, *gates: float) -> str:
    told = json.dumps({"gate_slr_l1": gates})
    return f"2026-01-01 10:00:00 | INFO | {subset} | gates on '{subset}' subset | num_updates {updates} | {told}"


def train(epoch: int, updates: int, wall: float, loss: float) -> str:
    return line("train", epoch, loss=loss, wps=1, wpb=100, num_updates=updates, train_wall=wall, wall=wall + 5)


def test_a_training_that_was_resumed(tmp_path: Path):
    """Hours are those of all processes; of an epoch that was begun anew the second entry counts."""
    (tmp_path / "train.log").write_text(
        "\n".join(
            [
                "code: 11",
                "2026-01-01 10:00:00 | INFO | x | num. shared model params: 1,234,567 (num. trained: 1)",
                heads("valid", 10, 0.2, 0.4),
                line("valid", 1, loss=6.0, num_updates=10, gate_slr_l1=0.3),
                train(1, 10, 36, 7.0),
                heads("valid", 20, 0.6, 0.7),
                line("valid", 2, loss=5.5, num_updates=20, gate_slr_l1=0.65),
                heads("valid", 20, 0.5, 0.7)[:-9],
                "2026-01-01 10:00:00 | INFO | fairseq_cli.train | killed here, begun anew",
                heads("valid", 20, 0.5, 0.7),
                heads("other", 20, 0.1, 0.1),
                line("valid", 2, loss=5.0, num_updates=20, gate_slr_l1=0.6),
                train(2, 20, 36, 6.0),
                line("valid", 3, loss=5.2, num_updates=25),
                "code: 22",
                "code: 11",
                train(3, 25, 9, 5.0),
                line("valid", 4, loss=5.1, num_updates=30),  # of an epoch whose end was not logged
            ]
        )
    )
    found = read_training(tmp_path / "train.log")
    assert (found["parameters"], found["updates"], found["valid_loss"]) == (1234567, 25, 5.0)
    assert found["hours"] == pytest.approx(81 / 3600)
    assert found["words_per_second"] == pytest.approx(500 / 9), "of the fastest epoch"
    assert found["code"] == ["11", "22"]
    assert [(e["epoch"], e["updates"], e["train_loss"], e["valid_loss"]) for e in found["epochs"]] == [
        (1, 10, 7.0, 6.0),
        (2, 20, 6.0, 5.0),
        (3, 25, 5.0, 5.2),
    ]
    assert [e.get("gates") for e in found["epochs"]] == [
        {"gate_slr_l1": 0.3, "_gate_slr_l1_h1": 0.2, "_gate_slr_l1_h2": 0.4},
        {"gate_slr_l1": 0.6, "_gate_slr_l1_h1": 0.5, "_gate_slr_l1_h2": 0.7},
        None,
    ]


WARNING = "2026-01-01 | WARNING | x | x.pt: its gates were never trained: it is of epoch 2\n"


@pytest.mark.parametrize("said", [{}, {"stdout": WARNING}, {"log": WARNING}], ids=str)
@pytest.mark.parametrize("tokens", [False, True])
def test_what_translating_leaves(tmp_path, monkeypatch, said, tokens):
    def generate(*command: object, stdout: Path, log: Path, **_: object) -> None:
        of_tests = {"test": "H-1\t-1.0\tein h@@ und &apos;s .\nH-0\t-1.0\tja , doch\n", "test1": "H-0\t-1.0\tnein !\n"}
        second = said if "test1" in command else {}
        log.write_text(second.get("log", ""))
        stdout.write_text(second.get("stdout", "") + of_tests[str(command[command.index("--gen-subset") + 1])])

    monkeypatch.setattr(runs, "run", generate)
    monkeypatch.setattr(runs, "options", lambda settings: [])
    inputs = {name: tmp_path / name for name in ("model", "data", "text")}
    for folder in inputs.values():
        folder.mkdir()
    (inputs["model"] / "train.log").write_text(
        f"x | num. shared model params: 7\n{line('valid', 1, loss=6.0, num_updates=9)}"
    )
    (inputs["text"] / "first.reference").write_text("Ja, doch\nein Hund\n")
    (inputs["text"] / "second.reference").write_text("Nein!\n")
    settings = {"source": "en", "target": "de", "tests": ["first", "second"], "generate": {}, "subwords": "subword_nmt"}
    settings |= {"detokenize": True, **({"tokens": True} if tokens else {})}
    step = step_in(tmp_path / "run", settings, inputs=inputs, places={"system": "slr", "seed": 1})
    runs.translate(step)
    assert lines_of(tmp_path / "run/first.txt") == ["ja, doch", "ein hund 's."]
    files = {path.name: lines_of(path) for path in (tmp_path / "run").glob("*.tokens")}
    assert files == (
        {"first.tokens": ["ja , doch", "ein hund &apos;s ."], "second.tokens": ["nein !"]} if tokens else {}
    )
    assert json.loads((tmp_path / "run/run.json").read_text())["gates_never_trained"] == bool(said)

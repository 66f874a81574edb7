"""The step that trains: what it asks of fairseq-train, what it leaves, and how it goes on when it was stopped."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import pytest

from syntax_experiments.make import Step
from syntax_experiments.steps import training

OWN = {"options": {"user-dir": "/here/own"}}


@pytest.fixture
def commands(monkeypatch) -> list[list[str]]:
    """The commands that the step runs, as words; fairseq-train's leaves checkpoints as fairseq does."""
    found: list[list[str]] = []

    def run(*command: Any, **_: object) -> None:
        words = [str(word) for word in command]
        found.append(words)
        if words[0] == "fairseq-train":
            folder = Path(words[words.index("--save-dir") + 1])
            folder.mkdir()
            epochs = [] if "--no-epoch-checkpoints" in words else ["1", "2"]
            for name in ("_best", "_last", *epochs):
                (folder / f"checkpoint{name}.pt").write_text(name)
        else:
            Path(words[words.index("--output") + 1]).write_text("mean")

    monkeypatch.setattr(training, "run", run)
    return found


def train(folder: Path, local: dict[str, Any] | None = None, **settings: Any) -> dict[str, str]:
    """The files that it leaves, with their text."""
    told = {
        "options": {"arch": "transformer"},
        "average": None,
        "keep_epochs": False,
        "source": "en",
        "target": "de",
        **settings,
    }
    training.train(Step(told, {"data": Path("data/x")}, local or {}, 1, folder))
    return {str(path.relative_to(folder)): path.read_text() for path in folder.rglob("*.pt")}


def test_the_best_is_left(tmp_path, commands):
    assert train(tmp_path) == {"checkpoint.pt": "_best"}
    assert "--no-epoch-checkpoints" in commands[0]


def test_the_mean_of_the_last_is_left(tmp_path, commands):
    assert train(tmp_path, average=2) == {"checkpoint.pt": "mean"}
    assert commands[0][commands[0].index("--keep-last-epochs") :][:2] == ["--keep-last-epochs", "2"]


@pytest.mark.parametrize(("average", "expected"), [(None, "_best"), (2, "mean")])
def test_epochs_are_left_if_they_are_kept(tmp_path, commands, average, expected):
    left = train(tmp_path, average=average, keep_epochs=True)
    assert left == {"checkpoint.pt": expected, "checkpoints/checkpoint1.pt": "1", "checkpoints/checkpoint2.pt": "2"}
    assert not {"--no-epoch-checkpoints", "--keep-last-epochs"} & set(commands[0])


@pytest.mark.parametrize(("average", "expected"), [(None, "_best"), (2, "mean")])
def test_trained_to_the_end_by_a_process_whose_workflow_was_killed_it_trains_no_more(
    tmp_path, commands, average, expected
):
    (tmp_path / "train.log").write_text("2026-01-01 | INFO | fairseq_cli.train | done training in 212.3 seconds\n")
    (tmp_path / "checkpoints").mkdir()
    for name in ("_best", "_last"):
        (tmp_path / f"checkpoints/checkpoint{name}.pt").write_text(name)
    assert train(tmp_path, average=average) == {"checkpoint.pt": expected}
    assert [words[0] for words in commands] == ["fairseq-syntax-average-checkpoints"] * bool(average)


def test_stopped_within_training_it_trains_on(tmp_path, commands):
    (tmp_path / "train.log").write_text('2026-01-01 | INFO | train | {"epoch": 1, "train_loss": "9"}\n')
    assert train(tmp_path) == {"checkpoint.pt": "_best"}
    assert commands[0][0] == "fairseq-train"


@pytest.mark.parametrize("keep", [False, True])
@pytest.mark.parametrize("left", [["checkpoints/checkpoint_last.pt", "checkpoints/checkpoint1.pt"], []])
def test_stopped_while_it_tidied_up_it_trains_no_more(tmp_path, commands, left, keep):
    (tmp_path / "checkpoints").mkdir()
    for name in ("checkpoint.pt", *left):
        (tmp_path / name).write_text("")
    assert train(tmp_path, keep_epochs=keep).keys() == {"checkpoint.pt", *(left[1:] if keep else ())}
    assert commands == []


@pytest.mark.parametrize(("local", "expected"), [(None, "fairseq_syntax"), (OWN, "/here/own")])
def test_a_systems_own_code_relocal_ours(tmp_path, commands, local, expected):
    options = {"arch": "transformer"} if local is None else {"arch": "transformer", "user-dir": "{here}/own"}
    train(tmp_path, local, options=options)
    assert commands[0].count("--user-dir") == 1
    assert commands[0][commands[0].index("--user-dir") + 1] == expected


def test_a_last_checkpoint_that_was_cut_off_is_replaced(tmp_path, capsys):
    checkpoints = tmp_path / "checkpoints"
    checkpoints.mkdir()
    whole, last = checkpoints / "checkpoint_best.pt", checkpoints / "checkpoint_last.pt"
    with zipfile.ZipFile(whole, "w") as file:
        file.writestr("x", "weights")
    last.write_bytes(whole.read_bytes()[:-20])
    training._drop_broken(checkpoints)
    assert last.read_bytes() == whole.read_bytes()
    assert "is cut off; going on from" in capsys.readouterr().out
    last.write_bytes(b"")
    whole.unlink()
    training._drop_broken(checkpoints)
    assert not last.exists()

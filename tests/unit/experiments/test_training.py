"""The step that trains: its commands, its files, and how it goes on when it was stopped."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import pytest
from steps_in import step_in

from syntax_experiments.steps import training


@pytest.fixture
def commands(monkeypatch) -> list[list[str]]:
    """The commands that the step runs, as words; fairseq-train's leaves checkpoints as fairseq does."""
    found: list[list[str]] = []

    def run(*command: Any, **_: object) -> None:
        words = [str(word) for word in command]
        found.append(words)
        if words[0] == "fairseq-train":
            folder = Path(words[words.index("--save-dir") + 1])
            folder.mkdir(exist_ok=True)
            epochs = [] if "--no-epoch-checkpoints" in words else ["1", "2"]
            for name in ("_best", "_last", *epochs):
                (folder / f"checkpoint{name}.pt").write_text(name)
        else:
            Path(words[words.index("--output") + 1]).write_text("mean")

    monkeypatch.setattr(training, "run", run)
    return found


def train(folder: Path, local: dict[str, Any] | None = None, **settings: Any) -> dict[str, str]:
    """The checkpoints that it leaves, with their text."""
    defaults = {"options": {"arch": "transformer"}, "average": None, "keep_epochs": False}
    settings = {**defaults, "source": "en", "target": "de", **settings}
    training.train(step_in(folder, settings, inputs={"data": Path("data/x")}, local=local or {}))
    return {str(path.relative_to(folder)): path.read_text() for path in folder.rglob("*.pt")}


@pytest.mark.parametrize(
    ("average", "keep", "option", "left"),
    [
        (None, False, "--no-epoch-checkpoints", "_best"),
        (2, False, "--keep-last-epochs", "mean"),
        (None, True, None, "_best"),
        (2, True, None, "mean"),
    ],
)
def test_the_best_checkpoint_or_the_mean_of_the_last_is_left(tmp_path, commands, average, keep, option, left):
    epochs = {f"checkpoints/checkpoint{epoch}.pt": str(epoch) for epoch in (1, 2)} if keep else {}
    assert train(tmp_path, average=average, keep_epochs=keep) == {"checkpoint.pt": left, **epochs}
    assert {"--no-epoch-checkpoints", "--keep-last-epochs"} & set(commands[0]) == ({option} if option else set())


def test_a_classifier_begins_from_a_pretrained_model(tmp_path, commands):
    train(tmp_path, {"pretrained": "bert/model.pt"}, inputs=["input0"])
    assert commands[0][1:4] == ["data/x", "--task", "syntax_sentence_prediction"]
    assert commands[0][commands[0].index("--finetune-from-model") + 1] == "bert/model.pt"


@pytest.mark.parametrize(
    ("line", "average", "expected", "run"),
    [
        ("done training in 212.3 seconds", None, "_best", []),
        ("done training in 212.3 seconds", 2, "mean", ["fairseq-syntax-average-checkpoints"]),
        ('{"epoch": 1, "train_loss": "9"}', None, "_best", ["fairseq-train"]),
    ],
)
def test_where_a_process_outlived_its_workflow_and_trained_to_the_end_it_trains_no_more(
    tmp_path, commands, line, average, expected, run
):
    (tmp_path / "train.log").write_text(f"2026-01-01 | INFO | fairseq_cli.train | {line}\n")
    (tmp_path / "checkpoints").mkdir()
    (tmp_path / "checkpoints/checkpoint_best.pt").write_text("_best")
    assert train(tmp_path, average=average) == {"checkpoint.pt": expected}
    assert [words[0] for words in commands] == run


@pytest.mark.parametrize("keep", [False, True])
@pytest.mark.parametrize("left", [["checkpoints/checkpoint_last.pt", "checkpoints/checkpoint1.pt"], []])
def test_stopped_while_it_tidied_up_it_trains_no_more(tmp_path, commands, left, keep):
    (tmp_path / "checkpoints").mkdir()
    for name in ("checkpoint.pt", *left):
        (tmp_path / name).write_text("")
    assert train(tmp_path, keep_epochs=keep).keys() == {"checkpoint.pt", *(left[1:] if keep else ())}
    assert commands == []


def test_a_systems_own_code_replaces_ours(tmp_path, commands):
    train(tmp_path / "ours")
    options = {"arch": "transformer", "user-dir": "{here}/own"}
    train(tmp_path / "own", {"options": {"user-dir": "/here/own"}}, options=options)
    train(tmp_path / "mean", {"options": {"user-dir": "/here/own"}}, options=options, average=2)
    assert [words[words.index("--user-dir") + 1] for words in commands] == ["fairseq_syntax", *["/here/own"] * 3]
    assert [words.count("--user-dir") for words in commands] == [1] * 4


@pytest.mark.parametrize("whole", [True, False])
def test_a_last_checkpoint_that_was_cut_off_is_replaced_by_the_newest_whole_one(tmp_path, commands, capsys, whole):
    checkpoints = tmp_path / "checkpoints"
    checkpoints.mkdir()
    with zipfile.ZipFile(checkpoints / "checkpoint1.pt", "w") as file:
        file.writestr("x", "weights")
    content = (checkpoints / "checkpoint1.pt").read_bytes()
    (checkpoints / "checkpoint_last.pt").write_bytes(content[:-20])
    if not whole:
        (checkpoints / "checkpoint1.pt").unlink()
    train(tmp_path)
    expected = checkpoints / "checkpoint1.pt" if whole else "the beginning"
    assert f"checkpoint_last.pt is cut off; going on from {expected}" in capsys.readouterr().out

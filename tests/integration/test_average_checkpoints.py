"""Averaging checkpoints."""

from __future__ import annotations

import os

import pytest
import torch

import commands
from fairseq_syntax.commands.average_checkpoints import average, last_checkpoints, main
from syntax_data.errors import InputError


def test_the_last_epochs_are_averaged_and_translate(trained, tmp_path, capsys):
    run, output = trained.checkpoint.parent, tmp_path / "average.pt"
    main(["--inputs", str(run), "--num-epoch-checkpoints", "2", "--output", str(output)])
    last, before = run / "checkpoint5.pt", run / "checkpoint4.pt"
    assert capsys.readouterr().out.splitlines()[1:] == [str(last), str(before)]
    one, two, mean = map(commands.parameters, (before, last, output))
    assert any("running_mean" in name for name in mean)
    assert mean.keys() == one.keys()
    for name, weight in mean.items():
        torch.testing.assert_close(weight, (one[name] + two[name]) / 2)
    assert sorted(commands.generate(trained.data, output))[0] == 0
    begin = f"--finetune-from-model={output}", "--syntax-masks=slr,sdoi"
    finetuned = commands.train(trained.data, tmp_path / "on", "--max-update=1", *begin)
    assert finetuned.get_num_updates() == 1


def test_half_precision_is_averaged_exactly(tmp_path):
    for i, value in enumerate((1.0, 1.0, 1.0 + 2**-10)):
        torch.save({"model": {"w": torch.full((2,), value).half(), "n": torch.tensor(3)}}, tmp_path / f"{i}.pt")
    state = average([str(tmp_path / f"{i}.pt") for i in range(3)])
    assert state["model"]["w"].dtype == torch.float16
    assert state["model"]["w"].tolist() == [torch.tensor(1.0 + 2**-10 / 3).half()] * 2
    assert state["model"]["n"] == 3


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_tied_weights_stay_tied_and_what_goes_on_training_is_left_out(tmp_path, dtype):
    for i in range(2):
        weight = torch.full((3,), float(i), dtype=dtype)
        more = {"last_optimizer_state": {}, "extra_state": {"ema": {}, "metrics": 1}}
        torch.save({"model": {"a": weight, "b": weight, "c": weight + 1}, **more}, tmp_path / f"{i}.pt")
    state = average([str(tmp_path / f"{i}.pt") for i in range(2)])
    assert {name: weight.tolist() for name, weight in state["model"].items()} == {
        "a": [0.5] * 3, "b": [0.5] * 3, "c": [1.5] * 3,
    }  # fmt: skip
    assert state["model"]["a"].data_ptr() == state["model"]["b"].data_ptr()
    assert state.keys() == {"model", "extra_state"}
    assert state["extra_state"] == {"metrics": 1}


@pytest.mark.parametrize("epochs", [(2, 3), (3, 2)])
def test_the_epoch_is_the_latest(tmp_path, epochs):
    for i, epoch in enumerate(epochs):
        extra = {"train_iterator": {"epoch": epoch + 1, "iterations_in_epoch": 0}}
        torch.save({"model": {"w": torch.ones(2)}, "extra_state": extra}, tmp_path / f"{i}.pt")
    state = average([str(tmp_path / f"{i}.pt") for i in range(2)])
    assert state["extra_state"]["train_iterator"]["epoch"] == 4


@pytest.mark.parametrize(
    ("more", "message"),
    [([], "a folder as --inputs goes with --num-epoch-"), (["--num-epoch-checkpoints", "0"], "at least 1")],
)
def test_options_that_do_not_go_together(tmp_path, capsys, more, message):
    with pytest.raises(SystemExit):
        main([f"--inputs={tmp_path}", f"--output={tmp_path}/out.pt", *more])
    assert message in capsys.readouterr().err


def test_which_checkpoints_are_the_last(tmp_path):
    for name in ("1", "2", "10", "_best", "_last", "_2_500", "_10_1500"):
        (tmp_path / f"checkpoint{name}.pt").touch()
    names = [path.rsplit("/", 1)[1] for path in last_checkpoints(str(tmp_path), 2)]
    assert names == ["checkpoint10.pt", "checkpoint2.pt"]
    names = [path.rsplit("/", 1)[1] for path in last_checkpoints(str(tmp_path), 2, upper_bound=2)]
    assert names == ["checkpoint2.pt", "checkpoint1.pt"]
    names = [path.rsplit("/", 1)[1] for path in last_checkpoints(str(tmp_path), 1, by_update=True)]
    assert names == ["checkpoint_10_1500.pt"]
    with pytest.raises(InputError, match=r"at least 3 files checkpoint<epoch>\.pt up to 2, found 2"):
        last_checkpoints(str(tmp_path), 3, upper_bound=2)


@pytest.mark.parametrize(
    ("other", "message"),
    [
        ({"model": {"v": torch.zeros(2)}}, r"expected the parameters of .*0\.pt, 2 differ: \['v', 'w'\]"),
        ({"model": {"w": torch.zeros(3)}}, r"w: expected the shape \(2,\) as in .*0\.pt, found \(3,\)"),
        ({"model": {"w": 1}}, "expected a fairseq checkpoint, found one without a model's weights"),
        ([torch.zeros(2)], "expected a fairseq checkpoint, found one without a model's weights"),
        (None, "expected a fairseq checkpoint, found a file that torch cannot read"),
    ],
)
def test_what_does_not_fit_is_refused_and_nothing_is_written(tmp_path, other, message):
    torch.save({"model": {"w": torch.zeros(2)}}, tmp_path / "0.pt")
    if other is None:
        (tmp_path / "1.pt").write_bytes(b"no checkpoint")
    else:
        torch.save(other, tmp_path / "1.pt")
    with pytest.raises(SystemExit, match=rf"error: .*1\.pt: {message}"):
        main(["--inputs", f"{tmp_path}/0.pt", f"{tmp_path}/1.pt", "--output", f"{tmp_path}/out.pt"])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["0.pt", "1.pt"]


def test_a_checkpoint_that_is_averaged_is_not_overwritten(tmp_path):
    for i in (1, 2):
        torch.save({"model": {"w": torch.full((2,), float(i))}}, tmp_path / f"checkpoint{i}.pt")
    os.symlink("checkpoint2.pt", tmp_path / "checkpoint_last.pt")
    content = (tmp_path / "checkpoint2.pt").read_bytes()
    files = [f"{tmp_path}/checkpoint1.pt", f"{tmp_path}/checkpoint2.pt"]
    for inputs in (files, [str(tmp_path), "--num-epoch-checkpoints=2"]):
        for name in ("checkpoint2.pt", "checkpoint_last.pt"):
            with pytest.raises(SystemExit, match=rf"{name}: expected another file to write to .*, found .*2\.pt"):
                main(["--inputs", *inputs, f"--output={tmp_path}/{name}"])
    assert (tmp_path / "checkpoint2.pt").read_bytes() == content
    assert (tmp_path / "checkpoint_last.pt").is_symlink()
    for output, message in (
        (tmp_path, "expected a file to write to, found something else"),
        (tmp_path / "none/x.pt", "expected the folder .* to write to, found none"),
    ):
        with pytest.raises(SystemExit, match=f"{output}: {message}"):
            main([f"--inputs={tmp_path}/checkpoint1.pt", f"--output={output}"])

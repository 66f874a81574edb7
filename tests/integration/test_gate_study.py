"""The measurement of the recipe gate_normalisation, and its treatments of statistics."""

from __future__ import annotations

import importlib
import json
import runpy
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import commands
from forked import Forked
from places import EXPERIMENTS

GATES = EXPERIMENTS / "gates"
PLAIN = ["--gate-batch-norm", "--gate-batch-norm-statistics=batch"]
UPDATES = ["--max-update=16", "--max-epoch=2"]


def train(data: Path, model: Path, *options: str) -> Path:
    """Two epochs, kept as the experiments keep them."""
    commands.train(data, model / "checkpoints", *UPDATES, *options)
    shutil.copy(model / "checkpoints/checkpoint_best.pt", model / "checkpoint.pt")
    return model


def measure(model: Path, data: Path, capsys, monkeypatch) -> dict[str, float]:
    monkeypatch.setattr(sys, "argv", ["evaluation.py", str(model), str(data)])
    runpy.run_path(str(GATES / "evaluation.py"), run_name="__main__")
    return json.loads(capsys.readouterr().out)


@pytest.fixture(scope="module")
def plain(data_bin, tmp_path_factory) -> Path:
    return train(data_bin, tmp_path_factory.mktemp("plain"), *PLAIN)


def split(model: Path, epoch: int) -> tuple[dict[str, torch.Tensor], dict[str, torch.Tensor]]:
    """Weights of an epoch, and the gates' running statistics."""
    state = commands.parameters(model / f"checkpoints/checkpoint{epoch}.pt")
    statistics = {name: value for name, value in state.items() if ".running_" in name}
    assert statistics
    return {name: value for name, value in state.items() if name not in statistics}, statistics


def train_by(name: str, data: Path, folder: Path, before: Callable[[Any], None] = lambda module: None) -> None:
    """Train under a user-dir of the study in a copy of this process, for it changes the gates of all models."""

    def work() -> None:
        sys.path.insert(0, str(GATES))
        before(importlib.import_module(name))
        train(data, folder, *PLAIN, "--user-dir", str(GATES / name))

    process = Forked(work, folder / "log")
    assert process.end(60) == 0, process.said


def same(a: dict[str, torch.Tensor], b: dict[str, torch.Tensor]) -> bool:
    return all(torch.equal(a[name], b[name]) for name in a)


def test_plain_normalisation_has_a_gap_and_running_statistics_have_none(data_bin, plain, tmp_path, capsys, monkeypatch):
    found = measure(plain, data_bin, capsys, monkeypatch)
    assert list(found) == [
        "exact match, greedy",
        "difference to training mode, last 5 epochs",
        "difference, largest of all epochs",
        "distance of gates, last 5 epochs",
    ]
    *_, distance = found.values()
    assert 0.001 < distance < 1
    _, *differences = measure(train(data_bin, tmp_path), data_bin, capsys, monkeypatch).values()
    assert differences[:2] == [0, 0]
    assert differences[2] < 1e-6
    shutil.rmtree(tmp_path / "checkpoints")
    with pytest.raises(SystemExit, match="checkpoints: expected checkpoints of epochs, found none"):
        measure(tmp_path, data_bin, capsys, monkeypatch)


@pytest.mark.nightly
@pytest.mark.parametrize("name", ["slow_gates", "accumulated_gates"])
def test_slow_and_accumulated_statistics_change_no_weights(data_bin, plain, tmp_path, name):
    train_by(name, data_bin, tmp_path)
    for epoch in (1, 2):
        (weights, statistics), (expected, plain_statistics) = split(tmp_path, epoch), split(plain, epoch)
        assert same(weights, expected)
        assert not any(torch.equal(statistics[of], plain_statistics[of]) for of in statistics)
    if name == "slow_gates":
        return
    # Of the first syntax layer, whose logits depend on no other gate: the mean over batches of their means.
    loaded, task = commands.load(tmp_path / "checkpoints/checkpoint2.pt")
    task.load_dataset("train")
    norm = next(iter(loaded.gates.values())).batch_norm
    means = []
    norm.register_forward_pre_hook(lambda _, inputs: means.append(inputs[0].mean(0)))
    with torch.no_grad():
        for batch in task.get_batch_iterator(task.dataset("train"), max_sentences=150).next_epoch_itr(shuffle=False):
            inputs = batch["net_input"]
            loaded.encoder(**{name: inputs[name] for name in inputs if name != "prev_output_tokens"})
    torch.testing.assert_close(norm.running_mean, torch.stack(means).mean(0), rtol=1e-4, atol=1e-5)


def test_frozen_statistics_are_constant_and_normalise_training(data_bin, plain, tmp_path):
    first = torch.load(plain / "checkpoints/checkpoint1.pt", weights_only=False)
    updates = first["optimizer_history"][-1]["num_updates"]
    train_by("frozen_gates", data_bin, tmp_path, lambda frozen: setattr(frozen, "FROZEN_FROM", updates))
    (first, statistics), (plain_first, plain_statistics) = split(tmp_path, 1), split(plain, 1)
    assert same(first, plain_first)
    assert same(statistics, plain_statistics)
    (second, statistics), (plain_second, plain_statistics) = split(tmp_path, 2), split(plain, 2)
    assert same(statistics, split(tmp_path, 1)[1])
    assert not same(second, plain_second)

"""Data parallel training through fairseq-train: two processes, gloo, CPU."""

from __future__ import annotations

import logging
import re
import socket
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import fairseq_cli.train as cli
import pytest
import torch

import commands
from forked import Forked
from syntax_preprocess.analysis.history import read_log


def run_rank(output: Path, arguments: list[str]) -> None:
    """fairseq-train, and the model that its rank ends with."""
    trainers = []

    class Recorded(cli.Trainer):
        def __init__(self, *args, **kwargs):
            super().__init__(*args, **kwargs)
            trainers.append(self)

    cli.Trainer = Recorded
    sys.argv = ["fairseq-train", *arguments]
    logging.getLogger().addHandler(logging.StreamHandler(sys.stdout))
    cli.cli_main()
    torch.save(trainers[0].get_model().state_dict(), output)


def train(
    data: Path, folder: Path, ranks: int, *more: str, model: Sequence[str] = commands.TINY
) -> list[dict[str, torch.Tensor]]:
    """The weights that each rank ends with; what it says is in rank0.log, …"""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    options = [
        str(data), *commands.USER_DIR, *model, "--criterion", "label_smoothed_cross_entropy", "--batch-size",
        "10", "--num-workers", "0", "--log-format", "simple", "--seed", "3", "--cpu", *more,
    ]  # fmt: skip
    outputs = [folder / f"rank{rank}.pt" for rank in range(ranks)]
    processes = []
    for rank, output in enumerate(outputs):
        together = [
            "--distributed-world-size", str(ranks), "--distributed-rank", str(rank), "--distributed-init-method",
            f"tcp://127.0.0.1:{port}", "--distributed-no-spawn", "--distributed-backend", "gloo", "--ddp-backend",
            "legacy_ddp",
        ]  # fmt: skip
        arguments = [*options, "--save-dir", str(folder / str(rank)), *(together if ranks > 1 else [])]
        processes.append(Forked(partial(run_rank, output, arguments), folder / f"rank{rank}.log"))
    for process in processes:
        assert process.end(300) == 0, process.said[-3000:]
    return [torch.load(path, weights_only=True) for path in outputs]


def test_ranks_stay_equal_also_through_pre_warmup(data_bin, tmp_path):
    optimizer = ["--optimizer", "adam", "--lr", "0.01", "--weight-decay", "0.1"]
    options = [
        "--syntax-masks", "slr,sdoi", "--syntax-dropout", "0.2", "--gate-warmup-epochs", "1", "--max-epoch", "2",
        "--save-interval-updates", "2", "--disable-validation",
    ]  # fmt: skip
    first, second = train(data_bin, tmp_path, 2, *optimizer, *options)
    for name, weight in first.items():
        assert torch.equal(weight, second[name]), name
    begun, warm = (commands.parameters(tmp_path / f"0/checkpoint{name}.pt") for name in ("_1_2", "1"))
    statistics = [name for name in first if ".gate." in name and "running" in name]
    gates = [name for name in first if ".gate." in name and name not in statistics]
    assert len(gates) == 2 * 8
    assert all(torch.equal(warm[name], begun[name]) for name in gates)  # frozen
    assert all(not torch.equal(first[name], warm[name]) for name in gates if "fc2" in name)
    assert all(not torch.equal(warm[name], begun[name]) for name in statistics)


@pytest.mark.parametrize("combination", ["gate", "average"])
def test_two_ranks_equal_one_with_two_batches_a_step(data_bin, tmp_path, combination):
    options = [
        "--optimizer", "sgd", "--lr", "0.1", "--dropout", "0", "--no-gate-batch-norm", "--syntax-masks", "slr,sdoi",
        "--syntax-combination", combination, "--max-update", "6",
    ]  # fmt: skip
    (tmp_path / "one").mkdir()
    (one,) = train(data_bin, tmp_path / "one", 1, "--update-freq", "2", *options)
    first, second = train(data_bin, tmp_path, 2, *options)
    for name, weight in one.items():
        assert torch.equal(first[name], second[name]), name
        torch.testing.assert_close(first[name], weight, rtol=0, atol=1e-5)
    gates_of_one, gates, of_another_rank = (
        re.findall(r"gates on .*", (tmp_path / log).read_text()) for log in ("one/rank0.log", "rank0.log", "rank1.log")
    )
    assert (len(gates_of_one), len(gates), len(of_another_rank)) == ((1, 1, 0) if combination == "gate" else (0, 0, 0))
    if gates:  # those of all sentences, not of a rank's own
        [found], [expected] = (read_log(str(tmp_path / log)) for log in ("rank0.log", "one/rank0.log"))
        assert len(found.gates) == 2 * 2 * 5
        assert found.gates == pytest.approx(expected.gates, abs=1.1e-3)
    moved = one["encoder.layers.1.self_attn_layer_norm.weight"] - 1  # it starts with 1
    assert moved.abs().max() > 1e-3

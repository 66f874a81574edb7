"""Two processes, and several passes a step, train as one of all sentences."""

from __future__ import annotations

import logging
import re
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import fairseq_cli.train as cli
import pytest
import torch
from fairseq import options as fairseq_options
from fairseq import tasks
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq.distributed import utils as distributed_utils
from fairseq.logging import metrics

import commands
import example_bins
import systems
from forked import Forked
from shell import free_port
from syntax_experiments.training_log import read_validations
from tiers import others_nightly


def run_rank(output: Path, arguments: list[str]) -> None:
    """fairseq-train, and the model that its rank ends with."""
    sys.argv = ["fairseq-train", *arguments]
    logging.getLogger().addHandler(logging.StreamHandler(sys.stdout))
    logging.getLogger().setLevel(logging.INFO)  # as in a process of its own; fairseq sets it for several
    with commands.recorded_trainers() as trainers:
        cli.cli_main()
    torch.save(trainers[0].get_model().state_dict(), output)


def train(
    data: Path, folder: Path, ranks: int, *more: str, model: Sequence[str] = commands.TINY
) -> list[dict[str, torch.Tensor]]:
    """The weights that each rank ends with; its log is rank0.log, …"""
    options = [
        str(data), *commands.USER_DIR, *model, "--criterion", "label_smoothed_cross_entropy", "--batch-size",
        "10", "--num-workers", "0", "--log-format", "simple", "--seed", "3", "--cpu", *more,
    ]  # fmt: skip
    port, outputs = free_port(), [folder / f"rank{rank}.pt" for rank in range(ranks)]
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


def test_the_master_logs_the_gates_of_all_ranks_sentences(data_bin, tmp_path):
    options = ["--optimizer=sgd", "--lr=0.1", "--dropout=0", "--no-gate-batch-norm", "--syntax-masks=slr,sdoi"]
    (tmp_path / "one").mkdir()
    train(data_bin, tmp_path / "one", 1, "--update-freq=2", *options, "--max-update=3")
    train(data_bin, tmp_path, 2, *options, "--max-update=3")
    logs = [tmp_path / name for name in ("one/rank0.log", "rank0.log", "rank1.log")]
    assert [len(re.findall(r"gates on .*", log.read_text())) for log in logs] == [1, 1, 0]
    [expected], [found] = (read_validations(str(log)) for log in logs[:2])
    assert len(found.gates) == 2 * 2 * 5
    assert found.gates == pytest.approx(expected.gates, abs=1.1e-3)


def test_scores_of_classification_are_of_all_ranks_examples(tmp_path):
    data = example_bins.examples(tmp_path / "data", number=32)
    for split in ("train", "valid"):
        example_bins.tokens(data / "label", split, [str(i % 3 % 2) for i in range(32)], ["0", "1"])
    options = [
        "--task=syntax_sentence_prediction", "--criterion=sentence_prediction", "--report-mcc", "--num-classes=2",
        "--init-token=0", "--separator-token=2", "--optimizer=sgd", "--lr=0.1", "--max-update=2",
    ]  # fmt: skip
    model = ["--arch=gated_syntax_roberta_tiny", "--dropout=0", "--attention-dropout=0"]
    (tmp_path / "one").mkdir()
    (expected,) = train(data, tmp_path / "one", 1, "--update-freq=2", *options, model=model)
    first, second = train(data, tmp_path, 2, *options, model=model)
    for name, weight in first.items():
        assert torch.equal(weight, second[name]), name
        torch.testing.assert_close(weight, expected[name], rtol=1e-4, atol=1e-5)
    scores = [re.findall(r"mcc [-.\d]+", (tmp_path / log).read_text()) for log in ("one/rank0.log", "rank0.log")]
    assert scores[0] == scores[1] != []


#: How sentences are dealt out: to the passes of one process; to those of two. One pass has one sentence alone.
PASSES = [[0], range(1, 6), range(6, 16)]
RANKS = [[[0], range(1, 6)], [range(6, 8), range(8, 16)]]

#: What takes a step: every architecture, and gates that are normalised.
GATED = ["--arch=gated_syntax_transformer_tiny", "--syntax-masks=slr,sdoi"]
STEPS = {
    **{system: [f"--arch={system}_tiny"] for system in [*systems.SYSTEMS, *systems.OF_POSITIONS]},
    "gated_syntax_transformer": [*GATED, "--no-gate-batch-norm"],
    "seprem_transformer": ["--arch=seprem_transformer_tiny", "--distance-prediction-rate=1"],
    "by running statistics": GATED,
    "by the pass's statistics": [*GATED, "--gate-batch-norm-statistics=batch"],
    "pre-warmup": [*GATED, "--gate-warmup-epochs=1"],
    "activation checkpointing": [*GATED, "--checkpoint-activations"],
}
NORMALISED = list(STEPS)[-4:]


def configuration(data: Path, how: str) -> Any:
    arguments = [
        str(data), *commands.USER_DIR, *STEPS[how], "--encoder-embed-dim=32", "--decoder-layers=1", "--dropout=0",
        "--attention-dropout=0", "--criterion=label_smoothed_cross_entropy_with_syntax", "--optimizer=sgd", "--lr=0.1",
        "--batch-size=20", "--cpu", "--ddp-backend=legacy_ddp", "--distributed-backend=gloo",
    ]  # fmt: skip
    parser = fairseq_options.get_training_parser()
    return convert_namespace_to_omegaconf(fairseq_options.parse_args_and_arch(parser, arguments))


def after_a_step(cfg: Any, passes: Sequence[Sequence[int]]) -> dict[str, torch.Tensor]:
    """The model's state after one step of these passes, and the loss that was logged."""
    task = tasks.setup_task(cfg.task)
    torch.manual_seed(3)
    model, criterion = task.build_model(cfg.model), task.build_criterion(cfg.criterion)
    task.load_dataset("train")
    with torch.no_grad():  # scorers and tables begin as 0, where others learn nothing from them
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.02)
    trainer, dataset = cli.Trainer(cfg, task, model, criterion), task.dataset("train")
    task.begin_epoch(1, model)
    with metrics.aggregate(new_root=True) as meters:
        trainer.train_step([dataset.collater([dataset[i] for i in some]) for some in passes])
    return {**trainer.get_model().state_dict(), "loss": torch.tensor(float(meters["loss"].avg))}


def step_of_rank(cfg: Any, folder: Path, rank: int) -> None:
    """A step in a process of two."""
    together = cfg.distributed_training
    together.distributed_world_size, together.distributed_rank = 2, rank
    together.distributed_init_method = f"file://{folder}/group"
    distributed_utils.distributed_init(cfg)
    torch.save(after_a_step(cfg, RANKS[rank]), folder / f"{rank}.pt")


@pytest.mark.parametrize("how", others_nightly(STEPS, {"tree_hmm_transformer", *NORMALISED[:2]}))
def test_passes_and_ranks_are_a_batch_as_large_as_all_of_them(data_bin, tmp_path, monkeypatch, how):
    """The same parameters and running statistics after a step: of one pass, of three, of each of two ranks.

    But a pass knows no other's gate logits, by which these are normalised: by running statistics, the loss and what
    gates feed agree; by the pass's own, the first layer's logits, and so their statistics.
    """
    monkeypatch.setattr("fairseq_syntax.modules.heads.MASK_RATE", 1.0)  # else SEPREM draws which distances are hidden
    cfg = configuration(data_bin, how)
    ranks = [Forked(partial(step_of_rank, cfg, tmp_path, rank), tmp_path / f"{rank}.log") for rank in range(2)]
    whole, *others = (after_a_step(cfg, passes) for passes in ([range(16)], PASSES))
    for rank in ranks:
        assert rank.end(120) == 0, rank.said[-3000:]
    others += [torch.load(tmp_path / f"{rank}.pt", weights_only=True) for rank in range(2)]
    statistics = {name for name in whole if "batch_norm.running" in name}
    assert bool(statistics) == (how in NORMALISED)
    equal = set(whole)
    if how == "by the pass's statistics":
        equal = {name for name in statistics if ".layers.0." in name}
    elif how in NORMALISED:
        fed = ("loss", "encoder.layers.1.fc", "encoder.layers.1.final", "decoder.layers")
        equal = statistics | {name for name in whole if name.startswith(fed)}
    assert equal
    for state in others:
        for name in equal:
            torch.testing.assert_close(
                state[name], whole[name], rtol=1e-4, atol=2e-6, msg=lambda m, n=name: f"{n}: {m}"
            )
    first, second = others[-2:]
    for name, expected in first.items():
        assert torch.equal(second[name], expected), name  # on both ranks bit by bit

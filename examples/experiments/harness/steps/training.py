"""Trains a system."""

from __future__ import annotations

import os
import shutil

from harness.commands import options, run
from harness.gpus import on_a_gpu
from harness.make import Step


def train(step: Step) -> None:
    """Writes ``train.log`` and ``checkpoint.pt``, the best or the mean of the last ones."""
    average = step.settings["average"]
    keep = ["--keep-last-epochs", str(average)] if average else ["--no-epoch-checkpoints"]
    log, checkpoints = step.folder / "train.log", step.folder / "checkpoints"
    with on_a_gpu():
        run(
            "fairseq-train", step.inputs["data"], "--user-dir", "fairseq_syntax", "--task", "syntax_translation",
            "--source-lang", step.settings["source"], "--target-lang", step.settings["target"],
            *options(step.settings["options"]), *keep,
            "--save-dir", checkpoints, "--log-format", "json", log=log, threads=step.threads,
        )  # fmt: skip
    if average:
        run(
            "fairseq-syntax-average-checkpoints", "--inputs", checkpoints, "--num-epoch-checkpoints", str(average),
            "--output", step.folder / "checkpoint.pt", log=log,
        )  # fmt: skip
    else:
        os.replace(checkpoints / "checkpoint_best.pt", step.folder / "checkpoint.pt")
    shutil.rmtree(checkpoints)

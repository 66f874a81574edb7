"""Trains a system."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from harness.commands import options, run
from harness.gpus import on_a_gpu
from harness.make import Step


def train(step: Step) -> None:
    """Writes ``train.log`` and ``checkpoint.pt``, the best or the mean of the last ones.

    If the recipe keeps epochs, their checkpoints stay as ``checkpoints/checkpointN.pt``.
    """
    checkpoints = step.folder / "checkpoints"
    if not (step.folder / "checkpoint.pt").exists():  # or it was stopped in what follows
        _train(step, checkpoints)
    if step.settings.get("keep_epochs"):
        for path in checkpoints.glob("checkpoint_*.pt"):
            path.unlink()
    else:
        shutil.rmtree(checkpoints, ignore_errors=True)


def _train(step: Step, checkpoints: Path) -> None:
    average = step.settings["average"]
    keep = ["--keep-last-epochs", str(average)] if average else ["--no-epoch-checkpoints"]
    if step.settings.get("keep_epochs"):
        keep = []
    log = step.folder / "train.log"
    with on_a_gpu():
        run(
            "fairseq-train", step.inputs["data"], "--task", "syntax_translation",
            "--source-lang", step.settings["source"], "--target-lang", step.settings["target"],
            *options(with_user_dir(step, step.settings["options"])), *keep,
            "--save-dir", checkpoints, "--log-format", "json", log=log, threads=step.threads,
        )  # fmt: skip
    if average:
        run(
            "fairseq-syntax-average-checkpoints", "--inputs", checkpoints, "--num-epoch-checkpoints", str(average),
            "--output", step.folder / "checkpoint.pt", log=log,
        )  # fmt: skip
    else:
        os.replace(checkpoints / "checkpoint_best.pt", step.folder / "checkpoint.pt")


def with_user_dir(step: Step, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Options of fairseq, with fairseq_syntax as ``user-dir``, or the system's own."""
    return {"user-dir": "fairseq_syntax", **settings, **step.places.get("options", {})}

"""Trainings of systems."""

from __future__ import annotations

import os
import shutil
import zipfile
from pathlib import Path

from syntax_experiments.fairseq_options import with_user_dir
from syntax_experiments.make import Step, on_a_gpu, options, run
from syntax_experiments.plan import code_hash
from syntax_experiments.texts import data_folder, task_options
from syntax_experiments.training_log import CODE


def train(step: Step) -> None:
    """Write ``train.log`` and ``checkpoint.pt``, the best or the last ones' mean.

    If the recipe keeps epochs, their checkpoints stay as ``checkpoints/checkpointN.pt``.
    """
    checkpoints, log = step.folder / "checkpoints", step.folder / "train.log"
    # Where it was stopped after a part, it goes on with the next.
    if not (step.folder / "checkpoint.pt").exists():
        if not _is_trained(log):
            _train(step, checkpoints, log)
        _choose(step, checkpoints, log)
    if step.settings["keep_epochs"]:
        for path in checkpoints.glob("checkpoint_*.pt"):
            path.unlink()
    else:
        shutil.rmtree(checkpoints, ignore_errors=True)


def _is_trained(log: Path) -> bool:
    """Return whether fairseq-train has ended; again, it would do one update more."""
    return log.exists() and "| done training in " in log.read_text(encoding="utf-8", errors="replace")


def _train(step: Step, checkpoints: Path, log: Path) -> None:
    average = step.settings["average"]
    keep = ["--keep-last-epochs", str(average)] if average else ["--no-epoch-checkpoints"]
    if step.settings["keep_epochs"]:
        keep = []
    pretrained = ["--finetune-from-model", step.local["pretrained"]] if "pretrained" in step.local else []
    _drop_broken(checkpoints)
    with open(log, "a", encoding="utf-8") as file:
        file.write(f"{CODE}{code_hash()}\n")
    with on_a_gpu():
        run(
            "fairseq-train", data_folder(step.inputs["data"], step.settings), *task_options(step.settings),
            *options(with_user_dir(step.settings["options"], step.local)), *pretrained, *keep,
            "--save-dir", checkpoints, "--log-format", "json", log=log, threads=step.threads,
        )  # fmt: skip


def _drop_broken(checkpoints: Path) -> None:
    """Replace a last checkpoint that a kill cut off by the newest whole one."""
    last = checkpoints / "checkpoint_last.pt"
    if last.exists() and not zipfile.is_zipfile(last):
        whole = [path for path in checkpoints.glob("checkpoint*.pt") if zipfile.is_zipfile(path)]
        newest = max(whole, key=lambda path: path.stat().st_mtime, default=None)
        print(f"{last} is cut off; going on from {newest or 'the beginning'}")
        last.unlink()
        if newest is not None:
            shutil.copy(newest, last)


def _choose(step: Step, checkpoints: Path, log: Path) -> None:
    if average := step.settings["average"]:
        run(
            "fairseq-syntax-average-checkpoints", "--inputs", checkpoints, "--num-epoch-checkpoints", str(average),
            "--output", step.folder / "checkpoint.pt", *options(with_user_dir({}, step.local)), log=log,
        )  # fmt: skip
    else:
        os.replace(checkpoints / "checkpoint_best.pt", step.folder / "checkpoint.pt")

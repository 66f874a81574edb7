"""Trains a system."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from harness.commands import options, run
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


@contextmanager
def on_a_gpu() -> Iterator[None]:
    """Holds one of this machine's GPUs that no other job of this folder holds; where there is none, nothing."""
    gpus = _gpus()
    held = None
    while gpus and held is None:
        for gpu in gpus:
            lock = os.open(f".gpu-{gpu}.lock", os.O_RDWR | os.O_CREAT, 0o666)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(lock)
            else:
                held = lock
                os.environ["CUDA_VISIBLE_DEVICES"] = gpu
                break
        else:
            time.sleep(1)
    try:
        yield
    finally:
        if held is not None:
            os.close(held)


def _gpus() -> list[str]:
    """The GPUs that jobs may use, as CUDA_VISIBLE_DEVICES names them."""
    allowed = os.environ.get("CUDA_VISIBLE_DEVICES")
    if allowed is not None:
        return [gpu for gpu in allowed.split(",") if gpu not in ("", "-1")]
    count = "import torch; print(torch.cuda.device_count())"
    found = subprocess.run([sys.executable, "-c", count], capture_output=True, text=True, check=True).stdout
    return [str(i) for i in range(int(found))]

"""One GPU a job."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress

from syntax_experiments.locks import held


@contextmanager
def on_a_gpu() -> Iterator[None]:
    """Inside the block, commands see one GPU that no other job of this folder has; none, where there is none.

    Jobs beyond the number of GPUs wait: ``--resources gpu=N`` keeps Snakemake from starting them.
    """
    gpus = visible_gpus()
    if not gpus or "SLURM_JOB_ID" in os.environ:  # which gives each job its own
        yield
        return
    with ExitStack() as stack:
        while (mine := _first_free(gpus, stack)) is None:
            time.sleep(1)
        before = dict(os.environ)
        os.environ["CUDA_VISIBLE_DEVICES"] = mine
        try:
            yield
        finally:
            os.environ.clear()
            os.environ.update(before)


def _first_free(gpus: Sequence[str], stack: ExitStack) -> str | None:
    for gpu in gpus:
        with suppress(ValueError):
            stack.enter_context(held(f".gpu-{platform.node()}-{gpu}.lock", busy=gpu, wait=False))
            return gpu
    return None


def visible_gpus() -> list[str]:
    """The GPUs that jobs may use, as CUDA_VISIBLE_DEVICES names them."""
    allowed = os.environ.get("CUDA_VISIBLE_DEVICES")
    if allowed is not None:
        return [gpu for gpu in allowed.split(",") if gpu not in ("", "-1")]
    if shutil.which("nvidia-smi") is None:
        return []
    listed = subprocess.run(["nvidia-smi", "--list-gpus"], capture_output=True, text=True).stdout.splitlines()
    return [str(i) for i in range(len(listed))]

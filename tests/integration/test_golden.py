"""What version 0.1.0 wrote, this version reads: a data-bin and two checkpoints give the same as they gave then.

tests/data/golden/make.py made them. A dropout other than fairseq's own draws other numbers in training, so the further
updates are those of ``--dropout 0``.
"""

from __future__ import annotations

import filecmp
import json
import lzma
import shutil
import subprocess
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from fairseq import checkpoint_utils, tasks
from fairseq.logging import metrics
from fairseq.trainer import Trainer

import commands
from places import GOLDEN

#: The last one has an architecture's defaults, which may change, and no optimizer's state.
CHECKPOINTS = ["slr_sdoi", "slr_batch", "named"]


def results(checkpoint: Path) -> dict[str, Any]:
    """What expected.json has of a checkpoint."""
    found = {"hypotheses": hypotheses(checkpoint), "gates": gates(checkpoint)}
    return found if checkpoint.stem == "named" else {**found, "losses": losses(checkpoint)}


def unpacked(name: str, folder: Path) -> Path:
    """A checkpoint, as fairseq reads it."""
    path = folder / f"{name}.pt"
    path.write_bytes(lzma.decompress((GOLDEN / f"{name}.pt.xz").read_bytes()))
    return path


def hypotheses(checkpoint: Path) -> dict[str, list[Any]]:
    """Score and text of the test set's hypotheses, by number."""
    found = commands.generate_scored(GOLDEN / "data-bin", checkpoint)
    return {str(number): [score, text] for number, (score, text) in sorted(found.items())}


def gates(checkpoint: Path) -> dict[str, list[Any]]:
    """Of each sentence of the test set: layers × masks × heads."""
    with tempfile.TemporaryDirectory() as folder:
        output = f"{folder}/gates.npz"
        subprocess.run(
            [
                "fairseq-syntax-dump", GOLDEN / "data-bin", "--path", checkpoint, "--output", output, "--cpu",
                "--contents", "gates",
            ],
            check=True, capture_output=True,
        )  # fmt: skip
        with np.load(output) as file:
            return {name[: -len("/gates")]: file[name].tolist() for name in file if name.endswith("/gates")}


def losses(checkpoint: Path, updates: int = 10) -> list[float]:
    """The training goes on, by the optimizer's state and the batches that the checkpoint has, without dropout.

    In float64: Adam makes whole steps of gradients that are 0 but for rounding, in which CPUs, numbers of threads and
    ways to compute attention differ.
    """
    cfg = checkpoint_utils.load_checkpoint_to_cpu(str(checkpoint))["cfg"]
    cfg.task.data = str(GOLDEN / "data-bin")
    cfg.checkpoint.restore_file = str(checkpoint)
    for name in [name for name in vars(cfg.model) if name.endswith("dropout") and name != "cpu_dropout"]:
        setattr(cfg.model, name, 0.0)
    cfg.optimization.clip_norm = cfg.optimization.clip_norm or torch.inf  # which 0 stands for
    task = tasks.setup_task(cfg.task)
    model = task.build_model(cfg.model).double()
    trainer = Trainer(cfg, task, model, task.build_criterion(cfg.criterion))
    trainer.clip_grad_norm = partial(torch.nn.utils.clip_grad_norm_, [*model.parameters()])  # fairseq's is of float32
    found = []
    metrics.reset()
    _, iterator = checkpoint_utils.load_checkpoint(cfg.checkpoint, trainer)
    while len(found) < updates:
        trainer.begin_epoch(iterator.epoch)
        for sample in iterator.next_epoch_itr(fix_batches_to_gpus=False, shuffle=True):
            with metrics.aggregate(new_root=True) as meters:
                trainer.train_step([sample])
            found.append(float(meters["loss"].avg))
    return found[:updates]


@pytest.fixture(scope="module")
def expected() -> dict[str, Any]:
    return json.loads((GOLDEN / "expected.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="module", params=CHECKPOINTS)
def name(request) -> str:
    return request.param


@pytest.fixture(scope="module")
def checkpoint(name, tmp_path_factory) -> Path:
    return unpacked(name, tmp_path_factory.mktemp("golden"))


def test_translates_as_it_did(expected, name, checkpoint):
    found = hypotheses(checkpoint)
    assert {n: text for n, (_, text) in found.items()} == {
        n: text for n, (_, text) in expected[name]["hypotheses"].items()
    }
    for number, (score, _) in found.items():
        assert score == pytest.approx(expected[name]["hypotheses"][number][0], abs=1e-5)


def test_gates_are_what_they_were(expected, name, checkpoint):
    found = gates(checkpoint)
    assert found.keys() == expected[name]["gates"].keys()
    for number, weights in found.items():
        torch.testing.assert_close(
            torch.tensor(weights), torch.tensor(expected[name]["gates"][number]), atol=1e-5, rtol=0
        )


def test_training_goes_on_as_it_did(expected, name, checkpoint):
    if name == "named":
        pytest.skip("has no optimizer's state")
    found, before = losses(checkpoint), expected[name]["losses"]
    assert found[:2] == pytest.approx(before[:2], abs=1e-5)
    # Of float32, in whose rounding CPUs differ.
    assert found == pytest.approx(before, rel=1e-3)


def test_binarizes_as_it_did(tmp_path):
    """Features, labels and what the signature says of text and parses."""
    for path in (GOLDEN / "data-bin").iterdir():
        if path.name.startswith("dict.") or len(path.name.split(".")) == 4:  # train.de-en.de.bin
            shutil.copy(path, tmp_path)
    prefixes = [f"--{name}pref=text/{name}.bpe" for name in ("train", "valid", "test")]
    parses = [f"--{name}parse=text/{name}" for name in ("train", "valid", "test")]
    subprocess.run(
        ["fairseq-syntax-binarize", "-s", "de", "-t", "en", *prefixes, *parses, "--destdir", tmp_path],
        check=True, capture_output=True, cwd=GOLDEN,
    )  # fmt: skip
    names = sorted(path.name for path in (GOLDEN / "data-bin").iterdir())
    binary = [name for name in names if name.endswith((".bin", ".idx"))]
    assert len(binary) > 3 * 7 * 2
    _, mismatch, errors = filecmp.cmpfiles(GOLDEN / "data-bin", tmp_path, binary, shallow=False)
    assert (mismatch, errors) == ([], [])

"""Files that version 0.1.0 wrote, read by this version: a data-bin and checkpoints give the same as they gave then.

tests/data/golden/make.py wrote them.
"""

from __future__ import annotations

import filecmp
import json
import lzma
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
from fairseq_syntax.commands import dump
from places import GOLDEN

#: The last one has the defaults of an architecture, and no optimizer's state.
CHECKPOINTS = ["slr_sdoi", "slr_batch", "named"]


def unpacked(name: str, folder: Path) -> Path:
    """A checkpoint, as fairseq reads it."""
    path = folder / f"{name}.pt"
    path.write_bytes(lzma.decompress((GOLDEN / f"{name}.pt.xz").read_bytes()))
    return path


def results(checkpoint: Path) -> dict[str, Any]:
    """The numbers of a checkpoint in expected.json."""
    hypotheses = commands.generate_scored(GOLDEN / "data-bin", checkpoint)
    found = {"hypotheses": [hypotheses[number] for number in sorted(hypotheses)], "gates": gates(checkpoint)}
    return found if checkpoint.stem == "named" else {**found, "losses": losses(checkpoint)}


def gates(checkpoint: Path) -> list[Any]:
    """The gates of the first sentence of the test set: layers × masks × heads."""
    with tempfile.TemporaryDirectory() as folder:
        output = f"{folder}/gates.npz"
        options = ["--path", str(checkpoint), "--output", output, "--cpu", "--contents", "gates"]
        dump.main([str(GOLDEN / "data-bin"), *options])
        with np.load(output) as file:
            return file["0/gates"].tolist()


def losses(checkpoint: Path, updates: int = 10) -> list[float]:
    """The losses of a training that goes on from a checkpoint, with its batches and optimizer's state, without dropout.

    In float64: Adam makes whole steps of gradients that are 0 but for rounding, in which CPUs, numbers of threads and
    implementations of attention differ.
    """
    cfg = checkpoint_utils.load_checkpoint_to_cpu(str(checkpoint))["cfg"]
    cfg.task.data = str(GOLDEN / "data-bin")
    cfg.checkpoint.restore_file = str(checkpoint)
    for name in [name for name in vars(cfg.model) if name.endswith("dropout")]:
        setattr(cfg.model, name, 0.0)
    cfg.optimization.clip_norm = cfg.optimization.clip_norm or torch.inf  # which 0 stands for
    task = tasks.setup_task(cfg.task)
    model = task.build_model(cfg.model).double()
    trainer = Trainer(cfg, task, model, task.build_criterion(cfg.criterion))
    trainer.clip_grad_norm = partial(torch.nn.utils.clip_grad_norm_, [*model.parameters()])  # fairseq's is of float32
    found: list[float] = []
    metrics.reset()
    _, iterator = checkpoint_utils.load_checkpoint(cfg.checkpoint, trainer)
    while len(found) < updates:
        trainer.begin_epoch(iterator.epoch)
        for sample in iterator.next_epoch_itr(fix_batches_to_gpus=False, shuffle=True):
            with metrics.aggregate(new_root=True) as meters:
                trainer.train_step([sample])
            found.append(float(meters["loss"].avg))
    return found[:updates]


@pytest.mark.parametrize("name", CHECKPOINTS)
def test_a_checkpoint_translates_and_trains_on(name, tmp_path):
    expected = json.loads((GOLDEN / "expected.json").read_text(encoding="utf-8"))[name]
    found = results(unpacked(name, tmp_path))
    assert [text for _, text in found["hypotheses"]] == [text for _, text in expected["hypotheses"]]
    scores, before = ([score for score, _ in some["hypotheses"]] for some in (found, expected))
    assert scores == pytest.approx(before, abs=1e-5)
    torch.testing.assert_close(torch.tensor(found["gates"]), torch.tensor(expected["gates"]), atol=1e-5, rtol=0)
    if name != "named":
        assert found["losses"][:2] == pytest.approx(expected["losses"][:2], abs=1e-5)
        assert found["losses"] == pytest.approx(expected["losses"], rel=1e-3)  # of float32: CPUs differ in rounding


def binarize(folder: Path) -> None:
    """Write the data-bin of the text in tests/data/golden."""
    prefixes = ["-s", "de", "-t", "en", "--destdir", str(folder)]
    prefixes += [f"--{name}pref={GOLDEN}/text/{name}.bpe" for name in ("train", "valid", "test")]
    commands.preprocess_tokens(*prefixes)
    commands.binarize_parses(*prefixes, *(f"--{name}parse={GOLDEN}/text/{name}" for name in ("train", "valid", "test")))


def test_binarizes_as_it_did(tmp_path):
    binarize(tmp_path)
    names = [path.name for path in (GOLDEN / "data-bin").iterdir() if path.name.endswith((".bin", ".idx", ".txt"))]
    assert len(names) > 3 * 7 * 2
    _, mismatch, errors = filecmp.cmpfiles(GOLDEN / "data-bin", tmp_path, names, shallow=False)
    assert (mismatch, errors) == ([], [])

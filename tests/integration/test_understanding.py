"""Every task but translation, through fairseq's commands: it learns, resumes, is averaged, and trains in float16."""

from __future__ import annotations

import shutil
from pathlib import Path
from random import Random

import numpy as np
import pytest
import torch
from fairseq.logging import metrics
from torch.nn.modules.module import register_module_forward_hook

import commands
import data_bins
import example_bins
from fairseq_syntax.commands import average_checkpoints, dump
from fairseq_syntax.encoder.encoder import SyntaxTransformerEncoder
from syntax_data.errors import InputError
from tiers import others_nightly

SIZES = [
    "--encoder-layers=2", "--encoder-embed-dim=32", "--encoder-ffn-embed-dim=32", "--encoder-attention-heads=4",
    "--dropout=0.1", "--attention-dropout=0",
]  # fmt: skip
PAIRS = ["--init-token=0", "--separator-token=2", "--max-positions=64"]
PREDICTION = ["--task=syntax_sentence_prediction", "--criterion=sentence_prediction", *PAIRS]
#: For each way to train, its data, and the options of task, criterion and model.
WAYS = {
    "classes": ("pairs", [*PREDICTION, "--num-classes=2", "--arch=seprem_roberta"]),
    "a number": ("pairs", [*PREDICTION, "--num-classes=1", "--regression-target", "--arch=pos_roberta"]),
    "sets of labels": (
        "pairs", [*PREDICTION, "--num-classes=2", "--criterion=multi_label_prediction", "--arch=sg_net_roberta"],
    ),
    "options": (
        "choices",
        ["--task=syntax_sentence_ranking", "--criterion=sentence_ranking", *PAIRS, "--num-classes=3",
         "--context-first", "--truncate-to=16", "--arch=gated_syntax_roberta"],
    ),
    "masked lines": (
        "news",
        ["--task=syntax_masked_lm", "--criterion=masked_lm", "--sample-break-mode=eos", "--tokens-per-sample=32",
         "--mask-prob=0.3", "--arch=tree_bias_roberta"],
    ),
    "masked blocks": (
        "news",
        ["--task=syntax_masked_lm", "--criterion=masked_lm_with_syntax", "--sample-break-mode=complete",
         "--tokens-per-sample=32", "--arch=seprem_roberta", "--distance-prediction", "--parent-prediction"],
    ),
    "stock": ("pairs", [*PREDICTION, "--num-classes=2", "--arch=roberta"]),
}  # fmt: skip
#: Classification, and losses of the syntax; the others run nightly.
ORDINARY = {"classes", "masked blocks"}


@pytest.fixture(scope="module")
def folders(tmp_path_factory) -> Path:
    """Data of each kind, of which the validation set is part of the training set."""
    folder = tmp_path_factory.mktemp("understanding")
    example_bins.examples(folder / "pairs", number=40)
    example_bins.examples(folder / "choices", 4, number=40)
    lines = data_bins.sentences(80, words=None)
    example_bins.text(folder / "news", {"train": lines, "valid": lines[:40]})
    for split in ("train", "valid"):
        path = folder / f"pairs/label/{split}.label"
        path.write_text("".join(f"{Random(i).random()}\n" for i in range(40)))
    return folder


def train(data: Path, to: Path, way: str, *more: str, cpu: bool = True):
    options = [*SIZES, *WAYS[way][1], "--lr=0.003", *more]
    return commands.train(data / WAYS[way][0], to, *options, model=[], cpu=cpu)


@pytest.mark.parametrize("way", others_nightly(WAYS, ORDINARY))
def test_learns_resumes_and_is_averaged(folders, tmp_path, way):
    whole = train(folders, tmp_path / "whole", way, "--max-epoch=4")
    gates = {k: v for k, v in metrics.get_smoothed_values("valid").items() if k.startswith("gate_")}
    assert len(gates) == (2 if "gated_syntax" in WAYS[way][1][-1] else 0)
    assert all(0 < mean < 1 for mean in gates.values())
    losses = [
        torch.load(tmp_path / f"whole/checkpoint{n}.pt", weights_only=True)["extra_state"]["val_loss"] for n in (1, 4)
    ]
    assert losses[1] < losses[0]
    train(folders, tmp_path / "parts", way, "--max-epoch=2")
    resumed = train(folders, tmp_path / "parts", way, "--max-epoch=4")
    for name, weight in whole.get_model().state_dict().items():
        assert torch.equal(weight, resumed.get_model().state_dict()[name]), name
    average_checkpoints.main(
        ["--inputs", str(tmp_path / "whole"), "--num-epoch-checkpoints=2", f"--output={tmp_path}/average.pt"]
    )
    if way != "stock":
        names = ["--gen-subset=valid", "--contents=attention", f"--output={tmp_path}/dump.npz", "--cpu"]
        dump.main([str(folders / WAYS[way][0]), f"--path={tmp_path}/average.pt", *names])
        dumped = {int(name.split("/")[0]) for name in np.load(tmp_path / "dump.npz").files if "/tokens" in name}
        assert dumped == set(range(len(dumped))) != set()
        assert way.startswith("masked") or len(dumped) == (120 if way == "options" else 40)
    metrics.reset()
    options = [option for option in WAYS[way][1] if option.startswith(("--task", "--criterion"))]
    commands.validate(folders / WAYS[way][0], tmp_path / "average.pt", *options)


@pytest.mark.parametrize("way", others_nightly(["classes", "a number", "options"], {"a number"}))
def test_labels_are_needed_to_train_and_validate(folders, tmp_path, way):
    data = tmp_path / "data"
    shutil.copytree(folders / WAYS[way][0], data / WAYS[way][0], symlinks=True)
    for path in (data / WAYS[way][0] / "label").glob("valid.*"):
        path.unlink()
    message = r"label: expected labels for training and validation, found none in valid"
    with pytest.raises(InputError, match=message):
        train(data, tmp_path, way, "--max-epoch=1")
    train(folders, tmp_path, way, "--max-update=1")
    options = [option for option in WAYS[way][1] if option.startswith(("--task", "--criterion"))]
    with pytest.raises(InputError, match=message):
        commands.validate(data / WAYS[way][0], tmp_path / "checkpoint_last.pt", *options)


@pytest.mark.parametrize("way", others_nightly(["classes", "options", "masked blocks"], {"options"}))
def test_trains_in_half_precision(folders, tmp_path, way, half_precision):
    computed = set()

    def record(module, _, output):
        if isinstance(module, SyntaxTransformerEncoder) and module.training:
            computed.add(output["encoder_out"][0].dtype)

    with register_module_forward_hook(record):
        trainer = train(folders, tmp_path, way, "--amp", "--max-epoch=1", cpu=not half_precision)
    assert trainer.get_num_updates() > 1
    assert all(weight.isfinite().all() for weight in trainer.get_model().state_dict().values())
    assert computed


def test_a_training_does_not_go_on_with_labels_in_another_order(folders, tmp_path, caplog):
    data = tmp_path / "data"
    shutil.copytree(folders / "pairs", data / "pairs", symlinks=True)
    train(data, tmp_path, "classes", "--max-epoch=1")
    (data / "pairs/label/dict.txt").write_text("yes 1\nno 1\n")
    message = r"checkpoint_last\.pt: label/dict\.txt: expected no yes, .*, found yes no"
    with pytest.raises(InputError, match=message):
        train(data, tmp_path, "classes", "--max-epoch=2")
    train(data, tmp_path / "other", "classes", "--max-epoch=1", f"--finetune-from-model={tmp_path}/checkpoint_last.pt")
    assert "label/dict.txt is yes no here, and was no yes when these weights were trained" in caplog.text
    paths = [f"{tmp_path}/checkpoint_last.pt", f"{tmp_path}/other/checkpoint_last.pt"]
    with pytest.raises(InputError, match=r"label/dict\.txt: expected no yes as in .*, found yes no"):
        average_checkpoints.average(paths)
    with pytest.raises(FileNotFoundError, match="--restore-file: expected a checkpoint, found no file"):
        train(data, tmp_path / "new", "classes", f"--restore-file={tmp_path}/roberta.pt")

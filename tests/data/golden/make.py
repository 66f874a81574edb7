"""Write what lies beside it with this version: what test_golden.py holds that later versions read.

    python tests/data/golden/make.py            the data-bin from text/ again, and the options that checkpoints record
    python tests/data/golden/make.py --train    checkpoints and expected.json too

From German and English text with its parses (text/, in which line 3 of each set has no parse, line 5 two sentences): a
data-bin, three checkpoints after some updates, and expected.json: their hypotheses with scores, gates, and losses of
ten further updates. Without --train, for a format that changes before a release, the numbers must stay equal:
test_golden.py runs at the end.
"""

from __future__ import annotations

import json
import lzma
import os
import shutil
import subprocess
import sys
import tempfile
from argparse import Namespace
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parents[2]))
sys.path.append(str(Path(__file__).resolve().parents[2] / "integration"))

import test_golden
import torch
from fairseq import checkpoint_utils
from omegaconf import OmegaConf

here = Path(__file__).resolve().parent


def make_data_bin() -> None:
    shutil.rmtree(here / "data-bin", ignore_errors=True)
    test_golden.binarize(here / "data-bin")
    for path in [here / "data-bin/preprocess.log", *(here / "data-bin").glob(".*.lock")]:
        path.unlink()


def pack(name: str, path: Path) -> None:
    (here / f"{name}.pt.xz").write_bytes(lzma.compress(path.read_bytes(), preset=9))


def train() -> None:
    """Write the data-bin, the checkpoints, and expected.json, by relative paths."""
    os.chdir(here)
    make_data_bin()
    for name, options in {
        "slr_sdoi": ["--syntax-masks=slr,sdoi"],
        "slr_batch": ["--syntax-masks=slr", "--gate-batch-norm-statistics=batch"],
        "named": [
            "--arch=gated_syntax_transformer_iwslt_de_en", "--encoder-layers=2", "--gate-warmup-epochs=10",
            "--no-save-optimizer-state",
        ],
    }.items():  # fmt: skip
        command = [
            "fairseq-train", "data-bin", "--user-dir=fairseq_syntax", "--task=syntax_translation",
            "--arch=gated_syntax_transformer_tiny", *options, "--encoder-embed-dim=8", "--decoder-embed-dim=8",
            "--encoder-ffn-embed-dim=16", "--decoder-ffn-embed-dim=16", "--encoder-attention-heads=2",
            "--decoder-attention-heads=2", "--decoder-layers=1", "--share-decoder-input-output-embed",
            "--dropout=0.1", "--syntax-dropout=0.1", "--optimizer=adam", "--lr=0.01",
            "--criterion=label_smoothed_cross_entropy", "--label-smoothing=0.1", "--batch-size=12", "--cpu",
            "--num-workers=0", "--seed=4", "--max-update=600", "--save-dir=run", "--no-epoch-checkpoints",
            "--no-progress-bar", "--log-format=none",
        ]  # fmt: skip
        subprocess.run(command, check=True, env={**os.environ, "OMP_NUM_THREADS": "1"})
        pack(name, Path("run/checkpoint_last.pt"))
        shutil.rmtree("run")
    with tempfile.TemporaryDirectory() as folder:
        found = {n: test_golden.results(test_golden.unpacked(n, Path(folder))) for n in test_golden.CHECKPOINTS}
    lines = (f"{json.dumps(name)}: {json.dumps(of, ensure_ascii=False)}" for name, of in found.items())
    (here / "expected.json").write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


def plain(options: dict[str, Any]) -> dict[str, Any]:
    """Options with strings for fairseq's enumerations, and without the folder of the data."""
    kinds = (type(None), bool, int, float, str, list)
    return {name: v if type(v) in kinds else str(v) for name, v in options.items() if name != "data"}


def record_again() -> None:
    """Write the options of the checkpoints as this version records them; weights and the optimizer's state stay."""
    for name in test_golden.CHECKPOINTS:
        with tempfile.TemporaryDirectory() as folder:
            path = test_golden.unpacked(name, Path(folder))
            state = torch.load(path, weights_only=True)
            data = {"data": str(here / "data-bin")}
            (model,), _, task = checkpoint_utils.load_model_ensemble_and_task([str(path)], data)
            state["cfg"]["model"] = Namespace(**plain(vars(model.args)), data="data-bin")
            state["cfg"]["task"] = {**plain(OmegaConf.to_container(task.cfg)), "data": "data-bin"}
            torch.save(state, path)
            pack(name, path)


if __name__ == "__main__":
    if sys.argv[1:] == ["--train"]:
        train()
    else:
        make_data_bin()
        record_again()
    pytest = Path(sys.executable).with_name("pytest")
    subprocess.run([pytest, "-q", "tests/integration/test_golden.py"], cwd=here.parents[2], check=True)

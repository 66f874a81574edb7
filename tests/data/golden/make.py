"""Write what lies beside it with this version: what test_golden.py holds that later versions read.

    python tests/data/golden/make.py            the data-bin from text/ again, and the options that checkpoints record
    python tests/data/golden/make.py --train    everything, checkpoints and expected.json too

Text with its parses (text/), a data-bin, three checkpoints after some updates, and expected.json: their hypotheses with
scores, gates, and the losses of ten further updates. Without --train, for a format that changes before a release, the
numbers must stay equal: test_golden.py runs at the end.
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
from random import Random
from typing import Any

sys.path.append(str(Path(__file__).resolve().parents[2]))
sys.path.append(str(Path(__file__).resolve().parents[2] / "integration"))

import test_golden
import torch
from fairseq import checkpoint_utils
from omegaconf import OmegaConf

here = Path(__file__).resolve().parent
SIZES = {"train": 48, "valid": 6, "test": 8}
NOUNS = {"Hund": "dog", "Vogel": "bird", "Lehrer": "teacher", "Bauer": "farmer", "Garten": "garden", "Wald": "forest"}
VERBS = {"sieht": "sees", "findet": "finds", "ruft": "calls"}


def sentence(random: Random) -> tuple[list[str], list[tuple[str, int]], str, str]:
    """German tokens; words with their heads (numbered from 1 in the sentence); a tree over the tokens; English."""
    subject, other, place = random.sample(sorted(NOUNS), 3)
    verb = random.choice(sorted(VERBS))
    tokens = ["der", subject, verb, "den", other, "im", place]
    of_noun = random.random() < 0.5  # where "im" attaches
    words = [("der", 2), (subject, 3), (verb, 0), ("den", 5), (other, 3)]
    words += [("in", 8), ("dem", 8), (place, 5 if of_noun else 3)]
    inside = f"(PP im (NN {place}))"
    subject_tree, object_tree = f"(NP (D der) (NN {subject}))", f"(NP (D den) (NN {other}))"
    tree = (
        f"(S {subject_tree} (VP (V {verb}) (NP {object_tree} {inside})))"
        if of_noun
        else f"(S {subject_tree} (VP (V {verb}) {object_tree} {inside}))"
    )
    english = f"the {NOUNS[subject]} {VERBS[verb]} the {NOUNS[other]} " + ("of" if of_noun else "in")
    return tokens, words, tree, f"{english} the {NOUNS[place]}"


def block(sentences: list[tuple[list[str], list[tuple[str, int]], str, str]]) -> str:
    """CoNLL-U of a line: `im` is one token of two words."""
    rows = [f"# sentences = {len(sentences)}\n"] if len(sentences) > 1 else []
    before = 0
    for _, words, _, _ in sentences:
        for number, (word, head) in enumerate(words, start=1):
            if word == "in":
                rows.append(f"{before + number}-{before + number + 1}\tim" + "\t_" * 8 + "\n")
            kind = {"der": "DET", "den": "DET", "dem": "DET", "in": "ADP"}.get(
                word, "NOUN" if word in NOUNS else "VERB"
            )
            relation = "root" if not head else kind.lower()
            above = before + head if head else 0
            rows.append(f"{before + number}\t{word}\t_\t{kind}\t_\t_\t{above}\t{relation}\t_\t_\n")
        before += len(words)
    return "".join(rows) + "\n"


def write_text() -> None:
    """Line 3 of each set has no parse, line 5 two sentences."""
    random = Random(12)
    for name, size in SIZES.items():
        files: dict[str, list[str]] = {"de": [], "en": [], "de.trees": [], "de.conllu": []}
        for line in range(1, size + 1):
            sentences = [sentence(random) for _ in range(2 if line == 5 else 1)]
            files["de"].append(" ".join(token for tokens, *_ in sentences for token in tokens) + "\n")
            files["en"].append(" ".join(english for *_, english in sentences) + "\n")
            parsed = line != 3
            files["de.trees"].append(" ".join(tree for *_, tree, _ in sentences) + "\n" if parsed else "(()) failed\n")
            files["de.conllu"].append(block(sentences) if parsed else "# no_parse = failed\n\n")
        for suffix, lines in files.items():
            (here / "text" / f"{name}.{suffix}").write_text("".join(lines), encoding="utf-8")
    for lang in ("de", "en"):
        with open(here / f"text/train.{lang}") as text, open(here / f"text/codes.{lang}", "w") as codes:
            subprocess.run(["subword-nmt", "learn-bpe", "-s", "40"], stdin=text, stdout=codes, check=True)
        for name in SIZES:
            with open(here / f"text/{name}.{lang}") as text, open(here / f"text/{name}.bpe.{lang}", "w") as out:
                subprocess.run(["subword-nmt", "apply-bpe", "-c", here / f"text/codes.{lang}"], stdin=text, stdout=out)


def make_data_bin() -> None:
    shutil.rmtree(here / "data-bin", ignore_errors=True)
    test_golden.binarize(here / "data-bin")
    for path in [here / "data-bin/preprocess.log", *(here / "data-bin").glob(".*.lock")]:
        path.unlink()


def pack(name: str, path: Path) -> None:
    (here / f"{name}.pt.xz").write_bytes(lzma.compress(path.read_bytes(), preset=9))


def train() -> None:
    """Write text/, the data-bin, the checkpoints, and expected.json, by relative paths."""
    (here / "text").mkdir(exist_ok=True)
    os.chdir(here)
    write_text()
    make_data_bin()
    for name, options in {
        "slr_sdoi": ["--syntax-masks=slr,sdoi"],
        "slr_batch": ["--syntax-masks=slr", "--gate-batch-norm-statistics=batch"],
        "named": [
            "--arch=gated_syntax_transformer_iwslt_de_en",
            "--encoder-layers=2",
            "--gate-warmup-epochs=10",
            "--no-save-optimizer-state",
        ],
    }.items():
        subprocess.run(
            [
                "fairseq-train", "data-bin", "--user-dir=fairseq_syntax", "--task=syntax_translation",
                "--arch=gated_syntax_transformer_tiny", *options, "--encoder-embed-dim=8", "--decoder-embed-dim=8",
                "--encoder-ffn-embed-dim=16", "--decoder-ffn-embed-dim=16", "--encoder-attention-heads=2",
                "--decoder-attention-heads=2", "--decoder-layers=1", "--share-decoder-input-output-embed",
                "--dropout=0.1", "--syntax-dropout=0.1", "--optimizer=adam", "--lr=0.01",
                "--criterion=label_smoothed_cross_entropy", "--label-smoothing=0.1", "--batch-size=12", "--cpu",
                "--num-workers=0", "--seed=4", "--max-update=600", "--save-dir=run", "--no-epoch-checkpoints",
                "--no-progress-bar", "--log-format=none",
            ],
            check=True,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )  # fmt: skip
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

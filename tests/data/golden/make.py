"""Made what lies beside it, once, with version 0.1.0: what test_golden.py promises that later versions read.

    python tests/data/golden/make.py

Text with its parses (text/), a data-bin, two checkpoints after some updates, and expected.json: their hypotheses with
scores, gates, and the losses of ten further updates. Run it again only for what is new, never to make a test pass.
"""

from __future__ import annotations

import json
import lzma
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from random import Random

here = Path(__file__).resolve().parent
sys.path.insert(0, str(here.parents[1]))
sys.path.insert(0, str(here.parents[1] / "integration"))

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


def make() -> None:
    """Everything; paths are relative, so that no file knows where it was made."""
    (here / "text").mkdir(exist_ok=True)
    os.chdir(here)
    write_text()
    prefixes = ["-s", "de", "-t", "en", "--destdir", "data-bin"]
    prefixes += [f"--{name}pref=text/{name}.bpe" for name in SIZES]
    subprocess.run(["fairseq-preprocess", *prefixes], check=True)
    parses = [f"--{name}parse=text/{name}" for name in SIZES]
    subprocess.run(["fairseq-syntax-binarize", *prefixes, *parses], check=True)
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
        (here / f"{name}.pt.xz").write_bytes(lzma.compress(Path("run/checkpoint_last.pt").read_bytes(), preset=9))
        shutil.rmtree("run")
    for path in [Path("data-bin/preprocess.log"), *Path("data-bin").glob(".*.lock")]:
        path.unlink()
    import test_golden

    expected = {}
    for name in test_golden.CHECKPOINTS:
        with tempfile.TemporaryDirectory() as folder:
            expected[name] = test_golden.results(test_golden.unpacked(name, Path(folder)))
    (here / "expected.json").write_text(json.dumps(expected, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    make()

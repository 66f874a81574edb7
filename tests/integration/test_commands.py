"""The installed commands and packages, as a user has them."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path
from types import SimpleNamespace

import fairseq_cli.train
import pytest

import commands
import example_bins
import fairseq_syntax
from fairseq_syntax.encoder.encoder_options import encoder_options
from forked import Forked
from places import EXPERIMENTS, ROOT
from shell import run_command
from tiers import others_nightly

HELP = [
    "--user-dir", "fairseq_syntax", "--task", "syntax_translation", "--arch", "gated_syntax_transformer", "--help",
]  # fmt: skip
OURS = sorted(name for name in entry_points(group="console_scripts").names if name.startswith("fairseq-syntax-"))


def test_the_package_under_test_is_the_installed_one():
    assert "site-packages" in fairseq_syntax.__file__


def test_help_lists_our_options(tmp_path):
    """In a checkout, and elsewhere after an import instead of --user-dir's."""

    def after_an_import() -> None:
        sys.argv = ["fairseq-train", *HELP]
        fairseq_cli.train.cli_main()

    process = Forked(after_an_import, tmp_path / "help")  # the tests are elsewhere
    assert process.end() == 0
    for printed in (run_command("fairseq-train", *HELP, cwd=ROOT), process.said):
        assert {option.flag for option in encoder_options()} < set(printed.replace(",", " ").split())


def _words_of(command: str, trained: SimpleNamespace, corpus: Path, out: Path) -> list[object]:
    """Arguments by which a command writes files into the folder `out`."""
    if command == "predict":
        return _of_a_classifier(out)
    split = ["-s", "src", "-t", "tgt", f"--testpref={corpus}/bpe/test", f"--testparse={corpus}/test"]
    model = [trained.data, "--path", trained.checkpoint, "--cpu"]
    text, translations = corpus / "test.src", corpus / "test.tgt"
    qas = [{"id": "1", "question": "b", "answers": [], "is_impossible": True}]
    (out / "questions").write_text(json.dumps({"data": [{"paragraphs": [{"context": "a", "qas": qas}]}]}))
    words: dict[str, list[object]] = {
        "parse": ["--input", text, "--output-prefix", out / "x", "--parser=control", "--control=random", "--workers=2"],
        "binarize": [*split, "--destdir", out, "--workers=2"],
        "score": ["--hypotheses", corpus / "bpe/test.tgt", "--references", translations, "--output", out / "x"],
        "analyze": [
            "--output", out / "page", "--hypotheses", f"x={translations}", "--references", translations,
            "--source", text, "--parses", text,
        ],
        "dump": [*model, "--output", out / "x.npz"],
        "probe": [
            *model, "--output", out / "x.json", "--parses", trained.parses, "--gen-subset=test", "--tasks=depth",
            "--repeats=1", "--layers=2",
        ],
        "contrast": [
            *model, "--source", text, "--right", translations, "--wrong", text, "--parser=none", "--output", out / "x",
        ],
        "export": [out / "x", "--path", trained.checkpoint, "--data", trained.data, "--bpe-codes", trained.codes],
        "translate": [
            "--path", trained.checkpoint, "--data", trained.data, "--bpe=none", "--parser=none", "--cpu",
            "--input", text, "--output", out / "x",
        ],
        "average-checkpoints": ["--inputs", trained.checkpoint, "--output", out / "x.pt"],
        "experiment": ["quickstart", "-n", "--work", out],
        "squad": ["prepare", "--input", out / "questions", "--split=x", "--output-dir", out, "--bpe=none"],
    }  # fmt: skip
    return words[command]


def _of_a_classifier(out: Path) -> list[object]:
    """Arguments of fairseq-syntax-predict for a small model, which is trained in the folder `out`."""
    data = example_bins.examples(out / "examples")
    options = ["--task=syntax_sentence_prediction", "--criterion=sentence_prediction", "--num-classes=2"]
    model = ["--arch=roberta", "--encoder-layers=1", "--encoder-embed-dim=8", "--encoder-ffn-embed-dim=8"]
    model += ["--encoder-attention-heads=1", "--max-positions=32"]
    commands.train(data, out / "run", *options, "--max-update=1", model=model)
    checkpoint = out / "run/checkpoint_last.pt"
    return [data, "--path", checkpoint, "--gen-subset=valid", "--output", out / "x.tsv", "--cpu"]


ORDINARY = {"fairseq-syntax-parse", "fairseq-syntax-binarize", "fairseq-syntax-score", "fairseq-syntax-translate"}


@pytest.mark.parametrize("command", others_nightly(OURS, ORDINARY))
def test_commands_do_their_work_without_standard_streams(command, trained, corpus, tmp_path):
    """As under daemons, and the shell's <&- >&- 2>&-."""
    (entry,) = entry_points(group="console_scripts", name=command)
    main = entry.load()
    left = {}
    for name, closed in (("none", []), ("stderr", [2]), ("all", [0, 1, 2])):
        out = shutil.copytree(corpus / "plain-data-bin", tmp_path / name)
        tokens = set(out.rglob("*"))
        words = _words_of(command.removeprefix("fairseq-syntax-"), trained, corpus, out)

        def work(words=words, closed=closed):
            sys.argv = [command, *map(str, words)]
            for number in closed:
                os.close(number)
                setattr(sys, ("stdin", "stdout", "stderr")[number], None)
            main()

        process = Forked(work, tmp_path / f"{name}.log")
        assert process.end(60) == 0, process.said
        left[name] = {path.relative_to(out) for path in set(out.rglob("*")) - tokens}
    assert left["none"] == left["stderr"] == left["all"] != set()


PACKAGES = (ROOT / "fairseq_syntax", ROOT / "preprocess/syntax_data", EXPERIMENTS)


def files(folder: Path) -> set[Path]:
    found = (path.relative_to(folder) for path in folder.rglob("*") if path.is_file())
    return {path for path in found if "__pycache__" not in path.parts}


def test_a_distribution_has_every_file_of_the_packages(tmp_path):
    build = ["-q", "egg_info", "--egg-base", tmp_path, "build_py", "--build-lib", tmp_path / "lib"]
    subprocess.run([sys.executable, "setup.py", *build], cwd=ROOT, check=True, capture_output=True)
    for package in PACKAGES:
        assert files(tmp_path / "lib" / package.name) == files(package)
    assert len(list(tmp_path.glob("lib/*"))) == len(PACKAGES)

"""The installed commands, each in a process of its own, as a user runs them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import sacrebleu

import fairseq_syntax
from places import ROOT

OPTIONS = [
    "--syntax-masks", "--slr", "--slr-temperature", "--sdoi-subwords", "--syntax-combination", "--syntax-layers",
    "--syntax-heads", "--gate-hidden-dim", "--gate-batch-norm", "--no-gate-batch-norm", "--gate-batch-norm-statistics",
    "--gate-batch-norm-eps", "--gate-warmup-epochs", "--syntax-dropout", "--syntax-attention",
    "--gate-output-bias", "--cpu-dropout",
]  # fmt: skip
HELP = [
    "--user-dir", "fairseq_syntax", "--task", "syntax_translation", "--arch", "gated_syntax_transformer", "--help",
]  # fmt: skip


def run(*command: object, cwd: Path) -> str:
    done = subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def assert_lists_our_options(text: str) -> None:
    words = set(text.replace(",", " ").split())
    assert not [option for option in OPTIONS if option not in words]


def test_the_package_under_test_is_the_installed_one():
    assert "site-packages" in fairseq_syntax.__file__


def test_help_lists_our_options_from_any_folder(tmp_path):
    assert_lists_our_options(run("fairseq-train", *HELP, cwd=tmp_path))


def test_help_lists_our_options_in_a_checkout():
    assert_lists_our_options(run("fairseq-train", *HELP, cwd=ROOT))


@pytest.mark.parametrize("in_checkout", [True, False])
def test_help_lists_our_options_after_import(tmp_path, in_checkout):
    program = f"import fairseq_syntax, sys; sys.argv[1:] = {HELP}; from fairseq_cli.train import cli_main; cli_main()"
    cwd = ROOT if in_checkout else tmp_path
    assert_lists_our_options(run(sys.executable, "-c", program, cwd=cwd))


def test_from_text_to_score_in_four_commands(corpus, tmp_path):
    bpe = corpus / "bpe"
    languages = ["--source-lang", "src", "--target-lang", "tgt"]
    prefixes = [f"--{name}pref={bpe}/{name}" for name in ("train", "valid", "test")]
    parses = [f"--{name}parse={corpus}/{name}" for name in ("train", "valid", "test")]
    data = tmp_path / "data-bin"
    user = ["--user-dir", "fairseq_syntax", "--task", "syntax_translation"]
    run("fairseq-preprocess", *languages, *prefixes, "--destdir", data, "--workers", 2, cwd=tmp_path)
    run("fairseq-syntax-binarize", *languages, *prefixes, *parses, "--destdir", data, "--workers", 2, cwd=tmp_path)
    run(
        "fairseq-train", data, *user, "--arch", "gated_syntax_transformer_tiny", "--syntax-masks", "slr,sdoi",
        "--optimizer", "adam", "--lr", "0.005", "--max-tokens", "500", "--max-update", "5", "--cpu",
        cwd=tmp_path,
    )  # fmt: skip
    output = run(
        "fairseq-generate", data, *user, "--path", tmp_path / "checkpoints/checkpoint_best.pt", "--remove-bpe",
        "--cpu", "--max-len-b", "20", cwd=tmp_path,
    )  # fmt: skip
    hypotheses = sorted(
        (int(line[2:].split("\t")[0]), line.split("\t")[2]) for line in output.splitlines() if line.startswith("H-")
    )
    references = (corpus / "test.tgt").read_text().splitlines()
    assert [number for number, _ in hypotheses] == list(range(len(references)))
    assert "@@" not in " ".join(text for _, text in hypotheses)
    (tmp_path / "hypotheses").write_text("".join(f"{text}\n" for _, text in hypotheses))
    score = run("sacrebleu", corpus / "test.tgt", "-i", tmp_path / "hypotheses", "-b", cwd=tmp_path)
    expected = sacrebleu.corpus_bleu([text for _, text in hypotheses], [references]).score
    assert float(score) == pytest.approx(expected, abs=0.06)

"""The installed commands, each in a process of its own, as a user runs them."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path
from types import SimpleNamespace

import pytest
import sacrebleu

import fairseq_syntax
from forked import Forked
from places import ROOT

OPTIONS = [
    "--syntax-masks", "--slr", "--slr-temperature", "--sdoi-subwords", "--syntax-combination", "--syntax-layers",
    "--syntax-heads", "--gate-hidden-dim", "--gate-batch-norm", "--no-gate-batch-norm", "--gate-batch-norm-statistics",
    "--gate-batch-norm-eps", "--gate-warmup-epochs", "--syntax-dropout", "--syntax-attention-impl",
    "--gate-output-bias", "--cpu-dropout",
]  # fmt: skip
HELP = [
    "--user-dir", "fairseq_syntax", "--task", "syntax_translation", "--arch", "gated_syntax_transformer", "--help",
]  # fmt: skip
OURS = sorted(name for name in entry_points(group="console_scripts").names if name.startswith("fairseq-syntax-"))


def run(*command: object, cwd: Path) -> str:
    words = [str(part) for part in command]
    done = subprocess.run(words, cwd=cwd, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def test_the_package_under_test_is_the_installed_one():
    assert "site-packages" in fairseq_syntax.__file__


def test_help_lists_our_options(tmp_path):
    """In a checkout, and elsewhere after an import instead of --user-dir's."""
    program = f"import fairseq_syntax, sys; sys.argv[1:] = {HELP}; from fairseq_cli.train import cli_main; cli_main()"
    for command, cwd in (["fairseq-train", *HELP], ROOT), ([sys.executable, "-c", program], tmp_path):
        assert not set(OPTIONS).difference(run(*command, cwd=cwd).replace(",", " ").split())


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


def _words_of(command: str, trained: SimpleNamespace, corpus: Path, out: Path) -> list[object]:
    """Arguments by which a command writes files into the folder `out`."""
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
        "average-checkpoints": ["--inputs", trained.checkpoint, "--output", out / "x.pt"],
        "experiment": ["quickstart", "-n", "--work", out],
        "squad": ["prepare", "--input", out / "questions", "--split=x", "--output-dir", out, "--bpe=none"],
    }  # fmt: skip
    return words[command]


@pytest.mark.parametrize("command", OURS)
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

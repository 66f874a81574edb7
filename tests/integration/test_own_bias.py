"""A user's attention bias in a user's own --user-dir, by the commands."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest

import commands
from fairseq_syntax.modules.biases import bias_names
from forked import ForkedCommand
from places import EXAMPLES, EXPERIMENTS

USER_DIR = EXAMPLES / "own_bias/own_bias"
RUN = ["--user-dir", str(USER_DIR), "--task", "syntax_translation"]

#: The error without its --user-dir.
UNKNOWN_HERE = f"--syntax-masks: expected some of {','.join(bias_names())}, each once, found 'slr,neighbours'"


def run(*command: str, cwd: Path, expected: int = 0) -> str:
    """What a command of ours prints; only copies of this process import the bias."""
    with open(os.devnull) as nothing, open(cwd / "printed", "w") as out, contextlib.chdir(cwd):
        status = ForkedCommand(command, stdin=nothing, stdout=out, stderr=out, env={}, close_fds=True).wait()
    printed = (cwd / "printed").read_text()
    assert (status > 0) == expected, printed
    return printed


@pytest.fixture(scope="module")
def folder(data_bin, tmp_path_factory) -> Path:
    """A folder in which a model is trained, in ``run``."""
    folder = tmp_path_factory.mktemp("own")
    options = [
        *commands.TINY, "--syntax-masks", "neighbours,slr", "--neighbours-siblings", "--optimizer", "adam", "--lr",
        "0.01", "--criterion", "label_smoothed_cross_entropy", "--batch-size", "20", "--max-update", "8", "--cpu",
        "--num-workers", "0", "--save-dir", "run",
    ]  # fmt: skip
    assert "gate_neighbours_l1" in run("fairseq-train", str(data_bin), *RUN, *options, cwd=folder)
    shutil.copy(folder / "run/checkpoint_best.pt", folder / "run/checkpoint.pt")
    return folder


def test_a_bias_of_ones_own_trains_and_generates(data_bin, folder):
    lines = (USER_DIR / "__init__.py").read_text().split("\n@register_syntax_bias")[1].rstrip().splitlines()
    assert len(lines) <= 20
    generated = run(
        "fairseq-generate", str(data_bin), *RUN, "--path", "run/checkpoint_best.pt", "--cpu", "--batch-size", "9",
        cwd=folder,
    )  # fmt: skip
    assert generated.count("\nH-") == len((data_bin.parent / "bpe/test.src").read_text().splitlines())
    words = run("fairseq-train", *RUN, "--arch", "gated_syntax_transformer", "--help", cwd=folder).split()
    assert "--neighbours-siblings, --no-neighbours-siblings a word also sees the other children" in " ".join(words)
    # without it, or with another option, the checkpoint is not loaded as if nothing were
    generate = ["fairseq-generate", str(data_bin), *RUN, "--path", "run/checkpoint_best.pt", "--cpu"]
    plain = [part if part != str(USER_DIR) else "fairseq_syntax" for part in generate]
    assert UNKNOWN_HERE in run(*plain, cwd=folder, expected=1)
    other = [*generate, "--model-overrides", "{'neighbours_siblings': False}"]
    assert "--neighbours-siblings is False here, and was True when" in run(*other, cwd=folder)


@pytest.mark.nightly
def test_our_commands_name_it_without_its_user_dir(data_bin, folder):
    dump = ["fairseq-syntax-dump", str(data_bin), "--path", "run/checkpoint_best.pt", "--output", "test.npz", "--cpu"]
    average = ["fairseq-syntax-average-checkpoints", "--inputs", *["run/checkpoint_best.pt"] * 2, "--output", "mean.pt"]
    loss = [sys.executable, str(EXPERIMENTS / "measures/loss.py"), "run", str(data_bin)]
    for command in (dump, average, loss):
        assert UNKNOWN_HERE in run(*command, cwd=folder, expected=1)
        run(*command, "--user-dir", str(USER_DIR), cwd=folder)
    assert np.load(folder / "test.npz")["masks"].tolist() == ["slr", "neighbours"]

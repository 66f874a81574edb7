"""What recipes ask of trained models: the loss of a test set's references, and of parts of it."""

from __future__ import annotations

import json
import runpy
import shutil
import sys

import pytest

import commands
from places import EXPERIMENTS

PARTS = {"every second": [0, 2, 4], "all others": [1, 3, 5], "one": [3]}


@pytest.fixture
def measure(trained, capsys, monkeypatch, tmp_path):
    """What a script of the experiments prints of the fixture's model."""
    shutil.copy(trained.checkpoint, tmp_path / "checkpoint.pt")

    def printed(script: str, *arguments: object) -> object:
        monkeypatch.setattr(sys, "argv", [script, str(tmp_path), str(trained.data), *map(str, arguments)])
        runpy.run_path(str(EXPERIMENTS / "measures" / script), run_name="__main__")
        return json.loads(capsys.readouterr().out.splitlines()[-1])

    return printed


def of_fairseq(trained) -> dict[int, tuple[float, int]]:
    """Of each line what fairseq-generate says of its reference: bits a token, and the number of tokens."""
    log = commands.generate_scored(trained.data, trained.checkpoint, more=("--score-reference", "--post-process=none"))
    return {line: (-score, len(text.split()) + 1) for line, (score, text) in log.items()}  # </s>


def mean(scored: dict[int, tuple[float, int]]) -> float:
    return sum(bits * tokens for bits, tokens in scored.values()) / sum(tokens for _, tokens in scored.values())


def test_the_loss_of_a_test_set_is_what_fairseq_gives_its_references(trained, measure):
    assert measure("test_loss.py") == pytest.approx(mean(of_fairseq(trained)), abs=1e-3)


def test_the_loss_of_a_part_is_that_of_its_lines_alone(trained, measure, tmp_path):
    (tmp_path / "parts.json").write_text(json.dumps(PARTS))
    found = measure("loss_of_parts.py", tmp_path / "parts.json")
    scored = of_fairseq(trained)
    expected = {f"loss, {name}": mean({line: scored[line] for line in lines}) for name, lines in PARTS.items()}
    assert found == pytest.approx(expected, abs=1e-3)
    assert len({round(value, 3) for value in expected.values()}) == len(PARTS)

"""Steps of an experiment: their commands and locks, and the losses of trained models."""

from __future__ import annotations

import json
import runpy
import shutil
import subprocess
import sys

import pytest

import commands
from places import EXPERIMENTS
from syntax_data.errors import InputError
from syntax_experiments import make


def test_a_lock_is_held_by_a_command_that_outlives_the_process(tmp_path):
    lock = tmp_path / "lock"
    with make.locked(lock) as held:
        assert held is True
        child = subprocess.Popen(["cat"], stdin=subprocess.PIPE, close_fds=False)
        with make.locked(lock, wait=False) as second:
            assert second is False
    with make.locked(lock, wait=False) as second:
        assert second is False
    child.communicate()
    with make.locked(lock, wait=False) as again:
        assert again is True


def test_a_command_that_fails_shows_the_end_of_its_log(tmp_path):
    log = tmp_path / "log"
    make.run("python", "-c", "print('fine')", log=log, stdout=tmp_path / "out")
    assert (tmp_path / "out").read_text() == "fine\n"
    failing = "import sys; print(*range(99), sep=chr(10)); sys.exit('x' * 999)"
    with pytest.raises(InputError, match=r"python failed with exit status 1:\n(\d+\n){14}x{300} …$"):
        make.run("python", "-c", failing, log=log)
    assert log.read_text().startswith("$ python -c")
    with pytest.raises(InputError, match="no-such-command: expected this command, found none"):
        make.run("no-such-command", log=log)


PARTS = {"every second": [0, 2, 4], "all others": [1, 3, 5], "one": [3]}


@pytest.fixture
def measure(trained, capsys, monkeypatch, tmp_path):
    """Return the lines that the script prints of the fixture's model."""
    shutil.copy(trained.checkpoint, tmp_path / "checkpoint.pt")

    def printed(*arguments: object) -> list:
        monkeypatch.setattr(sys, "argv", ["loss.py", str(tmp_path), str(trained.data), *map(str, arguments)])
        runpy.run_path(str(EXPERIMENTS / "measures/loss.py"), run_name="__main__")
        return [json.loads(line) for line in capsys.readouterr().out.splitlines() if line[0] in "{123456789"]

    return printed


def test_losses_are_those_that_fairseq_gives_references(trained, measure, tmp_path):
    log = commands.generate_scored(trained.data, trained.checkpoint, more=("--score-reference", "--post-process=none"))
    of_fairseq = {line: (-score, len(text.split()) + 1) for line, (score, text) in log.items()}  # </s>

    def mean(lines):
        of = [of_fairseq[line] for line in lines]
        return sum(bits * tokens for bits, tokens in of) / sum(tokens for _, tokens in of)

    assert measure()[-1] == pytest.approx(mean(of_fairseq), abs=1e-3)
    (tmp_path / "parts.json").write_text(json.dumps(PARTS))
    sentences, found = measure("--parts", tmp_path / "parts.json", "--sentences")
    assert found == pytest.approx({f"loss, {name}": mean(lines) for name, lines in PARTS.items()}, abs=1e-3)
    assert len({round(value, 3) for value in found.values()}) == len(PARTS)
    for name, lines in PARTS.items():
        expected = [[bits * tokens, tokens] for bits, tokens in (of_fairseq[line] for line in lines)]
        for [bits, tokens], [of_bits, of_tokens] in zip(sentences["sentences"][f"loss, {name}"], expected, strict=True):
            assert (bits, tokens) == (pytest.approx(of_bits, abs=1e-2), of_tokens)


def test_several_subsets_count_as_one(measure):
    valid, test, both = (measure("--subsets", of, "--sentences") for of in ("valid", "test", "valid,test"))
    expected = [*valid[0]["sentences"]["loss, valid"], *test[0]["sentences"]["loss, test"]]
    assert both[0]["sentences"]["loss, valid and test"] == expected
    bits, tokens = (sum(column) for column in zip(*expected, strict=True))
    assert both[1]["loss, valid and test"] == pytest.approx(bits / tokens, abs=1e-4)

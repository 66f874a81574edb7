"""Steps of an experiment: their commands and locks, and the losses of trained models."""

from __future__ import annotations

import json
import re
import runpy
import shutil
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest
import torch

import commands
from fairseq_syntax.models.transformer import SyntaxTransformerModel
from places import EXPERIMENTS
from syntax_data.errors import InputError
from syntax_experiments import make
from syntax_experiments.corpora import contrastive_pairs


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
    failing = "import sys; print(*range(99), sep=chr(10), flush=True); sys.exit('x' * 999)"
    with pytest.raises(InputError, match=r"python failed with exit status 1:\n(\d+\n){14}x{300} …$"):
        make.run("python", "-c", failing, log=log)
    assert log.read_text().startswith("$ python -c")
    with pytest.raises(InputError, match="no-such-command: expected this command, found none"):
        make.run("no-such-command", log=log)


PARTS = {"every second": [0, 2, 4], "all others": [1, 3, 5], "one": [3]}


@pytest.fixture
def script(capsys, monkeypatch):
    """Return the lines that a script of measures/ prints."""

    def printed(name: str, *arguments: object) -> list:
        monkeypatch.setattr(sys, "argv", [name, *map(str, arguments)])
        runpy.run_path(str(EXPERIMENTS / "measures" / name), run_name="__main__")
        return [json.loads(line) for line in capsys.readouterr().out.splitlines() if line[0] in "{123456789"]

    return printed


@pytest.fixture
def measure(trained, script, tmp_path):
    """Return the lines that the script prints of the fixture's model."""
    shutil.copy(trained.checkpoint, tmp_path / "checkpoint.pt")
    return partial(script, "loss.py", tmp_path, trained.data)


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


def test_pairs_are_right_where_the_loss_of_the_right_line_is_smaller(script, monkeypatch):
    monkeypatch.syspath_prepend(EXPERIMENTS / "measures")
    of_subsets = {"right": [1.0, 2.0, 3.0, 1.5], "wrong": [2.0, 2.0, 1.0, 9.0], "short": [1.0]}

    def losses(path, data, subsets):
        assert (path, data) == (Path("model/checkpoint.pt"), "data")
        return torch.tensor([of_subsets[name] for name in subsets])

    monkeypatch.setattr("loss.losses", losses)
    run = partial(script, "pair_accuracy.py", "model", "data", "--pairs")
    assert run("order:right,wrong", "other:wrong,right") == [{"accuracy, order": 50, "accuracy, other": 25}]
    with pytest.raises(ValueError, match="--pairs order:right,short: expected subsets of as many lines, found 4 and 1"):
        run("order:right,short")


def test_contrastive_accuracy_is_that_of_forced_decoding(
    trained, measure, script, tmp_path, monkeypatch, corpus, fake_parser
):
    right = (corpus / "bpe/test.tgt").read_text().splitlines()
    swapped = [" ".join([b, a, *rest]) for a, b, *rest in (re.split("(?<!@@) ", line) for line in right)]
    files = ["--train", corpus / "train.tgt", "--target", corpus / "test.tgt", "--codes", corpus / "codes.tgt"]
    rules = {
        "order": lambda text: re.sub(r"(\S+) (\S+)", r"\2 \1", text, count=1),
        "agreement": lambda text: f"{text} .",
    }
    monkeypatch.setattr(
        contrastive_pairs, "german_pairs", lambda text, _: [(c, rule(text)) for c, rule in rules.items()]
    )
    sentences, found = script("contrastive.py", tmp_path, trained.data, *files, "--sentences")
    model = SyntaxTransformerModel.from_pretrained(str(tmp_path), "checkpoint.pt", str(trained.data))
    batch = model.read(trained.subwords)
    scores = [[float(of.sum()) for of in model.score(batch, lines)] for lines in (right, swapped)]
    preferred = sum(one > other for one, other in zip(*scores, strict=True))
    assert 0 < preferred < len(right)
    assert found["accuracy, order"] == pytest.approx(100 * preferred / len(right))
    mean = (found["accuracy, order"] + found["accuracy, agreement"]) / 2
    numerators, denominators = map(sum, zip(*sentences["sentences"]["contrastive accuracy"], strict=True))
    assert found["contrastive accuracy"] == pytest.approx(mean) == pytest.approx(numerators / denominators)
    monkeypatch.setattr(contrastive_pairs, "german_pairs", lambda *_: [])
    assert script("contrastive.py", tmp_path, trained.data, *files) == [{"contrastive pairs": 0}]


def written(folder: Path, **texts: str) -> list[Path]:
    """Write files of these names, and return their paths."""
    for name, text in texts.items():
        (folder / name).write_text(text)
    return [folder / name for name in texts]


def test_f1_of_function_words_by_hand(script, tmp_path):
    files = written(tmp_path, hypotheses="Ein Hund im Park.\nein ein\n", references="ein Hund in dem Park\nein Ball\n")
    sentences, found = script("function_words.py", *files, "--sentences")
    assert sentences["sentences"] == {"function words F1": [[200, 5], [200, 3]], "other words F1": [[400, 4], [0, 1]]}
    assert found == {"function words F1": 50, "other words F1": 80}
    (tmp_path / "words").write_text("katze\n")
    found = script("function_words.py", *files, "--words", tmp_path / "words")
    assert [*found[0]] == ["other words F1"], "there is no cat"
    (tmp_path / "words").write_text("hund\n")
    found = script("function_words.py", *files, "--words", tmp_path / "words")
    assert found == [{"function words F1": 100, "other words F1": pytest.approx(600 / 11)}]


def test_word_order_by_hand(script, tmp_path):
    files = written(tmp_path, hypotheses="b a c x x\na b c\nnone\n", references="a b c x\na b c\nof them\n")
    sentences, found = script("word_order.py", *files, "--sentences")
    assert sentences["sentences"]["word order (τ)"] == [[pytest.approx(100 / 3, abs=1e-4), 1], [100, 1], [0, 0]]
    assert sentences["sentences"]["aligned words F1"] == [[600, 9], [600, 6], [0, 3]]
    assert found == {"word order (τ)": pytest.approx(200 / 3, abs=1e-4), "aligned words F1": pytest.approx(1200 / 18)}
    files[0].write_text("\n\n\n")
    assert script("word_order.py", *files) == [{"aligned words F1": 0}]


def test_a_model_is_tested_on_random_trees(trained, measure, script, plain_data_bin, tmp_path):
    data = commands.copy(plain_data_bin, tmp_path / "random")
    commands.binarize(trained.parses.parent, data, "--control=random@1")
    (of_own, _), (of_random, _) = measure("--sentences"), script("loss.py", tmp_path, data, "--sentences")
    own, random = (of["sentences"]["loss, test"] for of in (of_own, of_random))
    assert [tokens for _, tokens in own] == [tokens for _, tokens in random]
    assert sum(one != other for one, other in zip(own, random, strict=True)) > len(own) / 2

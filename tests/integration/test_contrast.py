"""Contrastive pairs: forced decoding from Python, and fairseq-syntax-contrast."""

from __future__ import annotations

import csv

import pytest

import commands
from fairseq_syntax.commands.contrast import main
from fairseq_syntax.inference.hub import SentenceTooLong
from fairseq_syntax.models.transformer import SyntaxTransformerModel

CATEGORIES = 8 * ["case", "order", "case"]

LONG = "a " * 9000 + "\nb" * 23 + "\n"


@pytest.fixture
def pairs(trained, tmp_path, fake_parser):
    """Files of pairs of subwords: a reference, and the reference of the next sentence."""
    right = (trained.bpe_text.parent / "bpe/test.tgt").read_text().splitlines()
    columns = {"source": trained.subwords, "right": right, "wrong": [*right[1:], right[0]], "categories": CATEGORIES}
    for name, lines in columns.items():
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines))
    return columns


def run(trained, folder, *more: object, columns=("source", "right", "wrong", "categories")) -> None:
    files = [word for name in columns for word in (f"--{name}", folder / name)]
    main([str(word) for word in [trained.data, "--path", trained.checkpoint, *files, "--cpu", *more]])


def of_references(trained) -> list[float]:
    """log₂ p of each reference by fairseq-generate."""
    log = commands.generate_scored(trained.data, trained.checkpoint, more=("--score-reference", "--post-process=none"))
    return [log[i][0] * (len(log[i][1].split()) + 1) for i in range(len(log))]  # a mean, with </s>


def test_scores_from_python_are_those_that_fairseq_gives_references(trained, pairs):
    folder, name = str(trained.checkpoint.parent), trained.checkpoint.name
    model = SyntaxTransformerModel.from_pretrained(folder, name, str(trained.data))
    found = model.score(model.read(pairs["source"]), pairs["right"])
    assert [len(of) for of in found] == [len(line.split()) + 1 for line in pairs["right"]]
    assert [float(of.sum()) / 0.6931472 for of in found] == pytest.approx(of_references(trained), abs=1e-2)
    for limits in ({"max_tokens": 40}, {"batch_size": 1}):
        small = SyntaxTransformerModel.from_pretrained(folder, name, str(trained.data), **limits)
        again = small.score(small.read(pairs["source"]), pairs["right"])
        assert [float(of.sum()) for of in again] == pytest.approx([float(of.sum()) for of in found], abs=1e-4)
    with pytest.raises(ValueError, match="expected 1 translations, one of each sentence, found 2"):
        model.score(model.read(pairs["source"][:1]), pairs["right"][:2])
    with pytest.raises(SentenceTooLong, match=r"translation 2: expected at most \d+ subwords with </s>, found 9001"):
        model.score(model.read(pairs["source"][:2]), [pairs["right"][0], LONG.split("\n")[0]])


def test_accuracy_by_category_and_scores_of_lines(trained, pairs, tmp_path, capsys):
    run(trained, tmp_path, "--output", tmp_path / "scores.tsv")
    printed = [line.split() for line in capsys.readouterr().out.splitlines()]
    with open(tmp_path / "scores.tsv") as file:
        rows = list(csv.DictReader(file, delimiter="\t"))
    assert [row["category"] for row in rows] == CATEGORIES
    assert [int(row["wrong_subwords"]) for row in rows] == [len(line.split()) + 1 for line in pairs["wrong"]]
    logs = [float(row["right"]) / 0.6931472 for row in rows]
    assert logs == pytest.approx(of_references(trained), abs=1e-2)
    right = [float(row["right"]) > float(row["wrong"]) for row in rows]
    of = {
        name: [r for r, c in zip(right, CATEGORIES, strict=True) if name in (c, "all")]
        for name in ("case", "order", "all")
    }
    expected = [[name, str(len(o)), str(sum(o)), f"{100 * sum(o) / len(o):.2f}"] for name, o in of.items()]
    assert printed[-3:] == expected
    assert "subwords are not in" not in str(printed)
    (tmp_path / "wrong").write_text("ÿ ÿ\n" + "\n".join(pairs["wrong"][1:]))
    run(trained, tmp_path)
    total = sum(len(line.split()) + 1 for line in ["ÿ ÿ", *pairs["wrong"][1:]])
    assert f"wrong: 2 of {total} subwords are not in the model's dictionary\n" in capsys.readouterr().out
    (tmp_path / "wrong").write_text("\n".join(pairs["wrong"]))
    run(trained, tmp_path, "--input-parses", trained.parses, columns=("source", "right", "wrong"))
    assert capsys.readouterr().out.splitlines()[-1].split() == expected[-1], "the parses are those of the parser"


def test_pairs_that_are_none(trained, pairs, tmp_path):
    def refused(name: str, text: str, message: str, *more: object) -> None:
        before = (tmp_path / name).read_text()
        (tmp_path / name).write_text(text)
        with pytest.raises(SystemExit, match=message):
            run(trained, tmp_path, *more)
        (tmp_path / name).write_text(before)

    lines = (tmp_path / "right").read_text()
    refused("wrong", lines, r"wrong:1: expected another translation than in .*right, found the same")
    refused("wrong", lines * 2, r"wrong: expected 24 lines as in .*source, found 48")
    refused("categories", "a\n\n" + "b\n" * 22, r"categories:2: expected text, found an empty line")
    refused("wrong", LONG, r"wrong: translation 1: expected at most \d+ subwords")
    refused("source", LONG, r"source: sentence 1: expected at most \d+ subwords", "--parser=none")
    refused("wrong", lines, r"expected another file to write to", "--output", tmp_path / "right")

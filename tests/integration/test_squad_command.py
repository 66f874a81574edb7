"""fairseq-syntax-squad: subwords of fairseq's kinds, scores, and what is refused."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
import sentencepiece as spm

from fairseq_syntax.commands import squad
from syntax_data.squad.read import read_examples, read_passages
from syntax_data.text.subwords.byte_level import LETTERS

PASSAGE = "Bill  founded a café (1999).\nIt grew fast."
QUESTIONS = {
    "a": ("Who founded it?", ["Bill"]),
    "b": ("What is it?", ["a café", "café"]),
    "c": ("When?", ["1999"]),
    "d": ("Who sold it?", []),
}


@pytest.fixture
def squad_file(tmp_path) -> Path:
    qas = [
        {
            "id": id,
            "question": question,
            "is_impossible": not answers,
            "answers": [{"text": text, "answer_start": PASSAGE.index(text)} for text in answers],
        }
        for id, (question, answers) in QUESTIONS.items()
    ]
    path = tmp_path / "dev-v2.0.json"
    path.write_text(json.dumps({"version": "v2.0", "data": [{"paragraphs": [{"context": PASSAGE, "qas": qas}]}]}))
    return path


def subword_options(kind: str, folder: Path) -> list[str]:
    """The options of a kind of subwords, and its files in a folder."""
    if kind == "gpt2":
        merges = ["c a", "Ġ ca", "l l"]
        letters = [*LETTERS, *(merge.replace(" ", "") for merge in merges)]
        (folder / "encoder.json").write_text(json.dumps({of: number for number, of in enumerate(letters)}))
        (folder / "vocab.bpe").write_text("#version\n" + "".join(f"{merge}\n" for merge in merges))
        return ["--gpt2-encoder-json", f"{folder}/encoder.json", "--gpt2-vocab-bpe", f"{folder}/vocab.bpe"]
    if kind == "sentencepiece":
        (folder / "text").write_text(f"{PASSAGE}\nBill was fast.\n" * 3)
        spm.SentencePieceTrainer.Train(
            input=f"{folder}/text", model_prefix=f"{folder}/spm", vocab_size=30, hard_vocab_limit=False, minloglevel=2
        )
        return ["--sentencepiece-model", f"{folder}/spm.model"]
    if kind == "subword_nmt":
        (folder / "codes").write_text("#version: 0.2\nB i\nf o\n")
        return ["--bpe-codes", f"{folder}/codes"]
    return []


@pytest.mark.parametrize("kind", ["gpt2", "none", "sentencepiece", "subword_nmt"])
def test_answers_are_found_in_subwords_of_each_kind(tmp_path, squad_file, kind, capsys):
    output = tmp_path / "data"
    options = subword_options(kind, tmp_path)
    squad.main(
        [
            "prepare",
            "--input",
            str(squad_file),
            "--split",
            "valid",
            "--output-dir",
            str(output),
            "--bpe",
            kind,
            *options,
        ]
    )
    assert capsys.readouterr().out == f"{output}/valid: 4 questions, 1 impossible, 1 passages\n"
    (passage,) = read_passages(f"{output}/valid.passages.jsonl")
    (subwords,) = (output / "valid.passage.bpe").read_text().splitlines()
    assert len(subwords.split()) == len(passage.starts)
    assert (output / "valid.passage").read_text() == f"{passage.text}\n" == PASSAGE.replace("\n", " ") + "\n"
    for example in read_examples(f"{output}/valid.examples.jsonl"):
        expected = QUESTIONS[example.id][1]
        found = [passage.span(first, last) for first, last in example.answers]
        assert len(found) == len(expected)
        assert all(text in span for text, span in zip(expected, found, strict=True))
        if kind != "none":  # where 1999 is a part of (1999).
            assert found == expected


def run(capsys: pytest.CaptureFixture, *arguments: object) -> dict[str, float | str]:
    squad.main([*map(str, arguments)])
    found: dict[str, float | str] = json.loads(capsys.readouterr().out)
    return found


def test_scores_of_files(tmp_path, squad_file, capsys):
    predictions, n_best = tmp_path / "predictions.json", tmp_path / "n-best.json"
    predictions.write_text(json.dumps({"a": "bill!", "b": "the café", "c": "", "d": "Acme"}))
    found = run(capsys, "score", "--input", squad_file, "--predictions", predictions)
    assert (found["exact"], found["total"], found["HasAns_total"], found["NoAns_f1"]) == (50, 4, 3, 0)
    for others, expected in ((("", "café", "1999", ""), (1, 2, 1.0)), (("x", "y", "", "Acme"), (2, 0, 0.5))):
        (tmp_path / "others.json").write_text(json.dumps(dict(zip("abcd", others, strict=True))))
        more = run(
            capsys, "score", "--input", squad_file, "--predictions", predictions, "--compare", tmp_path / "others.json"
        )
        names = ("exact_alone", "exact_other_alone", "exact_mcnemar_p")
        assert more == found | dict(zip(names, expected, strict=True))
    lists = {"a": (-2.0, "Bill"), "b": (-1.0, "café"), "c": (0.5, "1999"), "d": (0.0, "Acme")}
    n_best.write_text(json.dumps({k: {"diff": d, "answers": [{"text": t, "score": 0}]} for k, (d, t) in lists.items()}))
    best = run(capsys, "score", "--input", squad_file, "--best", n_best)
    assert best == {"best_exact": 75, "best_exact_thresh": -1, "best_f1": 75, "best_f1_thresh": -1}
    n_best.write_text(json.dumps({k: {"diff": 4.0, "answers": [{"text": "no", "score": 0}]} for k in lists}))
    best = run(capsys, "score", "--input", squad_file, "--best", n_best)
    assert best == {"best_exact": 25, "best_exact_thresh": "-inf", "best_f1": 25, "best_f1_thresh": "-inf"}
    given = ["answer", "d", "--path", "p", "--output", "o", f"--threshold={best['best_f1_thresh']}"]
    assert squad.get_parser().parse_args(given).threshold == -math.inf


@pytest.mark.parametrize(
    ("command", "content", "message"),
    [
        (
            ["--predictions"],
            {"a": "", "b": "", "d": ""},
            "expected the 4 questions of --input, found that 'c' is missing (1",
        ),
        (["--predictions"], {"x": "", "w": ""}, "found that 'a' is missing (4 such ids)"),
        (["--predictions"], {**dict.fromkeys(QUESTIONS, ""), "e": ""}, "found that 'e' is not one (1 such ids)"),
        (["--predictions"], {"a": 1}, "expected JSON of fairseq-syntax-squad answer, found 1 instead of an answer"),
        (["--predictions"], [], "expected JSON of fairseq-syntax-squad answer, found"),
        (["--best"], {"a": {"diff": 0.5, "answers": []}}, "expected JSON of fairseq-syntax-squad answer, found"),
        (["--best"], {"a": "Bill"}, "found 'Bill' instead of an n-best list"),
    ],
)
def test_other_predictions_are_refused(tmp_path, squad_file, command, content, message):
    path = tmp_path / "found.json"
    path.write_text(json.dumps(content))
    with pytest.raises(SystemExit) as refused:
        squad.main(["score", "--input", str(squad_file), *command, str(path)])
    assert str(refused.value.code).startswith(f"fairseq-syntax-squad: error: {path}: expected")
    assert message in str(refused.value.code)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["score", "--input", "x"], "expected --predictions or --best, found neither"),
        (["score", "--input", "x", "--best", "y", "--compare", "z"], "--compare: expected with --predictions"),
        (["prepare", "--input", "x", "--split", "s", "--output-dir", "d", "--bpe", "gpt2"], "--gpt2-encoder-json FILE"),
        (["answer", "d", "--path", "p", "--output", "o", "--n-best", "0"], "expected a number from 1, found '0'"),
        (["answer", "d", "--path", "p", "--output", "o", "--threshold", "nan"], "expected a number, found nan"),
        ([], "prepare,answer,score"),
    ],
)
def test_options_that_are_missing_end_the_command(arguments, message, capsys):
    with pytest.raises(SystemExit) as refused:
        squad.main(arguments)
    assert refused.value.code == 2
    assert message in capsys.readouterr().err


def test_nothing_is_written_of_a_broken_file(tmp_path, squad_file):
    squad_file.write_text(squad_file.read_text().replace("1999", "1998"))
    squad_file.write_text(squad_file.read_text().replace('"text": "1998"', '"text": "1999"'))
    with pytest.raises(SystemExit) as refused:
        squad.main(
            ["prepare", "--input", str(squad_file), "--split", "x", "--output-dir", f"{tmp_path}/d", "--bpe", "none"]
        )
    assert f"{squad_file}: question c: expected the answer '1999' as characters 22 to 26" in str(refused.value.code)
    assert not (tmp_path / "d").exists()

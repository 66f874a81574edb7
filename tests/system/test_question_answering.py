"""Questions of SQuAD's form, from the file to the score, by the commands; a model must learn to answer them."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from random import Random
from typing import Any

import pytest
import torch

import commands
import example_bins
from fairseq_syntax.commands import squad
from fairseq_syntax.tasks.syntax_span_prediction import SyntaxSpanPredictionTask
from syntax_data.commands import binarize

KINDS = {"colour": ["red", "blue", "green"], "animal": ["cat", "dog", "cow"], "place": ["inn", "park", "shop"]}
FILLERS = ["the", "of", "is", "at", "and", "we", "saw"]
TASK = ["--task", "syntax_span_prediction", "--window", "14", "--stride", "5", "--max-question", "4"]
MODEL = [
    "--arch", "seprem_roberta_tiny", "--encoder-layers", "1", "--encoder-embed-dim", "32", "--encoder-ffn-embed-dim",
    "64", "--encoder-attention-heads", "4", "--max-positions", "14", "--dropout", "0", "--attention-dropout", "0",
]  # fmt: skip


def questions(number: int, *, seed: int) -> dict[str, Any]:
    """SQuAD's JSON: passages of 12 words with one word of some kinds, and a question about each kind."""
    random = Random(seed)
    paragraphs = []
    for passage in range(number):
        words = random.choices(FILLERS, k=12)
        asked = []
        for place, (kind, of_kind) in zip(random.sample(range(12), 3), KINDS.items(), strict=True):
            if possible := random.random() < 0.6:
                words[place] = random.choice(of_kind)
            asked.append((kind, place if possible else None))
        qas = [
            {
                "id": f"{passage}-{kind}",
                "question": f"which {kind} ?",
                "is_impossible": place is None,
                "answers": [] if place is None else [_answer(words, place)],
            }
            for kind, place in asked
        ]
        paragraphs.append({"context": " ".join(words), "qas": qas})
    return {"version": "v2.0", "data": [{"title": "x", "paragraphs": paragraphs}]}


def _answer(words: list[str], place: int) -> dict[str, Any]:
    return {"text": words[place], "answer_start": len(" ".join([*words[:place], ""]))}


def write_parses(path: Path) -> None:
    """Trees in which every word depends on the one before."""
    blocks = []
    for line in path.read_text().splitlines():
        rows = [f"{i}\t{word}\t_\t_\t_\t_\t{i - 1}\t_\t_\t_\n" for i, word in enumerate(line.split(), 1)]
        blocks.append("".join(rows) + "\n")
    Path(f"{path}.conllu").write_text("".join(blocks))


@pytest.fixture(scope="module")
def data(tmp_path_factory) -> Path:
    """A folder for the task, and train.json and valid.json beside it."""
    folder = tmp_path_factory.mktemp("squad")
    data = folder / "data"
    for split, number, seed in (("train", 150, 1), ("valid", 20, 2)):
        path = folder / f"{split}.json"
        path.write_text(json.dumps(questions(number, seed=seed)))
        squad.main(["prepare", "--input", str(path), "--split", split, "--output-dir", str(data), "--bpe", "none"])
    words = [*FILLERS, *(word for of_kind in KINDS.values() for word in of_kind), "which", "?", *KINDS]
    (folder / "dict.txt").write_text("".join(f"{word} 1\n" for word in words))
    for text in ("passage", "question"):
        for split in ("train", "valid"):
            write_parses(data / f"{split}.{text}")
        prefixes = [f"--{split}pref={data}/{split}.{text}.bpe" for split in ("train", "valid")]
        parses = [f"--{split}parse={data}/{split}.{text}" for split in ("train", "valid")]
        given = [*prefixes, f"--destdir={data}/{text}"]
        commands.preprocess_texts(*given, f"--srcdict={folder}/dict.txt")
        binarize.main(["--only-source", *given, *parses, "--subwords=words"])
    return data


def train(data: Path, save_dir: Path, *more: str, model: list[str] = MODEL) -> Path:
    options = ["--max-positions", "14", "--batch-size", "64", "--lr", "0.005", "--max-update", "120"]
    commands.train(data, save_dir, *TASK, *options, "--no-epoch-checkpoints", *more, model=model)
    return save_dir / "checkpoint_last.pt"


@pytest.fixture(scope="module")
def trained(data) -> Path:
    return train(data, data.parent / "spans", "--criterion", "span_prediction")


def printed(capsys: pytest.CaptureFixture, *arguments: object) -> str:
    capsys.readouterr()
    squad.main([*map(str, arguments)])
    return capsys.readouterr().out


def test_a_model_learns_to_answer_and_to_leave_questions_without_an_answer(data, trained, tmp_path, capsys):
    predictions, n_best, valid = tmp_path / "predictions.json", tmp_path / "n-best.json", f"{data.parent}/valid.json"
    answer = ["answer", data, "--path", trained, "--cpu", "--output", predictions, "--n-best-output", n_best]
    said = printed(capsys, *answer, "--n-best", 3, "--max-answer-length", 2)
    found = json.loads(printed(capsys, "score", "--input", valid, "--predictions", predictions, "--best", n_best))
    assert (found["total"], found["HasAns_total"]) == (60, 34)
    assert min(found["HasAns_f1"], found["NoAns_f1"], found["best_exact"]) > 90
    assert found["best_exact"] >= found["exact"]
    assert said.startswith(f"{predictions}: 60 questions, ")

    of_questions = json.loads(n_best.read_text())
    assert {len(of["answers"]) for of in of_questions.values()} == {3}
    for of in of_questions.values():
        scores = [of_answer["score"] for of_answer in of["answers"]]
        assert scores == sorted(scores, reverse=True)
        assert max(len(of_answer["text"].split()) for of_answer in of["answers"]) <= 2
    thresholds = {float("-inf"): set(), 1e9: {*of_questions}, found["best_exact_thresh"]: None}
    for threshold, expected in thresholds.items():
        printed(capsys, *answer, f"--threshold={threshold}")
        answered = {id for id, text in json.loads(predictions.read_text()).items() if text}
        assert answered == ({id for id, of in of_questions.items() if of["diff"] <= threshold})
        assert expected in (None, answered)
    again = json.loads(printed(capsys, "score", "--input", valid, "--predictions", predictions))
    assert again["exact"] == found["best_exact"]  # under its threshold


def test_it_is_validated_as_in_training(data, trained, monkeypatch):
    """By fairseq-validate, with the name of the criterion."""
    found = []
    monkeypatch.setattr(SyntaxSpanPredictionTask, "reduce_metrics", lambda self, logs, _: found.extend(logs))
    commands.validate(data, trained, *TASK[:2], "--criterion", "span_prediction")
    assert sum(log["sample_size"] for log in found) == 120
    assert sum(log["ncorrect"] for log in found) > 110


@pytest.mark.nightly
def test_a_verifier_changes_diff_alone(data, trained, tmp_path, capsys):
    classifier = ["--criterion", "sentence_prediction", "--pooling", "mean", "--max-update", "75"]
    verifier = train(data, tmp_path / "verifier", *classifier)
    lists = []
    for more in ([], ["--verifier", verifier], ["--verifier", verifier, "--verifier-weights", 0, 1]):
        output = ["--output", tmp_path / "predictions.json", "--n-best-output", tmp_path / "n-best.json"]
        printed(capsys, "answer", data, "--path", trained, "--cpu", *output, *more)
        lists.append(json.loads((tmp_path / "n-best.json").read_text()))
    plain, both, alone = lists
    assert len({of["diff"] for of in alone.values()}) > 3
    for id, of in plain.items():
        assert both[id]["diff"] == pytest.approx(of["diff"] + alone[id]["diff"], abs=1e-4)
        assert both[id]["answers"] == of["answers"] == alone[id]["answers"]
    valid = ["--input", f"{data.parent}/valid.json"]
    found = json.loads(printed(capsys, "score", *valid, "--predictions", tmp_path / "predictions.json"))
    assert found["NoAns_exact"] > 80  # by the verifier alone

    for path, given, message in (
        (verifier, [], "expected a model of --task syntax_span_prediction --criterion span_prediction, found"),
        (trained, ["--verifier", trained], "expected a classifier of answerable and impossible, found labels (none)"),
    ):
        with pytest.raises(SystemExit) as refused:
            squad.main(
                ["answer", str(data), "--path", str(path), "--cpu", "--output", f"{tmp_path}/x", *map(str, given)]
            )
        assert f"{path}: {message}" in str(refused.value.code)
    assert not (tmp_path / "x").exists()


def test_a_verifier_may_be_a_classifier_of_pairs(data, trained, tmp_path, capsys):
    """Whose labels may be numbered otherwise: its outputs are found by name."""
    symbols = [line.split()[0] for line in (data / "passage/dict.txt").read_text().splitlines()]
    pairs = tmp_path / "pairs"
    for split in ("train", "valid"):
        for folder, name in (("input0", "question"), ("input1", "passage")):
            lines = (data / f"train.{name}.bpe").read_text().splitlines() * 50
            example_bins.tokens(pairs / folder, split, lines[:150], symbols)
        example_bins.tokens(pairs / "label", split, ["impossible"] * 150, ["impossible", "answerable"])
    task = ["--task", "syntax_sentence_prediction", "--init-token", "0", "--separator-token", "2", "--num-classes", "2"]
    options = ["--criterion", "sentence_prediction", "--max-positions", "24", "--max-update", "8"]
    commands.train(pairs, tmp_path / "run", *task, *options, model=["--arch", "roberta", *MODEL[2:]])
    output = ["--output", tmp_path / "predictions.json", "--n-best-output", tmp_path / "n-best.json"]
    verifier = ["--verifier", tmp_path / "run/checkpoint_last.pt", "--verifier-weights", 0, 1]
    printed(capsys, "answer", data, "--path", trained, "--cpu", *output, *verifier)
    diffs = [of["diff"] for of in json.loads((tmp_path / "n-best.json").read_text()).values()]
    assert len(diffs) == 60
    assert min(diffs) > 0  # impossible, all of them


def test_a_pretrained_model_gets_a_head(data, trained, tmp_path, capsys, caplog):
    """And a stock one answers, too."""
    stock = ["--arch", "roberta", *MODEL[2:]]
    spans = ["--criterion", "span_prediction", "--max-update", "2"]
    checkpoint = train(data, tmp_path / "stock", *spans, model=stock)
    printed(capsys, "answer", data, "--path", checkpoint, "--cpu", "--output", tmp_path / "x.json")
    assert len(json.loads((tmp_path / "x.json").read_text())) == 60

    state = torch.load(checkpoint, weights_only=False)
    state["model"] = {name: value for name, value in state["model"].items() if not name.startswith("span_heads")}
    torch.save(state, pretrained := tmp_path / "pretrained.pt")
    reset = ["--reset-optimizer", "--reset-dataloader", "--reset-meters"]
    for number, way in enumerate(
        (["--restore-file", str(pretrained), *reset], ["--finetune-from-model", str(pretrained)])
    ):
        caplog.clear()
        with caplog.at_level(logging.INFO):
            run = train(data, tmp_path / str(number), *spans, "--lr", "0", "--passage-first", *way)
        assert "span_heads.span_head starts fresh: the checkpoint has none" in caplog.messages
        found = commands.parameters(run)
        for name, value in state["model"].items():
            torch.testing.assert_close(found[name], value, rtol=0, atol=0)
        assert found["span_heads.span_head.weight"].shape == (2, 32)


@pytest.mark.nightly
def test_a_training_goes_on_exactly(data, tmp_path):
    """From the middle of an epoch; with two windows of each passage, in batches of similar lengths."""
    spans = ["--criterion", "span_prediction", "--window", "12"]
    through = commands.parameters(train(data, tmp_path / "through", *spans, "--max-update", "8"))
    train(data, tmp_path / "parts", *spans, "--max-update", "5")
    parts = commands.parameters(train(data, tmp_path / "parts", *spans, "--max-update", "8"))
    torch.testing.assert_close(parts, through, rtol=0, atol=0)

"""Questions of SQuAD's form, from the file to the score, by the commands; a model must learn to answer them."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random
from typing import Any

import fairseq_cli.preprocess
import pytest
from fairseq import options

import commands
from fairseq_syntax.commands import squad
from syntax_data.commands import binarize

KINDS = {"colour": ["red", "blue", "green"], "animal": ["cat", "dog", "cow"], "place": ["inn", "park", "shop"]}
FILLERS = ["the", "of", "is", "at", "and", "we", "saw"]
TASK = ["--task", "syntax_span_prediction", "--window", "14", "--stride", "5", "--max-question", "4"]
MODEL = [
    "--arch", "seprem_roberta_tiny", "--encoder-layers", "2", "--encoder-embed-dim", "32", "--encoder-ffn-embed-dim",
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
        given = ["--only-source", *prefixes, f"--destdir={data}/{text}"]
        parser = options.get_preprocessing_parser()
        fairseq_cli.preprocess.main(parser.parse_args([*given, f"--srcdict={folder}/dict.txt"]))
        binarize.main([*given, *parses, "--subwords=words"])
    return data


def train(data: Path, save_dir: Path, *more: str) -> Path:
    task = [*TASK, "--max-positions", "14", "--batch-size", "64", "--lr", "0.01", "--no-epoch-checkpoints"]
    commands.train(data, save_dir, *task, *more, model=MODEL)
    return save_dir / "checkpoint_last.pt"


def test_a_model_learns_to_answer_and_to_leave_questions_without_an_answer(data, tmp_path, capsys):
    checkpoint = train(data, tmp_path / "run", "--criterion", "span_prediction", "--max-update", "100")
    predictions, n_best = tmp_path / "predictions.json", tmp_path / "n-best.json"
    answer = ["answer", str(data), "--path", str(checkpoint), "--cpu", "--output", str(predictions)]
    squad.main([*answer, "--n-best-output", str(n_best), "--n-best", "3", "--max-answer-length", "2"])
    capsys.readouterr()
    score = ["score", "--input", f"{data.parent}/valid.json", "--predictions", str(predictions)]
    squad.main([*score, "--best", str(n_best)])
    print(found := json.loads(capsys.readouterr().out))
    assert found["total"] == 60
    assert found["exact"] > 90

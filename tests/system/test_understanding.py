"""Understanding tasks, from text to accuracies: the quickstart, and a pre-trained BERT as on its page."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest

import quickstart
from pages import blocks
from places import EXAMPLES, TESTS
from shell import run

SMALL = ["--train", "600", "--held-out", "12", "--max-update", "2", "--jobs", "1"]


def accuracies(folder: Path, monkeypatch: pytest.MonkeyPatch, segments: int, *options: str) -> dict[str, list[str]]:
    """Run the quickstart; return the cells of each row of its table."""
    monkeypatch.chdir(folder)
    quickstart.main(["--work", str(folder / "work"), "--segments", str(segments), *options])
    rows = [
        [cell.strip() for cell in line.split("|")[1:-1]]
        for line in (folder / "work" / f"segments{segments}/table.md").open()
    ]
    return {row[0]: row[1:] for row in rows[2:]}


def test_quickstart_of_two_segments(tmp_path, monkeypatch):
    """One system of each task, two updates."""
    monkeypatch.setattr(quickstart, "SYSTEMS", [quickstart.SYSTEMS[0], quickstart.SYSTEMS[3]])
    monkeypatch.setattr(quickstart, "TREES", {"flat trees": quickstart.TREES["flat trees"]})
    found = accuracies(tmp_path, monkeypatch, 2, *SMALL)
    assert list(found) == ["RoBERTa (fairseq)", "gated"]
    (blank, stock), (flat, none) = found.values()
    assert blank == none == ""
    assert all(re.fullmatch(r"\d+\.\d%", cell) for cell in (stock, flat))


@pytest.mark.nightly
def test_quickstart(tmp_path, monkeypatch):
    found = accuracies(tmp_path, monkeypatch, 1)
    for name in ("RoBERTa (fairseq)", "relative position"):
        assert float(found.pop(name)[3].rstrip("%")) == pytest.approx(50, abs=4)
    of_first_token = found.pop("SG-Net, <s> as published")
    assert len(found) == 4
    for trees, *controls, _ in found.values():
        assert float(trees.rstrip("%")) >= 95
        assert all(float(cell.rstrip("%")) == pytest.approx(50, abs=4) for cell in controls)
    assert all(float(cell.rstrip("%")) == pytest.approx(50, abs=4) for cell in of_first_token[:3])


def test_a_command_that_fails_is_named_with_its_log(tmp_path):
    with pytest.raises(ValueError, match=r"(?s)python.* failed, see .*/log:\nwhy\n"):
        quickstart.call(sys.executable, "-c", "print('why'); exit(3)", log=tmp_path / "log")
    assert (tmp_path / "log").read_text() == "why\n"


def test_a_pretrained_bert_as_on_the_page(tmp_path, monkeypatch, fake_parser):
    """The page's commands, on a BERT of two layers and a few pairs."""
    monkeypatch.syspath_prepend(TESTS / "unit/understanding")
    from test_convert_bert import SIZES, make_bert

    make_bert(tmp_path / "bert-base-uncased")
    (tmp_path / "RTE").mkdir()
    rows = [f"{i}\tThe dog runs.\tDogs run{'.' * (i % 2)}\t{'not_' * (i % 2)}entailment\n" for i in range(8)]
    for split in ("train", "dev"):
        (tmp_path / f"RTE/{split}.tsv").write_text("index\tsentence1\tsentence2\tlabel\n" + "".join(rows))
    (tmp_path / "examples").symlink_to(EXAMPLES)
    _, block = blocks("examples/understanding/README.md", "bash")
    sizes = "--encoder-layers 2 --encoder-embed-dim 8 --encoder-ffn-embed-dim 12 --encoder-attention-heads 2"
    text = re.sub("--lang en (--input .*) --download", r"--parser fake \1", block.text)
    text = text.replace("--max-positions 512", f"--max-positions {SIZES['max_position_embeddings']} {sizes} --cpu")
    text = text.replace("--max-epoch 10", "--max-epoch 1 --log-format json --num-workers 0")
    log = run(f"{text.rstrip()} 2>&1", tmp_path)
    assert "Loaded checkpoint pretrained/model.pt" in log
    assert json.loads(re.findall(r'\{"epoch": 1, "valid_loss".*\}', log)[-1])["valid_accuracy"]
    assert (tmp_path / "checkpoints/rte/checkpoint_best.pt").exists()

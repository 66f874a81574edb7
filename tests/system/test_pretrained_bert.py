"""A pre-trained BERT, fine-tuned with and without parses as on its page."""

from __future__ import annotations

import re

import pytest

from pages import blocks
from places import EXAMPLES, TESTS
from shell import run


@pytest.mark.nightly
def test_a_pretrained_bert_as_on_the_page(tmp_path, monkeypatch, fake_parser):
    """The page's commands, on a BERT of two layers and a few sentences."""
    monkeypatch.syspath_prepend(TESTS / "unit/understanding")
    from test_convert_bert import SIZES, make_bert

    make_bert(tmp_path / "bert")
    (tmp_path / "examples").symlink_to(EXAMPLES)
    for split in ("train", "valid", "test"):
        rows = [f"{i % 2}\tThe dog runs{'.' * (i % 2)}\n" for i in range(8)]
        (tmp_path / f"{split}.tsv").write_text("".join(rows))
    quickstart, *ours = blocks("docs/understanding.md", "bash")
    assert quickstart.text.startswith("bash run.sh quickstart")
    text = "".join(block.text for block in ours)
    text = text[text.index("mkdir") :].replace("for file in config.json", "for file in")
    text = re.sub("for file in .*; do curl .*; done", "", text)
    text = re.sub("--lang en (--input .*) --download", r"--parser fake \1", text)
    text = re.sub("--encoder-layers 6.* 12 ", "--encoder-layers 2 --encoder-embed-dim 8 --encoder-ffn-embed-dim 12 "
                  "--encoder-attention-heads 2 ", text)  # fmt: skip
    longest = SIZES["max_position_embeddings"]
    text = text.replace("--max-positions 512 --truncate-to 128", f"--max-positions {longest} --cpu --num-workers 0")
    text = text.replace("--max-epoch 3", "--max-epoch 1 --log-format json").replace(
        "--gen-subset", "--cpu --gen-subset"
    )
    log = run(f"{text.rstrip()} 2>&1", tmp_path)
    assert log.count("Loaded checkpoint pretrained/model.pt") == 2
    assert len(re.findall(r'\{"epoch": 1, "valid_loss".*"valid_accuracy"', log)) == 2
    assert "McNemar" in log
    assert [len((tmp_path / name).read_text().splitlines()) for name in ("position.tsv", "seprem.tsv")] == [9, 9]

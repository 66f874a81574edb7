"""Learned biases by fairseq's commands: training, going on, translating with and without features."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from test_ways_to_train import assert_learns

import commands
from fairseq_syntax.commands.average_checkpoints import main as average
from fairseq_syntax.commands.dump import main as dump
from fairseq_syntax.models.transformer import SyntaxTransformerModel

RELATIVE = ["--arch=relative_position_transformer_tiny", *commands.TINY[2:]]
TREE_BIASES = ["--arch=tree_bias_transformer_tiny", *commands.TINY[2:]]
TREES = ["--syntax-masks=tree_path,tree_height", "--syntax-combination=product", "--position-bias"]
POSITION = ["--syntax-masks=position,slr"]


def tables(path: Path) -> dict[str, torch.Tensor]:
    return {n: w for n, w in commands.parameters(path).items() if ".experts." in n or ".position_bias." in n}


@pytest.fixture(scope="module")
def relative(plain_data_bin, tmp_path_factory) -> Path:
    """A model with a position bias alone, trained without features."""
    folder = tmp_path_factory.mktemp("relative")
    trainer = commands.train(plain_data_bin, folder, "--max-epoch=3", model=RELATIVE)
    assert_learns(trainer, folder)
    return folder / "checkpoint_last.pt"


def test_a_position_bias_alone_translates_without_features_and_without_a_parser(
    relative, corpus, plain_data_bin, data_bin, tmp_path
):
    found = tables(relative)
    assert len(found) == 2
    assert all(table.any() and table.isfinite().all() for table in found.values())
    expected = commands.generate_scored(plain_data_bin, relative)
    commands.assert_same(commands.generate_scored(data_bin, relative), expected)
    subwords = (corpus / "bpe/test.src").read_text().splitlines()
    new_text, _ = commands.interactive(subwords, plain_data_bin, relative, folder=tmp_path, more=("--remove-bpe",))
    commands.assert_same(new_text, expected)
    commands.validate(plain_data_bin, relative)
    hub = SyntaxTransformerModel.from_pretrained(
        str(relative.parent), relative.name, str(plain_data_bin), bpe="subword_nmt", bpe_codes=str(corpus / "codes.src")
    )
    lines = (corpus / "test.src").read_text().splitlines()
    assert hub.translate(lines, beam=2, max_len_b=20) == [text for _, (_, text) in sorted(expected.items())]
    tokens = hub.read(lines[:2])
    for seen, ids in zip(hub.analyse(tokens), tokens, strict=True):
        assert {name: array.shape[-1] for name, array in seen.items()} == {"biases": len(ids), "attention": len(ids)}


def test_it_translates_beside_syntax_and_stock_models(relative, data_bin, tmp_path):
    commands.train(data_bin, tmp_path / "ours", "--max-epoch=1", model=TREE_BIASES)
    commands.train(data_bin, tmp_path / "stock", "--max-epoch=1", model=commands.STOCK)
    others = [tmp_path / name / "checkpoint_last.pt" for name in ("ours", "stock")]
    together = commands.generate_scored(data_bin, relative, *others)
    assert together.keys() == commands.generate_scored(data_bin, relative).keys()
    assert together != commands.generate_scored(data_bin, *others)


@pytest.mark.parametrize("options", [TREES, POSITION], ids=["trees", "position"])
@pytest.mark.parametrize(
    "more",
    [[], ["--fp16"], ["--fp16", "--memory-efficient-fp16"], ["--amp", "--checkpoint-activations"], ["--store-ema"]],
    ids=lambda options: " ".join(options).replace("--", ""),
)
def test_trains_and_goes_on_with_the_same_bits(data_bin, tmp_path, options, more, half_precision):
    cpu = not half_precision or not {"--amp", "--fp16"} & set(more)
    whole = commands.train(data_bin, tmp_path / "whole", "--max-epoch=2", *options, *more, cpu=cpu)
    assert_learns(whole, tmp_path / "whole")
    found = tables(tmp_path / "whole/checkpoint_last.pt")
    assert all(table.any() and table.isfinite().all() for table in found.values())
    if more in ([], ["--store-ema"]):
        for epochs in (1, 2):
            commands.train(data_bin, tmp_path / "parts", f"--max-epoch={epochs}", *options, *more)
        resumed = tables(tmp_path / "parts/checkpoint_last.pt")
        assert found.keys() == resumed.keys()
        assert all(torch.equal(found[name], resumed[name]) for name in found)
    translated = commands.generate(data_bin, tmp_path / "whole/checkpoint_last.pt")
    assert len(translated) == 24


@pytest.mark.parametrize("options", [[*TREES, "--syntax-heads=3"], RELATIVE[:1]], ids=["trees", "relative"])
def test_learned_biases_are_dumped(data_bin, tmp_path, options):
    commands.train(data_bin, tmp_path, "--max-epoch=1", *options)
    path = tmp_path / "checkpoint_last.pt"
    dump([str(data_bin), "--path", str(path), "--cpu", "--output", str(tmp_path / "x.npz"), "--batch-size", "7"])
    found = np.load(tmp_path / "x.npz")
    alone = options == RELATIVE[:1]
    assert found["masks"].tolist() == ([] if alone else ["tree_height", "tree_path"])
    assert found["biases"].tolist() == [*found["masks"], "position_bias"]
    assert not any(name.endswith(("/masks", "/gates")) for name in found.files)
    table = tables(path)["encoder.layers.1.self_attn.position_bias.weight"]
    tokens, biases = found["3/tokens"], found["3/biases"]
    n = len(tokens)
    assert biases.shape == (2, 1 if alone else 3, 4, n, n)
    np.testing.assert_allclose(biases[1, -1, :, 2, 4], table[:, 24], rtol=1e-6)  # two to the right
    np.testing.assert_allclose(biases[1, -1, :, 4, 0], table[:, 18], rtol=1e-6)  # four to the left
    if not alone:
        assert biases[:, :2, :3].any(axis=(-1, -2)).all()
        assert not biases[:, :2, 3].any()  # a head without trees


def test_tables_are_averaged(data_bin, tmp_path):
    commands.train(data_bin, tmp_path, "--max-epoch=2", *TREES)
    average(["--inputs", str(tmp_path), "--num-epoch-checkpoints", "2", "--output", str(tmp_path / "mean.pt")])
    one, two, mean = (tables(tmp_path / name) for name in ("checkpoint1.pt", "checkpoint2.pt", "mean.pt"))
    assert len(mean) == 6
    for name, table in mean.items():
        torch.testing.assert_close(table, (one[name] + two[name]) / 2)


def test_a_stock_transformer_becomes_one_with_a_position_bias(plain_data_bin, tmp_path, caplog):
    stock = ["--arch=transformer", *RELATIVE[1:], *("--encoder-ffn-embed-dim=128", "--encoder-layers=2"),
             *("--encoder-attention-heads=4", "--decoder-attention-heads=4")]  # fmt: skip
    commands.train(plain_data_bin, tmp_path, "--max-epoch=1", "--no-epoch-checkpoints", model=stock)
    path = tmp_path / "checkpoint_last.pt"
    start = ["--lr=1e-12", "--max-update=1", f"--finetune-from-model={path}"]
    with caplog.at_level("INFO"):
        commands.train(plain_data_bin, tmp_path / "on", *start, model=RELATIVE)
    assert "the checkpoint has no position_bias; these start fresh" in caplog.text
    expected = commands.generate_scored(plain_data_bin, path)
    commands.assert_same(commands.generate_scored(plain_data_bin, tmp_path / "on/checkpoint_last.pt"), expected)


@pytest.mark.parametrize(
    ("before", "after", "wrong"),
    [
        (TREES, [*TREES[:2]], r"--position-bias: expected True, as this training began, found False"),
        (TREES, [TREES[0], TREES[2], "--syntax-combination=pure"], "--syntax-combination: expected product"),
        (RELATIVE[:1], [*RELATIVE[:1], "--syntax-masks=position"], "--syntax-masks: expected none"),
    ],
)
def test_a_training_does_not_go_on_with_another_bias(data_bin, tmp_path, before, after, wrong):
    commands.train(data_bin, tmp_path, "--max-update=1", *before)
    with pytest.raises(Exception, match=wrong):
        commands.train(data_bin, tmp_path, "--max-update=2", *after)

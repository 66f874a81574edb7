"""Learned biases by fairseq's commands, with and without features."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from test_ways_to_train import assert_learns

import commands
from fairseq_syntax.commands.dump import main as dump

RELATIVE = ["--arch=relative_position_transformer_tiny", *commands.TINY[2:]]
TREES = ["--syntax-masks=tree_path,tree_height", "--syntax-combination=product", "--position-bias"]
POSITION = ["--syntax-masks=position,slr"]


def tables(path: Path) -> dict[str, torch.Tensor]:
    return {n: w for n, w in commands.parameters(path).items() if ".experts." in n or ".position_bias." in n}


def test_a_position_bias_alone_needs_no_features_and_no_parser(corpus, plain_data_bin, data_bin, tmp_path):
    assert_learns(commands.train(plain_data_bin, tmp_path, "--max-epoch=3", model=RELATIVE), tmp_path)
    path = tmp_path / "checkpoint_last.pt"
    found = tables(path)
    assert len(found) == 2
    assert all(table.any() and table.isfinite().all() for table in found.values())
    expected = commands.generate_scored(plain_data_bin, path)
    commands.assert_same(commands.generate_scored(data_bin, path), expected)
    subwords = (corpus / "bpe/test.src").read_text().splitlines()
    new_text, _ = commands.interactive(subwords, plain_data_bin, path, folder=tmp_path, more=("--remove-bpe",))
    commands.assert_same(new_text, expected)
    hub = commands.SyntaxTransformerModel.from_pretrained(
        str(tmp_path), path.name, str(plain_data_bin), bpe="subword_nmt", bpe_codes=str(corpus / "codes.src")
    )
    lines = (corpus / "test.src").read_text().splitlines()
    assert hub.translate(lines, beam=2, max_len_b=20) == [text for _, (_, text) in sorted(expected.items())]
    tokens = hub.read(lines[:2])
    for seen, ids in zip(hub.analyse(tokens), tokens, strict=True):
        assert {name: array.shape[-1] for name, array in seen.items()} == {"biases": len(ids), "attention": len(ids)}


@pytest.mark.parametrize(
    ("options", "more"),
    [
        (TREES, ["--store-ema"]),
        (POSITION, []),
        (TREES, ["--fp16", "--memory-efficient-fp16"]),
        (POSITION, ["--amp", "--checkpoint-activations"]),
    ],
    ids=lambda options: " ".join(options).replace("--", ""),
)
def test_trains_and_goes_on_with_the_same_bits(data_bin, tmp_path, options, more, half_precision):
    half = bool({"--amp", "--fp16"} & set(more))
    cpu = not (half_precision and half)
    whole = commands.train(data_bin, tmp_path / "whole", "--max-epoch=2", *options, *more, cpu=cpu)
    assert_learns(whole, tmp_path / "whole")
    found = tables(tmp_path / "whole/checkpoint_last.pt")
    assert all(table.any() and table.isfinite().all() for table in found.values())
    if not half:
        first = f"--restore-file={tmp_path}/whole/checkpoint1.pt"
        commands.train(data_bin, tmp_path / "on", "--max-epoch=2", first, *options, *more)
        resumed = tables(tmp_path / "on/checkpoint_last.pt")
        assert found.keys() == resumed.keys()
        assert all(torch.equal(found[name], resumed[name]) for name in found)
        if "--position-bias" in options:
            with pytest.raises(ValueError, match="--position-bias: expected True, as this training began, found False"):
                commands.train(data_bin, tmp_path / "other", "--max-epoch=2", first, *options[:2], *more)


@pytest.mark.parametrize("options", [[*TREES, "--syntax-heads=3"], RELATIVE[:1]], ids=["trees", "relative"])
def test_learned_biases_are_dumped(data_bin, tmp_path, options):
    commands.train(data_bin, tmp_path, "--max-update=4", *options)
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

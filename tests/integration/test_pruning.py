"""Layers that fairseq prunes: those that stay have syntax as they were trained."""

from __future__ import annotations

import re

import pytest
import torch

import commands

PRUNED = ("--model-overrides", "{'encoder_layers_to_keep': '1,2'}")


def hand_pruned(path, to):
    """A model of 3 layers of which the second has syntax, without the first."""
    state = torch.load(path, weights_only=True)

    def renumbered(name):
        return re.sub(r"^(encoder\.layers\.)(\d)", lambda match: match[1] + str(int(match[2]) - 1), name)

    state["model"] = {renumbered(name): w for name, w in state["model"].items() if "encoder.layers.0." not in name}
    state["cfg"]["model"].encoder_layers = 2
    state["cfg"]["model"].syntax_layers = "1"
    torch.save(state, to)
    return to


@pytest.mark.parametrize("combination", ["gate", "pure"])
def test_pruning_leaves_syntax_in_the_layers_that_were_trained_so(data_bin, tmp_path, combination, caplog):
    size = ["--encoder-layers=3", "--syntax-layers=2", f"--syntax-combination={combination}"]
    commands.train(data_bin, tmp_path / "full", "--max-update=4", *size)
    full = tmp_path / "full/checkpoint_last.pt"
    expected = commands.generate_scored(data_bin, hand_pruned(full, tmp_path / "hand.pt"))
    assert commands.generate_scored(data_bin, full, more=PRUNED) == expected
    assert commands.generate_scored(data_bin, full) != expected
    assert "start fresh" not in caplog.text
    assert "these weights were trained" not in caplog.text

    prune = ["--encoder-layers-to-keep=1,2", f"--finetune-from-model={full}", "--max-update=1", "--lr=1e-12"]
    trainer = commands.train(data_bin, tmp_path / "pruned", *size, *prune)
    assert list(trainer.get_model().syntax_attentions) == [1]
    assert "these weights were trained" not in caplog.text
    tuned = tmp_path / "pruned/checkpoint_last.pt"
    commands.assert_same(commands.generate_scored(data_bin, tuned), expected)
    smaller = ["--encoder-layers=2", "--syntax-layers=1", f"--syntax-combination={combination}"]
    commands.train(data_bin, tmp_path / "pruned", "--max-update=2", *smaller)  # goes on

    with pytest.raises(ValueError, match=r"--encoder-layers-to-keep: expected one of .*from 0, 1\), found 0,2"):
        commands.generate(data_bin, full, more=("--model-overrides", "{'encoder_layers_to_keep': '0,2'}"))

"""The variants of positions that the recipe depth tries; they register models, so each test runs in a fork."""

from __future__ import annotations

import plugins
import pytest
import torch

import small
import systems
from fairseq_syntax.modules.biases import bias_type
from syntax_experiments.recipe import read_recipe

SYMBOLS = small.dictionary()
VARIANTS = {name: system for name, system in read_recipe("depth").systems.items() if "user-dir" in system.options}


forked = plugins.with_plugin("position_variants")


def model(name: str = "", **more: object):
    """A system of the recipe, or the architecture that it varies; tables are no longer 0."""
    of_system = dict(VARIANTS[name].options) if name else {}
    of_system.pop("user-dir", None)
    arch = VARIANTS[name].architecture if name else "tree_bias_transformer_tiny"
    net = plugins.model(arch, **{**of_system, **more})
    generator = torch.Generator().manual_seed(2)
    for of_layer, parameter in sorted(net.named_parameters()):
        if ".experts." in of_layer:
            parameter.data.normal_(generator=generator)
    return net


@forked
def test_shifted_positions_are_fairseqs_in_evaluation(tmp_path):
    net_input = systems.batch(left_pad=True)
    torch.testing.assert_close(model("shifted")(**net_input)[0], model()(**net_input)[0])


@pytest.mark.parametrize("side", ["encoder", "decoder"])
@forked
def test_shifted_positions_follow_each_other_from_a_random_one_in_training_alone(tmp_path, side):
    shifted = getattr(model("shifted", **{"shift-positions": 2}), side).embed_positions
    plain = getattr(model(), side).embed_positions
    tokens = torch.cat([systems.batch(left_pad=True)["src_tokens"]] * 8)
    assert torch.equal(shifted(tokens), plain(tokens))
    shifted.weights = shifted.weights[:8]  # is made larger where that is too few
    found = shifted.train()(tokens)
    offsets = set()
    for row, of_row in zip(tokens, found, strict=True):
        real = row != SYMBOLS.pad()
        assert not of_row[~real].any()
        windows = plain.weights[SYMBOLS.pad() + 1 :].unfold(0, int(real.sum()), 1).transpose(1, 2)
        (offset,) = (windows[:10] - of_row[real]).abs().amax(dim=(1, 2)).lt(1e-5).nonzero().flatten().tolist()
        offsets.add(offset)
    assert offsets == {0, 1, 2}


@pytest.mark.parametrize("steps", [2, 8])
@forked
def test_paths_of_more_steps_share_a_bucket(tmp_path, steps):
    """Of a chain of words, with the first and with the last one as root."""
    bias = bias_type(f"tree_path_{steps}")()
    word = torch.arange(20)[None]
    down, up = (bias.bias(word, head).numbers[0] for head in (word, (word + 2) % 21))
    for paths in (down[0, 1:], down[1:, 0], up[0, 1:], up[1:, 0]):
        assert len(set(paths.tolist())) == steps
        assert len(set(paths[steps - 1 :].tolist())) == 1
    table = bias.build_layer_module(heads=1, head_dim=1, embed_dim=1).weight
    assert table.shape[1] == 2 * (steps + 1) ** 2 + 2

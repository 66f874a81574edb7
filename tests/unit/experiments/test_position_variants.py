"""The variants of positions that the recipe depth tries; they register models, so each test runs in a fork."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import wraps
from importlib import import_module
from pathlib import Path

import pytest
import torch

import small
import systems
from fairseq_syntax.modules.biases import bias_type
from forked import Forked
from places import EXPERIMENTS


def forked(test: Callable[..., None]) -> Callable[..., None]:
    @wraps(test)
    def run(tmp_path: Path, **arguments: object) -> None:
        def work() -> None:
            sys.path.insert(0, str(EXPERIMENTS))
            import_module("position_variants")
            test(tmp_path=tmp_path, **arguments)

        process = Forked(work, tmp_path / "log")
        assert process.end() == 0, process.said

    return run


def model(**options):
    none = {"absolute_positions": "both", "position_offset": 0, "decoder_position_bias": False}
    return systems.model("position_variants", **{"decoder_layers": 2, **none, **options}).eval()


@forked
def test_a_decoder_with_relative_positions_translates_step_by_step_as_in_one_pass(tmp_path):
    net, net_input = model(decoder_position_bias=True, absolute_positions="none"), systems.batch()
    tables = [layer.self_attn.position_bias.weight for layer in net.decoder.layers]
    tokens = torch.randint(5, 40, (4, 5), generator=torch.Generator().manual_seed(1))
    order = torch.tensor([1, 0, 2])  # the last sentence has ended
    del net_input["prev_output_tokens"], net_input["src_lengths"]
    with torch.no_grad():
        out = net.encoder(**net_input)
        left = net.encoder.reorder_encoder_out(out, order)
        expected, state = net.decoder(tokens[order], encoder_out=left)[0], {}
        for step in range(1, 4):
            net.decoder(tokens[:, :step], encoder_out=out, incremental_state=state)
        net.decoder.reorder_incremental_state_scripting(state, order)
        for step in (4, 5):
            logits, _ = net.decoder(tokens[order][:, :step], encoder_out=left, incremental_state=state)
            torch.testing.assert_close(logits[:, -1], expected[:, step - 1], rtol=1e-5, atol=1e-5)
        for table in tables:
            table.zero_()
        plain = model(absolute_positions="none").decoder(tokens[order], encoder_out=left)[0]
        torch.testing.assert_close(net.decoder(tokens[order], encoder_out=left)[0], plain, rtol=1e-5, atol=1e-5)
    assert (expected - plain).abs().max() > 0.01


@forked
def test_positions_are_where_the_option_says(tmp_path):
    net_input = systems.batch(left_pad=True)
    whole = systems.model("tree_bias_transformer", decoder_layers=2).eval()(**net_input)[0]
    assert torch.equal(model()(**net_input)[0], whole)
    for side, other in (("encoder", "decoder"), ("decoder", "encoder")):
        net = model(absolute_positions=side)
        assert getattr(net, side).embed_positions is not None
        assert getattr(net, other).embed_positions is None
        assert not torch.equal(net(**net_input)[0], whole)


@forked
def test_shifted_positions_follow_each_other_from_a_random_one_in_training_alone(tmp_path):
    net, tokens = model(position_offset=9), systems.batch(left_pad=True)["src_tokens"]
    plain, shifted = model().encoder.embed_positions, net.encoder.embed_positions
    assert torch.equal(shifted(tokens), plain(tokens))
    found = shifted.train()(tokens)
    first = []
    for row, of_row in zip(tokens, found, strict=True):
        real = row != small.dictionary().pad()
        n = int(real.sum())
        assert not of_row[~real].any()
        windows = plain.weights[plain.padding_idx + 1 :].unfold(0, n, 1).transpose(1, 2)  # from each position on
        (at,) = (windows[:10] - of_row[real]).abs().amax(dim=(1, 2)).lt(1e-5).nonzero().flatten().tolist()
        first.append(at)
    assert len(set(first)) > 1


@pytest.mark.parametrize("name", ["tree_path_2", "tree_path_16"])
@forked
def test_paths_have_other_buckets(tmp_path, name):
    """A chain of ten words: more than the largest number of steps share a bucket."""
    most = int(name.rpartition("_")[2])
    bias = bias_type(name)()
    (row,) = bias.bias(torch.arange(10)[None], torch.arange(10)[None]).numbers[:, 0].tolist()
    assert len(set(row[1:])) == min(most, 9)
    assert max(row) < bias.build_layer_module(heads=1, head_dim=1, embed_dim=1).weight.shape[1]

"""Learned biases in a model: whose tables they are, and models without other syntax."""

from __future__ import annotations

import torch

import systems
from small import model

TINY = "relative_position_transformer_tiny"


def tables(net):
    return {n: p for n, p in net.named_parameters() if ".experts." in n or ".position_bias." in n}


def test_a_position_bias_alone_needs_no_features():
    net = systems.model(TINY).eval()
    assert net.syntax_features == ()
    assert not net.gates
    assert net.validation_trace() is None
    net_input = systems.batch()
    torch.testing.assert_close(net(**systems.of_stock(net_input))[0], net(**net_input)[0])


def test_each_syntax_layer_has_its_own_table_and_others_none():
    net = model(TINY, encoder_layers=3, syntax_layers="1,3")
    assert list(tables(net)) == [f"encoder.layers.{i}.self_attn.position_bias.weight" for i in (0, 2)]
    # Of an expert those of heads with syntax, of the scores those of all heads.
    net = model(encoder_layers=1, syntax_masks="position,tree_path", syntax_heads=2, position_bias=True)
    assert [(name.split(".")[-2], len(table)) for name, table in tables(net).items()] == [
        ("position", 2), ("tree_path", 2), ("position_bias", 4),
    ]  # fmt: skip

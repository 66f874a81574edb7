"""Learned biases in a model: neutral at first, and what a position bias alone needs."""

from __future__ import annotations

from argparse import Namespace
from random import Random

import pytest
import torch
from fairseq.models import ARCH_CONFIG_REGISTRY

from fairseq_syntax.models.transformer_options import SyntaxTransformerConfig
from fairseq_syntax.testing import random_features
from small import alone, batch, encode, model

TINY = "relative_position_transformer_tiny"

#: Options of models that have tables of biases.
LEARNED = {
    "position bias alone": {"arch": TINY},
    "position, pure": {"syntax_masks": "position", "syntax_combination": "pure"},
    "trees, product": {"syntax_masks": "tree_path,tree_height", "syntax_combination": "product"},
    "trees, gate": {"syntax_masks": "tree_path,tree_height"},
    "trees and position, product": {"arch": "tree_bias_transformer_tiny"},
    "all, average": {"syntax_masks": "position,tree_path,tree_height", "syntax_combination": "average"},
    "two heads": {"syntax_masks": "position,tree_path", "syntax_heads": 2, "position_bias": True},
    "position bias under a mask": {"syntax_masks": "slr,sdoi", "syntax_combination": "product", "position_bias": True},
}


def mixed_batch(**kwargs):
    random = Random(7)
    sentences = [random_features(random, words, words + more) for words, more in ((1, 0), (5, 2), (9, 3))]
    return batch([*sentences, 8], **kwargs)


def without_features(net_input):
    return {k: v for k, v in net_input.items() if k != "src_syntax"}


def tables(net):
    return {n: p for n, p in net.named_parameters() if ".experts." in n or ".position_bias." in n}


def trained(net):
    """With biases that are not 0 any more."""
    generator = torch.Generator().manual_seed(8)
    with torch.no_grad():
        for table in tables(net).values():
            table.copy_(torch.randn(table.shape, generator=generator))
    return net


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("left_pad", [True, False])
@pytest.mark.parametrize("implementation", ["plain", "auto", "fused"])
@pytest.mark.parametrize("kind", [kind for kind in LEARNED if "mask" not in kind])
def test_tables_of_zeros_equal_stock(kind, implementation, left_pad, training):
    stock = model("transformer", seed=3)
    ours = model(seed=4, syntax_attention=implementation, **LEARNED[kind])
    ours.load_state_dict(stock.state_dict(), strict=False)
    net_input = mixed_batch(left_pad=left_pad)
    stock.train(training)
    ours.train(training)
    real = net_input["src_tokens"].ne(1)
    plain = without_features(net_input)
    torch.testing.assert_close(encode(ours, net_input)[real], encode(stock, plain)[real], rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(ours(**net_input)[0], stock(**plain)[0], rtol=1e-5, atol=1e-5)


def test_a_position_bias_alone_needs_no_features():
    net = trained(model(TINY)).eval()
    assert net.syntax_features == ()
    assert not net.gates
    assert net.validation_trace() is None
    net_input = mixed_batch()
    torch.testing.assert_close(net(**without_features(net_input))[0], net(**net_input)[0])


@pytest.mark.parametrize("kind", LEARNED)
def test_without_a_parse_position_stays_and_trees_have_no_say(kind):
    zero, net = model(**LEARNED[kind]).eval(), trained(model(**LEARNED[kind])).eval()
    net_input = mixed_batch()
    difference = (encode(net, net_input) - encode(zero, net_input)).abs().amax(dim=(1, 2))
    assert (difference[1:3] > 1e-3).all()
    assert (difference[3] > 1e-3) == ("position" in kind or "position" in LEARNED[kind]["syntax_masks"])


@pytest.mark.parametrize("kind", LEARNED)
def test_tables_have_gradients_also_under_activation_checkpointing(kind):
    nets = [trained(model(checkpoint_activations=c, **LEARNED[kind])).train() for c in (False, True)]
    nets[1].load_state_dict(nets[0].state_dict())
    for net in nets:
        net(**mixed_batch())[0].square().sum().backward()
        assert tables(net)
        assert all(table.grad.any() for table in tables(net).values())
    for (name, a), (_, b) in zip(nets[0].named_parameters(), nets[1].named_parameters(), strict=True):
        torch.testing.assert_close(a.grad, b.grad, msg=name)


@pytest.mark.parametrize("kind", LEARNED)
def test_padding_never_reaches_a_real_position(kind):
    random = Random(8)
    short, long = random_features(random, 4, 6), random_features(random, 12, 15)
    net = trained(model(**LEARNED[kind])).eval()
    for left_pad in (True, False):
        together = batch([long, short], left_pad=left_pad)
        n = len(short["word"])
        row = encode(net, together)[1]
        expected = encode(net, alone(together, 1, short, left_pad=left_pad))[0]
        torch.testing.assert_close(row[-n:] if left_pad else row[:n], expected, rtol=1e-5, atol=1e-5)


def test_each_guided_layer_has_its_own_table_and_others_none():
    net = model(TINY, encoder_layers=3, syntax_layers="1,3")
    assert list(tables(net)) == [f"encoder.layers.{i}.self_attn.position_bias.weight" for i in (0, 2)]
    net = model(encoder_layers=1, **LEARNED["two heads"])  # of a mask the guided heads', of the scores all heads'
    assert [(name.split(".")[-2], len(table)) for name, table in tables(net).items()] == [
        ("position", 2), ("tree_path", 2), ("position_bias", 4),
    ]  # fmt: skip


def test_a_stock_state_starts_fresh_tables():
    stock, net = model("transformer"), trained(model(**LEARNED["two heads"]))
    before = {name: table.clone() for name, table in tables(net).items()}
    net.load_state_dict(stock.state_dict(), strict=True)
    torch.testing.assert_close(net.encoder.layers[0].fc1.weight, stock.encoder.layers[0].fc1.weight)
    for name, table in tables(net).items():
        assert torch.equal(table, before[name])


@pytest.mark.parametrize(
    ("options", "wrong"),
    [
        ({"syntax_masks": "none"}, "--syntax-masks: expected some of .*, found none, which needs --position-bias"),
        ({"syntax_masks": ""}, "--syntax-masks: expected some of .*, found none, which needs --position-bias"),
        ({"syntax_masks": "none,slr", "position_bias": True}, "--syntax-masks: expected some of"),
        ({"position_bias": "yes"}, "--position-bias: expected true or false"),
    ],
)
def test_no_masks_without_a_position_bias(options, wrong):
    with pytest.raises(ValueError, match=wrong):
        model(**options)


@pytest.mark.parametrize("masks", ["", "none", " none "])
def test_no_masks_are_recorded_as_such(masks):
    net = model(syntax_masks=masks, position_bias=True)
    assert net.args.syntax_masks == "none"
    cfg = SyntaxTransformerConfig.from_namespace(net.args)
    assert (cfg.syntax.biases, cfg.syntax.gated, cfg.semantics["position_bias"]) == ((), False, True)


@pytest.mark.parametrize("suffix", ["", "_tiny"])
@pytest.mark.parametrize(
    ("arch", "options"),
    [
        ("relative_position_transformer", {"syntax_masks": "none"}),
        ("tree_bias_transformer", {"syntax_masks": "tree_path,tree_height", "syntax_combination": "product"}),
    ],
)
def test_architectures_differ_from_gated_ones_in_masks_and_position_alone(arch, options, suffix):
    gated, found = Namespace(), Namespace()
    ARCH_CONFIG_REGISTRY[f"gated_syntax_transformer{suffix}"](gated)
    ARCH_CONFIG_REGISTRY[arch + suffix](found)
    assert vars(found) == {**vars(gated), **options, "position_bias": True}

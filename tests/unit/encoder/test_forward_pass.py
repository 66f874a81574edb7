"""A pass through the encoder: parameters of biases, traces, and gradients under activation checkpointing."""

from __future__ import annotations

from random import Random

import pytest
import torch

import small
from fairseq_syntax.encoder.encoder import SyntaxTransformerEncoder
from fairseq_syntax.modules.trace import SyntaxTrace
from fairseq_syntax.testing import random_features


def encoder(**options) -> SyntaxTransformerEncoder:
    """An encoder with a bias that has parameters, of which each syntax layer has its own."""
    return small.model(syntax_masks="slr,position", syntax_layers="1-2", encoder_layers=3, **options).encoder


def batch():
    random = Random(1)
    return small.batch([random_features(random, 5, 7), random_features(random, 3, 4)])


@pytest.mark.parametrize("contents", [("scores",), ("gates", "attention")])
def test_a_trace_has_gradients_also_under_activation_checkpointing(contents):
    """As a loss on a head's scores needs: each layer's parameters get theirs. In float64, where rounding is small."""
    found = []
    for checkpointing in (False, True):
        net = encoder(checkpoint_activations=checkpointing).double().train()
        trace, net_input = SyntaxTrace(contents), batch()
        net(net_input["src_tokens"], src_syntax=net_input["src_syntax"], trace=trace)
        assert list(trace.layers) == [1, 2]
        sum(trace.stacked(name).square().sum() for name in contents).backward()
        grads = {n: torch.zeros_like(p) if p.grad is None else p.grad for n, p in net.named_parameters()}
        assert grads["layers.0.self_attn.q_proj.weight"].any()
        assert grads["layers.1.self_attn.q_proj.weight"].any()
        found.append(grads)
    for name, grad in found[0].items():
        torch.testing.assert_close(found[1][name], grad, msg=name)


@pytest.mark.parametrize("implementation", ["reference", "shared", "sdpa"])
@pytest.mark.parametrize("masks", ["slr", "slr,position", "parent,slr"])
def test_predicted_syntax_has_the_same_gradient_under_activation_checkpointing(masks, implementation):
    """Distances that are no integers, as a model may predict them, learn from all layers, and those after the first."""
    found = []
    for checkpointing in (False, True):
        net = small.model(
            syntax_masks=masks, encoder_layers=3, syntax_layers="1-3,top", syntax_attention_impl=implementation,
            checkpoint_activations=checkpointing,
        ).double().train()  # fmt: skip
        net_input = batch()
        distance = net_input["src_syntax"]["distance"].double().requires_grad_()
        net_input["src_syntax"]["distance"] = distance * 1.0  # not a leaf, as of a predictor
        small.encode(net, net_input).square().sum().backward()
        found.append({"distance": distance.grad, **{name: p.grad for name, p in net.encoder.named_parameters()}})
    assert found[0]["distance"].any()
    for name, gradient in found[0].items():
        torch.testing.assert_close(found[1][name], gradient, msg=name)


def test_a_trace_changes_nothing_and_keeps_what_was_asked_for():
    net = small.model(syntax_masks="slr,sdoi", encoder_layers=3, syntax_layers="1,3").eval()
    net_input = batch()
    trace = SyntaxTrace(("gates", "attention", "scores"))
    torch.testing.assert_close(net(**net_input, trace=trace)[0], net(**net_input)[0])
    assert list(trace.layers) == [1, 3]
    assert trace.stacked("gates").shape == (2, 2, 2, 4)
    assert trace.stacked("attention").shape == (2, 2, 4, 8, 8)
    torch.testing.assert_close(trace.stacked("attention").sum(-1), torch.ones(2, 2, 4, 8))
    pure = small.model(syntax_combination="pure").eval()
    trace = SyntaxTrace(("gates", "attention"))
    pure(**net_input, trace=trace)
    assert trace.layers[1].keys() == {"attention"}
    with pytest.raises(ValueError, match="expected some of gates, attention, scores, prediction, found gate"):
        SyntaxTrace(("gate",))

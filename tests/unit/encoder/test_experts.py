"""Experts of every kind: factors, biases of each head, weights of each query, parameters; and traces of a pass."""

from __future__ import annotations

import copy
import math
from dataclasses import replace
from random import Random

import pytest
import torch
from torch import nn

import small
from fairseq_syntax.encoder.attention import SyntaxAttention
from fairseq_syntax.encoder.encoder import SyntaxTransformerEncoder
from fairseq_syntax.modules.biases import (
    UNKNOWN,
    AttentionBias,
    BiasBuilder,
    ParentScaling,
    PredictedParent,
    RelativePosition,
    SyntacticDependencyOfInterest,
    SyntacticLocalRange,
    SyntaxAwareLocalAttention,
    SyntaxBias,
    TreeHeight,
    TreePath,
    position_buckets,
)
from fairseq_syntax.modules.biases.base import bias_names, register_syntax_bias
from fairseq_syntax.modules.trace import SyntaxTrace
from fairseq_syntax.options import option
from fairseq_syntax.testing import random_features


class Gaussian(SyntaxBias):
    """A factor, the same for all heads: a bell around each position."""

    name = "gaussian"
    features = ("word",)

    def bias(self, word):
        place = torch.arange(word.shape[1], dtype=torch.float32)
        bell = torch.exp(-((place[:, None] - place) ** 2) / 2) / math.sqrt(2 * math.pi)
        return AttentionBias(factor=bell.expand(len(word), 1, -1, -1))


class Slopes(SyntaxBias):
    """A bias of its own for each head."""

    name = "slopes"
    features = ("word",)

    def bias(self, word):
        place = torch.arange(word.shape[1], dtype=torch.float32)
        away = (place[:, None] - place).abs()
        slopes = torch.tensor([0.0, 0.5, 1.0, 2.0])[:, None, None]
        return AttentionBias(bias=(-slopes * away).expand(len(word), -1, -1, -1))


class Buckets(SyntaxBias):
    """A table of biases a layer: one number a head and bucket."""

    name = "buckets"
    features = ("word",)

    def bias(self, word):
        place = torch.arange(word.shape[1])
        return (place[None, :, None] - place).clamp(-2, 2).add(2).expand(len(word), -1, -1)

    def build_layer_module(self, *, heads, head_dim, embed_dim):
        return Table(heads)


class Table(nn.Module):
    def __init__(self, heads: int):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(heads, 5))

    def forward(self, buckets, query=None):
        return AttentionBias(bias=self.weight[:, buckets].transpose(0, 1))


class OfEachQuery(nn.Module):
    """Weights of (batch, 1 + masks, heads, n)."""

    def __init__(self, masks: int, heads: int):
        super().__init__()
        self.linear = nn.Linear(16, masks * heads)
        self.shape = masks, heads

    def forward(self, x, hidden, statistics=None):
        logits = self.linear(x).unflatten(2, self.shape).permute(1, 2, 3, 0)
        weights = logits.sigmoid() / self.shape[0]
        return torch.cat([1 - weights.sum(1, keepdim=True), weights], dim=1)


def attention(masks, **options) -> SyntaxAttention:
    torch.manual_seed(2)
    return trained(small.attention(masks, **options))


def trained(net):
    """With tables of biases that are not 0 any more."""
    generator = torch.Generator().manual_seed(8)
    for name, weight in net.state_dict().items():
        if ".experts." in f".{name}" or "position_bias" in name:
            weight.copy_(torch.randn(weight.shape, generator=generator))
    return net


def padded_batch():
    random = Random(3)
    net_input = small.batch([random_features(random, 5, 7), random_features(random, 3, 4), 5])
    return net_input["src_syntax"], net_input["src_tokens"].eq(small.dictionary().pad())


KINDS = {
    "factor": [Gaussian()],
    "bias of each head": [Slopes()],
    "parameters": [Buckets()],
    "all": [Gaussian(), Slopes(), Buckets(), SyntacticLocalRange()],
    "relative position": [RelativePosition()],
    "learned": [SyntacticLocalRange(), RelativePosition(), TreeHeight(), TreePath()],
    "trees": [TreeHeight(), TreePath()],
    "shared": [SyntacticLocalRange(), SyntacticDependencyOfInterest()],
    "near words": [SyntaxAwareLocalAttention(distance=1)],
    "parent": [ParentScaling()],
    "parser": [PredictedParent()],
    "papers": [SyntacticLocalRange(), PredictedParent(), ParentScaling(), SyntaxAwareLocalAttention()],
    "none": [],
}


@pytest.mark.parametrize("of_each_query", [False, True])
@pytest.mark.parametrize("implementation", ["plain", "auto", "shared", "fused"])
@pytest.mark.parametrize("kind", [kind for kind, masks in KINDS.items() if masks])
def test_experts_are_the_formula_in_value_and_gradient(kind, implementation, of_each_query):
    masks = KINDS[kind]
    syntax, padding = padded_batch()
    net = attention(masks, implementation=implementation).double()
    if of_each_query:
        net.gate = OfEachQuery(len(masks), 4).double()
    compare(net, masks, syntax, padding)


@pytest.mark.parametrize("implementation", ["plain", "auto", "shared", "fused"])
@pytest.mark.parametrize("kind", [kind for kind, masks in KINDS.items() if masks])
def test_mixtures_by_token_gates_are_the_formula(kind, implementation):
    masks = KINDS[kind]
    syntax, padding = padded_batch()
    net = attention(masks, implementation=implementation, combination="token-gate").double()
    compare(net, masks, syntax, padding)


#: Of each kind how many heads it may guide; one with a bias for each head is made for all of them, and of queries and
#: keys nothing would be left if a parser took the place of all.
HEADS = [
    (kind, heads)
    for kind in KINDS
    for heads in (4, 3)
    if (kind, heads) not in (("bias of each head", 3), ("all", 3), ("parser", 4), ("papers", 4))
]


@pytest.mark.parametrize("combination", ["gate", "average", "pure", "product"])
@pytest.mark.parametrize("implementation", ["plain", "auto", "shared", "fused"])
@pytest.mark.parametrize(("kind", "heads"), HEADS)
def test_a_bias_by_position_is_added_to_the_scores_of_all_experts(kind, implementation, heads, combination):
    masks = KINDS[kind]
    syntax, padding = padded_batch()
    net = attention(
        masks, implementation=implementation, syntax_heads=heads, combination=combination, position_bias=True
    ).double()
    compare(net, masks, syntax, padding)


@pytest.mark.parametrize("combination", ["average", "pure", "product"])
@pytest.mark.parametrize("implementation", ["plain", "auto", "shared", "fused"])
@pytest.mark.parametrize(("kind", "heads"), [(kind, heads) for kind, heads in HEADS if KINDS[kind]])
def test_mixtures_without_gates_are_the_formula(kind, implementation, heads, combination):
    masks = KINDS[kind]
    syntax, padding = padded_batch()
    net = attention(masks, implementation=implementation, syntax_heads=heads, combination=combination).double()
    compare(net, masks, syntax, padding)


def compare(net, masks, syntax, padding):
    """The output and the gradients of all parameters with those of the formula."""
    torch.manual_seed(6)
    x = torch.randn(8, 3, 16, dtype=torch.float64)
    built = BiasBuilder(masks, position=position_buckets if net.position_bias else None)(syntax)
    results = []
    for compute in (lambda: net(x, x, x, key_padding_mask=padding, need_weights=False, syntax=built)[0],
                    lambda: by_the_formula(net, x, padding, masks, built)):  # fmt: skip
        net.zero_grad()
        real = compute().transpose(0, 1)[~padding]
        (real * torch.linspace(-1, 1, real.numel(), dtype=torch.float64).view_as(real)).sum().backward()
        grads = [p.grad.clone() for p in net.parameters()]
        assert all(
            g.any() for (name, _), g in zip(net.named_parameters(), grads, strict=True) if name.endswith("weight")
        )
        results.append([real, *grads])
    for found, expected in zip(*results, strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-6)


def by_the_formula(net, x, padding, masks, built):
    """softmax(f ⊙ x + b + padding) for each expert, weighted and summed, sentence by sentence and head by head."""
    q, k, v = (projection(x) for projection in (net.q_proj, net.k_proj, net.v_proj))
    weights = by_hand(net, x, padding, len(masks))
    modifiers = [
        net.experts[mask.name](expert, x) if mask.name in net.experts else expert
        for mask, expert in zip(masks, built.biases, strict=True)
    ]
    modifiers = [g if known is None else g.where(known) for g, known in zip(modifiers, built.known, strict=True)]
    sentences = []
    for b in range(x.shape[1]):
        heads = []
        for h in range(4):
            part = slice(4 * h, 4 * h + 4)
            scores = q[:, b, part] @ k[:, b, part].T / 2
            if net.position_bias is not None:
                scores = scores + net.position_bias.weight[h][built.position.numbers[0]]
            hidden = torch.zeros(8, dtype=x.dtype).masked_fill(padding[b], -torch.inf)
            experts = [scores]
            factors, biases = [], []
            for expert in modifiers if h < net.syntax_heads else []:
                factor, bias = (
                    None if part is None else part[b % len(part), h % part.shape[1]].double()
                    for part in (expert.factor, expert.bias)
                )
                factors.append(torch.ones_like(scores) if factor is None else factor.expand_as(scores))
                biases.append(torch.zeros_like(scores) if bias is None else bias)
            if net.combination == "product" and factors:
                factors, biases = [torch.stack(factors).prod(0)], [torch.stack(biases).sum(0)]
            experts += [factor * scores + bias for factor, bias in zip(factors, biases, strict=True)]
            probabilities = [(expert + hidden).softmax(-1) for expert in experts]
            of_head = weights[b, :, h] if h < net.syntax_heads else weights[b, :0, 0]
            w = of_head if weights.dim() == 4 else of_head[:, None]  # (masks, n or 1)
            mixed = (1 - w.sum(0))[:, None] * probabilities[0]
            for k_, probability in enumerate(probabilities[1:]):
                mixed = mixed + w[k_][:, None] * probability
            heads.append(mixed @ v[:, b, part])
        sentences.append(torch.cat(heads, dim=-1))
    return net.out_proj(torch.stack(sentences, dim=1))


def by_hand(net, x, padding, masks):
    if net.gate is not None:
        return net.gate(x, small.hides(padding))[:, 1:]
    parts = {"gate": 1, "average": masks + 1, "pure": masks, "product": 1}[net.combination]
    experts = min(1, masks) if net.combination == "product" else masks
    return torch.full((x.shape[1], experts, net.syntax_heads), 1 / max(1, parts), dtype=x.dtype)


def test_a_factor_of_zero_leaves_no_number_where_padding_is():
    class Nothing(Gaussian):
        def bias(self, word):
            return AttentionBias(factor=torch.zeros(len(word), 1, word.shape[1], word.shape[1]))

    syntax, padding = padded_batch()
    net = attention([Nothing()], combination="pure")
    x = torch.randn(8, 3, 16)
    output, weights = net(x, x, x, key_padding_mask=padding, syntax=BiasBuilder([Nothing()])(syntax))
    assert output.isfinite().all()
    expected = (~padding).float() / (~padding).sum(1, keepdim=True)
    torch.testing.assert_close(weights[:2][~padding[:2]], expected[:2, None].expand(-1, 8, -1)[~padding[:2]])


@pytest.mark.parametrize("kind", ["factor", "bias of each head", "parameters", "all", "trees", "shared"])
def test_a_sentence_without_a_parse_is_guided_by_no_kind_of_expert(kind):
    """Whatever a mask makes of unknown positions: they see, and are seen, as in a plain Transformer."""
    masks = KINDS[kind]
    syntax, padding = padded_batch()
    syntax = {name: feature.clone() for name, feature in syntax.items()}
    for feature in syntax.values():
        feature[2] = UNKNOWN
    net = attention(masks, combination="pure")
    plain = attention([SyntacticLocalRange()])
    plain.load_state_dict(net.state_dict(), strict=False)
    plain.gate.forward = lambda x, hidden, statistics: torch.tensor([1.0, 0.0]).view(1, 2, 1).expand(3, 2, 4)
    x = torch.randn(8, 3, 16)
    guided, unguided = (
        module(x, x, x, key_padding_mask=padding, need_weights=False, syntax=BiasBuilder(of)(syntax))[0]
        for module, of in ((net, masks), (plain, [SyntacticLocalRange()]))
    )
    torch.testing.assert_close(guided[:, 2], unguided[:, 2])
    assert not torch.allclose(guided[:, 0], unguided[:, 0])


def test_a_bias_too_large_to_be_a_mask_is_not_shared():
    class Loud(Slopes):
        def bias(self, word):
            bias = torch.zeros(len(word), 1, word.shape[1], word.shape[1])
            bias[..., 0] = 90.0  # exp of it is infinite in float32
            return AttentionBias(bias=bias)

    syntax, padding = padded_batch()
    x = torch.randn(8, 3, 16)
    found = [
        attention([Loud()], implementation=way)(
            x, x, x, key_padding_mask=padding, need_weights=False, syntax=BiasBuilder([Loud()])(syntax)
        )[0]
        for way in ("plain", "shared")
    ]
    assert found[0].isfinite().all()
    torch.testing.assert_close(found[1], found[0])


def test_gates_of_each_query_are_traced_as_their_mean_over_real_positions():
    syntax, padding = padded_batch()
    net = attention([SyntacticLocalRange()])
    net.gate = OfEachQuery(1, 4)
    x = torch.randn(8, 3, 16)
    built = BiasBuilder([SyntacticLocalRange()])(syntax)
    *_, gates = net(x, x, x, key_padding_mask=padding, need_weights=False, syntax=built, contents=("gates",))
    of_queries = net.gate(x, small.hides(padding))[:, 1:]
    expected = torch.stack([of_queries[b][..., ~padding[b]].mean(-1) for b in range(3)])
    torch.testing.assert_close(gates, expected)


def encoder(**options) -> SyntaxTransformerEncoder:
    """With a mask that has parameters, of which each guided layer has its own."""
    net = small.model(syntax_layers="1-2", encoder_layers=3, **options)
    syntax = replace(net.encoder.options, biases=(Buckets(), SyntacticLocalRange()))
    torch.manual_seed(5)
    return SyntaxTransformerEncoder(net.cfg, net.encoder.dictionary, net.encoder.embed_tokens, syntax)


def test_parameters_of_a_mask_are_each_layers_own_and_are_saved():
    net = encoder()
    names = [name for name in net.state_dict() if "experts" in name]
    assert names == [f"layers.{i}.self_attn.experts.buckets.weight" for i in (0, 1)]
    random = Random(1)
    net_input = small.batch([random_features(random, 5, 7), random_features(random, 3, 4)])
    before = small.encode(SimpleModel(net.eval()), net_input)
    copied = copy.deepcopy(net)
    with torch.no_grad():
        copied.layers[1].self_attn.experts["buckets"].weight += 1  # the same for all keys, so nothing
        torch.testing.assert_close(small.encode(SimpleModel(copied), net_input), before)
        copied.layers[1].self_attn.experts["buckets"].weight[:, 0] += 1
    assert not torch.allclose(small.encode(SimpleModel(copied), net_input), before)
    copied.load_state_dict(net.state_dict())
    torch.testing.assert_close(small.encode(SimpleModel(copied), net_input), before)


class SimpleModel:
    def __init__(self, net):
        self.encoder = net


@pytest.mark.parametrize("contents", [("scores",), ("gates", "attention")])
def test_what_a_trace_keeps_has_gradients_also_under_activation_checkpointing(contents):
    """As a loss on a head's scores needs: each layer's parameters get theirs. In float64, where rounding is small."""
    random = Random(1)
    net_input = small.batch([random_features(random, 5, 7), random_features(random, 3, 4)])
    found = []
    for checkpointing in (False, True):
        net = encoder(checkpoint_activations=checkpointing).double().train()
        trace = SyntaxTrace(contents)
        net(net_input["src_tokens"], src_syntax=net_input["src_syntax"], trace=trace)
        assert list(trace.layers) == [1, 2]
        sum(trace.stacked(name).square().sum() for name in contents).backward()
        grads = {n: torch.zeros_like(p) if p.grad is None else p.grad for n, p in net.named_parameters()}
        assert grads["layers.0.self_attn.q_proj.weight"].any()
        assert grads["layers.1.self_attn.q_proj.weight"].any()
        found.append(grads)
    for name, grad in found[0].items():
        torch.testing.assert_close(found[1][name], grad, msg=name)


def test_a_trace_changes_nothing_and_keeps_what_was_asked_for():
    net = small.model(syntax_masks="slr,sdoi", encoder_layers=3, syntax_layers="1,3").eval()
    random = Random(1)
    net_input = small.batch([random_features(random, 5, 7), random_features(random, 3, 4)])
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


@pytest.mark.parametrize(
    ("name", "features", "wrong"),
    [
        ("slr", ("word",), "expected a new name for a syntax mask"),
        ("my-mask", ("word",), "expected a new name for a syntax mask"),
        ("none", ("word",), "expected a new name for a syntax mask"),
        ("mine", ("tree",), "mine: expected features among word, distance"),
    ],
)
def test_a_mask_that_cannot_be_registered_is_refused(name, features, wrong):
    before = bias_names()
    with pytest.raises(ValueError, match=wrong):
        register_syntax_bias(name)(type("Mine", (SyntaxBias,), {"features": features, "__annotations__": {}}))
    assert bias_names() == before


def test_an_option_of_another_mask_is_refused():
    class Mine(SyntaxBias):
        features = ("word",)
        temperature: float = option(1.0, help="…", name="slr_temperature")

    with pytest.raises(ValueError, match="mine: --slr-temperature is the option of another syntax mask"):
        register_syntax_bias("mine")(Mine)

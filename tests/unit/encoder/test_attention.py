"""Attention by a mixture of experts: all implementations are the formula, for any numbers; dropout, and traces."""

from __future__ import annotations

import copy
import math
from random import Random

import pytest
import torch
from fairseq.modules.fairseq_dropout import FairseqDropout

import small
from fairseq_syntax.encoder import attention as encoder_attention
from fairseq_syntax.encoder.attention import SyntaxAttention
from fairseq_syntax.modules import numerics
from fairseq_syntax.modules.attention import IMPLEMENTATIONS, ExpertMixture, ReferenceAttention, choose, scores, shared
from fairseq_syntax.modules.biases import (
    AttentionBias,
    BatchBiases,
    BiasBuilder,
    Buckets,
    PairValues,
    ParentScaling,
    PredictedParent,
    RelativePosition,
    SyntacticDependencyOfInterest,
    SyntacticLocalRange,
    SyntaxAwareLocalAttention,
    SyntaxBias,
    TreeCategory,
    TreeEdge,
    TreeHeight,
    TreePath,
)
from fairseq_syntax.testing import LABELS, random_features, random_labels
from pairwise import pairwise
from syntax_data.features import INFINITE

MASKS = [SyntacticLocalRange(temperature=1.0), SyntacticDependencyOfInterest()]
DTYPES = [torch.float64, torch.float32, torch.float16, torch.bfloat16]
TOLERANCE = {torch.float16: 2e-3, torch.bfloat16: 2e-2}  # else 1e-5

every_implementation = pytest.mark.parametrize("implementation", IMPLEMENTATIONS)


def offsets(word: torch.Tensor) -> torch.Tensor:
    """j - i, (n, n)."""
    position = torch.arange(word.shape[1])
    return position - position[:, None]


class Gaussian(SyntaxBias):
    """A factor, the same for all heads: a normal density around each position."""

    name = "gaussian"
    features = ("word",)

    def bias(self, word):
        density = torch.exp(-(offsets(word) ** 2) / 2) / math.sqrt(2 * math.pi)
        return AttentionBias(factor=density.expand(len(word), 1, -1, -1))


class Slopes(SyntaxBias):
    """A bias of its own for each head."""

    name = "slopes"
    features = ("word",)

    def bias(self, word):
        slopes = torch.tensor([0.0, 0.5, 1.0, 2.0])[:, None, None]
        return AttentionBias(bias=(-slopes * offsets(word).abs()).expand(len(word), -1, -1, -1))


class Opposite(SyntaxBias):
    """The vector -1 of each pair."""

    name = "opposite"
    features = ("word",)

    def bias(self, word):
        numbers = torch.zeros(len(word), word.shape[1], word.shape[1], dtype=torch.long)
        values = PairValues(Buckets(numbers), torch.full((1, 4), -1.0))
        return AttentionBias(bias=torch.zeros(numbers.unsqueeze(1).shape), values=[values])


class AlsoOpposite(Opposite):
    """The same, as an expert of its own."""

    name = "also opposite"


def attention(masks=MASKS, **options) -> SyntaxAttention:
    """Tables of biases are random."""
    torch.manual_seed(2)
    net = small.attention(masks, **options)
    generator = torch.Generator().manual_seed(8)
    for name, weight in net.state_dict().items():
        if name.startswith("experts.") or "position_bias" in name:
            weight.copy_(torch.randn(weight.shape, generator=generator))
    return net


def random_bias(batch: int, n: int, masks: int = 2, has_parse: list[bool] | None = None) -> BatchBiases:
    """Random masks, some entries 0."""
    m = torch.rand(batch, masks, n, n, generator=torch.Generator().manual_seed(3))
    m = torch.where(m < 0.4, torch.zeros(()), m)
    m[:, :, range(n), range(n)] = 1
    parsed = torch.tensor(has_parse or [True] * batch)[:, None].expand(-1, masks)
    return small.mask_biases(m.log(), parsed)


def mixed_bias(n: int) -> BatchBiases:
    """Biases of a batch of width n: a whole sentence, a padded one, one without a parse, two sentences on a line."""
    random = Random(n)
    sentences: list = [1] * 4  # of a sentence of one subword, `</s>`, there is nothing to parse
    if n > 1:
        two = random_features(random, max(1, n // 2), n - 1)
        two["distance"][n // 2] = INFINITE
        short = max(1, n // 3)
        sentences = [random_features(random, max(1, n // 2), n - 1), random_features(random, short, short), n, two]
    return built(MASKS, small.batch(sentences))


def built(masks, net_input, *, position: bool = False) -> BatchBiases:
    padding = net_input["src_tokens"].eq(small.dictionary().pad())
    return BiasBuilder(masks, position=RelativePosition() if position else None)(
        net_input["src_syntax"], padding=padding if padding.any() else None
    )


def padded_batch():
    random = Random(3)
    sentences = [{**random_features(random, w, n), **random_labels(random, n)} for w, n in ((5, 7), (3, 4))]
    return small.batch([*sentences, 5])


def real(output: torch.Tensor, syntax: BatchBiases) -> torch.Tensor:
    """The output of positions that are no padding."""
    output = output.transpose(0, 1)
    return output if syntax.padding is None else output[~syntax.padding]


KINDS = {
    "factor": [Gaussian()],
    "bias of each head": [Slopes()],
    "all": [Gaussian(), Slopes(), TreePath(), SyntacticLocalRange()],
    "relative position": [RelativePosition()],
    "learned": [SyntacticLocalRange(), RelativePosition(), TreeHeight(), TreePath()],
    "trees": [TreeHeight(), TreePath()],
    "edges": [TreeEdge(labels=LABELS), TreePath(), TreeHeight()],
    "values": [TreeEdge(labels=LABELS, values=True), TreePath()],
    "values of kinds and labels": [Gaussian(), TreeEdge(labels=LABELS[:3], values=True, factored=True)],
    "values of neighbours": [TreeCategory(labels=LABELS[:3], values=True), TreeEdge(labels=LABELS, values=True)],
    "values of masks": [Opposite(), *MASKS],
    "shared": MASKS,
    "near words": [SyntaxAwareLocalAttention(distance=1)],
    "parent": [ParentScaling()],
    "parser": [PredictedParent()],
    "papers": [SyntacticLocalRange(), PredictedParent(), ParentScaling(), SyntaxAwareLocalAttention()],
    "none": [],
}
COMBINATIONS = ["gate", "token-gate", "average", "pure", "product"]


def can_be(kind: str, combination: str, implementation: str, heads: int, position_bias: bool) -> bool:
    if not KINDS[kind]:
        return position_bias and not combination.endswith("gate")
    # A bias of each head is of all of them; of queries and keys nothing would be left under a parser of all heads.
    return heads == 4 if kind in ("bias of each head", "all") else heads == 3 or kind not in ("parser", "papers")


@pytest.mark.parametrize(
    ("kind", "combination", "implementation", "heads", "position_bias"),
    pairwise(list(KINDS), COMBINATIONS, ["auto", *IMPLEMENTATIONS], [4, 3], [False, True], valid=can_be)
    + [row for i in IMPLEMENTATIONS for c in COMBINATIONS for row in [("shared", c, i, 3, False)]],
)
def test_attention_is_the_formula_in_value_and_gradient(kind, combination, implementation, heads, position_bias):
    masks = KINDS[kind]
    net = attention(
        masks, implementation=implementation, syntax_heads=heads, combination=combination, position_bias=position_bias
    ).double()
    syntax = built(masks, padded_batch(), position=position_bias)
    for bias in syntax.biases:  # gradients of biases, too
        if isinstance(bias, AttentionBias) and bias.bias is not None:
            bias.bias = bias.bias.double().requires_grad_()
    torch.manual_seed(6)
    x = torch.randn(8, 3, 16, dtype=torch.float64, requires_grad=True)
    inputs = [x, *net.parameters(), *syntax.differentiable]
    results = []
    for compute in (lambda: net(x, syntax)[0], lambda: by_the_formula(net, x, masks, syntax)):
        output = real(compute(), syntax)
        upstream = torch.linspace(-1, 1, output.numel(), dtype=torch.float64).view_as(output)
        results.append([output, *torch.autograd.grad(output, inputs, upstream, allow_unused=True)])
    assert all(
        gradient.any() for (name, _), gradient in zip(net.named_parameters(), results[0][2:], strict=False)
        if name.endswith("weight")
    )  # fmt: skip
    for found, expected in zip(*results, strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-6)


TABLES = ["relative position", "learned", "trees", "edges", "values", "values of kinds and labels", "shared"]


@pytest.mark.parametrize(
    ("kind", "combination", "implementation"), pairwise(TABLES, COMBINATIONS, ["auto", *IMPLEMENTATIONS])
)
def test_a_scale_of_tables_is_a_factor_of_their_parameters_and_of_the_gradients(kind, combination, implementation):
    """Under a scale S, θ does what S·θ does under 1, and has S times its gradient; relative position is a table."""
    masks = KINDS[kind]
    results = []
    for scale in (1.0, 100.0):
        net = attention(
            masks,
            implementation=implementation,
            combination=combination,
            position_bias=True,
            bias_table_scale=scale,
        ).double()
        tables = [parameter for table in net.tables.values() for parameter in table.parameters()]
        for parameter in tables:
            parameter.data /= scale
        syntax = built(masks, padded_batch(), position=True)
        torch.manual_seed(6)
        x = torch.randn(8, 3, 16, dtype=torch.float64, requires_grad=True)
        output = real(net(x, syntax)[0], syntax)
        upstream = torch.linspace(-1, 1, output.numel(), dtype=torch.float64).view_as(output)
        of_tables = torch.autograd.grad(output, tables, upstream, retain_graph=True)
        assert all(gradient.any() for gradient in of_tables)
        others = torch.autograd.grad(output, [x, net.q_proj.weight, net.v_proj.weight], upstream)
        biases = net.learned_biases(syntax)  # as they are drawn
        results.append([output, *others, *(gradient / scale for gradient in of_tables), *biases.values()])
    for expected, found in zip(*results, strict=True):
        torch.testing.assert_close(found, expected)


def by_the_formula(net, x, masks, syntax):
    """softmax(f ⊙ x + b + padding) for each expert, weighted and summed, sentence by sentence and head by head."""
    q, k, v = (projection(x) for projection in (net.q_proj, net.k_proj, net.v_proj))
    weights = weights_by_hand(net, x, len(masks), syntax)
    modifiers = [
        net.experts[mask.name](bias, x) if mask.name in net.experts else bias
        for mask, bias in zip(masks, syntax.biases, strict=True)
    ]
    sentences = []
    for b in range(x.shape[1]):
        heads = []
        for h in range(4):
            part = slice(4 * h, 4 * h + 4)
            x_ = q[:, b, part] @ k[:, b, part].T / 2
            if net.position_bias is not None:
                x_ = x_ + net.position_bias.weight[h][syntax.position.numbers[0]]
            padding = torch.zeros(8, dtype=x.dtype).masked_fill(syntax.padding[b], -torch.inf)
            factors, biases = [], []
            for modifier in modifiers if h < net.syntax_heads else []:
                factor, bias = (
                    None if part is None else part[b % len(part), h % part.shape[1]].double()
                    for part in (modifier.factor, modifier.bias)
                )
                factors.append(torch.ones_like(x_) if factor is None else factor.expand_as(x_))
                biases.append(torch.zeros_like(x_) if bias is None else bias)
            if net.combination == "product" and factors:
                factors, biases = [torch.stack(factors).prod(0)], [torch.stack(biases).sum(0)]
            experts = [x_, *(factor * x_ + bias for factor, bias in zip(factors, biases, strict=True))]
            of_head = weights[b, :, h] if h < net.syntax_heads else weights[b, :0, 0]
            w = of_head if weights.dim() == 4 else of_head[:, None]  # (masks, n or 1)
            w = torch.cat([1 - w.sum(0, keepdim=True), w])
            mixed = sum(w[i][:, None] * (expert + padding).softmax(-1) for i, expert in enumerate(experts))
            output = mixed @ v[:, b, part]
            for i in range(1, len(experts)):
                own = w[i][:, None] * (experts[i] + padding).softmax(-1)
                for values in values_of_expert(net, modifiers, i):
                    numbers = values.buckets.numbers[b]
                    pairs = values.vectors[numbers.clamp(min=0)] * (numbers >= 0)[:, :, None]  # (n, n, 4)
                    output = output + (own[:, :, None] * pairs).sum(1)
            heads.append(output)
        sentences.append(torch.cat(heads, dim=-1))
    return net.out_proj(torch.stack(sentences, dim=1))


def values_of_expert(net, modifiers, i: int) -> list:
    """What the syntax expert i, from 1, sums beside v; under the product the only one, for all."""
    of_expert = modifiers if net.combination == "product" else modifiers[i - 1 : i]
    return [values for modifier in of_expert for values in modifier.values]


def weights_by_hand(net, x, masks, syntax):
    if net.gate is not None:
        return net.gate(x, small.hides(syntax.padding))[:, 1:]
    parts = {"gate": 1, "average": masks + 1, "pure": masks, "product": 1}[net.combination]
    experts = min(1, masks) if net.combination == "product" else masks
    return torch.full((x.shape[1], experts, net.syntax_heads), 1 / max(1, parts), dtype=x.dtype)


def assert_near(found, expected, dtype: torch.dtype) -> None:
    """Up to rounding of this type, of each tensor's largest number."""
    tolerance = TOLERANCE.get(dtype, 1e-5)
    for a, b in zip(found, expected, strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=tolerance * max(1.0, b.abs().max().item()))


def output_and_gradients(syntax: BatchBiases, dtype: torch.dtype, *, autocast: bool = False, **options):
    """Of random input, where no position is padding."""
    net = attention(**options).to(dtype)
    torch.manual_seed(4)
    x = torch.randn(syntax.biases[0].bias.shape[-1], 4, 16).to(dtype).requires_grad_()
    with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
        output = real(net(x, syntax)[0], syntax)
    assert output.dtype == (torch.bfloat16 if autocast else dtype)
    (output.float() * torch.randn(output.shape)).sum().backward()
    learned = [p.grad for name, p in net.named_parameters() if name != "k_proj.bias"]  # whose gradient is 0
    return [output, x.grad, *learned]


@pytest.mark.parametrize(
    ("implementation", "precision", "n", "syntax_heads"),
    pairwise(["shared", "sdpa"], ["float32", "float16", "bfloat16", "autocast"], [1, 2, 3, 64, 192], [4, 3]),
)
def test_implementations_equal_the_reference_at_any_length_and_precision(implementation, precision, n, syntax_heads):
    """The sentences are whole, padded, without a parse, and two on a line."""
    autocast = precision == "autocast"
    options = {"dtype": torch.float32 if autocast else getattr(torch, precision), "syntax_heads": syntax_heads}
    expected, found = (
        output_and_gradients(mixed_bias(n), autocast=autocast, implementation=i, **options)
        for i in ("reference", implementation)
    )
    assert_near(found, expected, torch.bfloat16 if autocast else options["dtype"])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@every_implementation
def test_the_operations_for_a_gpu_give_what_those_for_a_cpu_give(implementation, dtype, monkeypatch):
    results = []
    for asynchronous in (False, True):
        monkeypatch.setattr(numerics, "is_asynchronous", lambda device, on=asynchronous: on)
        results.append(output_and_gradients(mixed_bias(23), dtype, implementation=implementation))
    assert_near(results[1], results[0], dtype)


@pytest.fixture
def groups(monkeypatch) -> list[int]:
    """Sentences are computed three at a time; how many were each time."""
    taken: list[int] = []
    weights = shared.SharedAttention.weights

    def noted(self, x, mixture):
        taken.append(len(x))
        return weights(self, x, mixture)

    monkeypatch.setattr(shared, "group_size", lambda scores: 3)
    monkeypatch.setattr(shared.SharedAttention, "weights", noted)
    return taken


@pytest.mark.parametrize(
    ("kind", "combination", "dtype", "syntax_heads", "contents"),
    pairwise(
        ["padded", "without padding", "the same for all", "hides almost all"],
        ["gate", "token-gate", "average", "pure"], DTYPES, [4, 3], [(), ("attention", "scores")],
    ),
)  # fmt: skip
def test_evaluation_equals_the_reference_also_in_groups_of_sentences(
    groups, kind, combination, dtype, syntax_heads, contents
):
    syntax = mixed_bias(9)
    if kind == "without padding":
        syntax = BatchBiases(syntax.biases, syntax.has_parse)
    elif kind == "the same for all":
        syntax = small.mask_biases(torch.rand(1, 2, 9, 9).log(), syntax.has_parse, syntax.padding)
    elif kind == "hides almost all":  # of a sentence, which falls back to the reference
        log_masks = torch.where(torch.eye(9, dtype=torch.bool), -60.0, -90.0).expand(1, 2, -1, -1)
        log_masks = torch.cat([log_masks, small.log_masks(syntax)[1:]])
        syntax = small.mask_biases(log_masks, syntax.has_parse, syntax.padding)
    options = {"combination": combination, "syntax_heads": syntax_heads}
    reference, grouped = (attention(implementation=i, **options).to(dtype).eval() for i in ("reference", "auto"))
    x = torch.randn(9, 4, 16).to(dtype)
    tolerance = TOLERANCE.get(dtype, 1e-5)
    with torch.no_grad():
        expected = reference(x, syntax, contents=contents)
        for _ in range(2):  # layers, which share the groups
            found = grouped(x, syntax, contents=contents)
            torch.testing.assert_close(found, expected, rtol=tolerance, atol=tolerance)
    assert groups == ([4] * 2 if contents else [3, 1] * 2)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@every_implementation
def test_no_nan_for_any_mask_and_logits(implementation, dtype):
    """Also where a mask hides a key whose logits are far above, or below, all others."""
    random = Random(3)
    for trial in range(20):
        torch.manual_seed(trial)
        n, largest = random.choice([1, 2, 3, 5, 12, 33]), random.choice([1e4, 1e3, 10.0])
        masks = torch.rand(3, 2, n, n) ** random.choice([1, 20, 80])
        masks = torch.where(torch.rand(3, 2, n, n) < random.random(), torch.zeros(()), masks)
        masks[:, :, range(n), range(n)] = 1
        net = attention(
            implementation=implementation,
            combination=random.choice(["gate", "average", "pure"]),
            gate={"batch_norm": trial % 3 > 0, "statistics": ("running", "batch")[trial % 2], "eps": 0.1},
            syntax_heads=random.choice([2, 4]),
            syntax_dropout=random.choice([0.0, 0.3]) if dtype != torch.float32 else 0.0,
        )
        with torch.no_grad():  # the logits are x_i·x_j/√4, head by head
            for projection in (net.q_proj, net.k_proj):
                projection.weight.copy_(torch.eye(16))
                projection.bias.zero_()
        x = torch.randn(n, 3, 16)
        if trial % 2:  # one key has much larger logits, of either sign
            x[n // 2] *= 30
        x *= (2 * largest / x.view(n, 3, 4, 4).square().sum(-1).max()).sqrt()
        x, net = x.to(dtype).requires_grad_(), net.to(dtype)
        syntax = small.mask_biases(masks.log(), torch.ones(3, 2, dtype=torch.bool))
        reference = copy.deepcopy(net)
        reference.implementation = "reference"
        (output,) = net(x, syntax)
        assert output.dtype == dtype
        output.float().square().mean().backward()
        for tensor in (output, x.grad, *(p.grad for p in net.parameters() if p.grad is not None)):
            assert tensor.isfinite().all(), trial
        if dtype == torch.float32:
            torch.testing.assert_close(output, reference(x, syntax)[0], rtol=1e-4, atol=1e-4)


@every_implementation
def test_a_bias_too_large_to_be_a_mask_and_a_factor_of_zero_leave_finite_numbers(implementation):
    padding = built([Gaussian()], padded_batch()).padding
    loud = torch.zeros(3, 1, 8, 8)
    loud[..., 0] = 90.0  # exp of it is infinite in float32
    x = torch.randn(8, 3, 16)
    found = [
        attention([Slopes()], implementation=i)(
            x, BatchBiases([AttentionBias(bias=loud)], torch.ones(3, 1), padding=padding)
        )[0]
        for i in ("reference", implementation)
    ]
    assert found[0].isfinite().all()
    torch.testing.assert_close(found[1], found[0])
    nothing = BatchBiases([AttentionBias(factor=torch.zeros(3, 1, 8, 8))], torch.ones(3, 1), padding=padding)
    net = attention([Gaussian()], combination="pure", implementation=implementation)
    _, weights = net(x, nothing, contents=("attention",))
    expected = (~padding).float() / (~padding).sum(1, keepdim=True)
    torch.testing.assert_close(weights, expected[:, None, None].expand_as(weights))


@pytest.mark.parametrize("dropout", [0.0, 0.3])
@every_implementation
def test_dropout_acts_in_training_alone_and_syntax_dropout_on_sentences_with_a_parse(implementation, dropout):
    options = {"dropout": dropout, "dropout_on": "experts", "syntax_dropout": 0.3}
    net = attention(implementation=implementation, syntax_heads=2, **options)
    x, syntax = torch.randn(6, 2, 16), random_bias(2, 6, has_parse=[True, bool(dropout)])
    quiet = net.eval()(x, syntax)[0]
    assert torch.equal(net(x, syntax)[0], quiet)
    first, second = (net.train()(x, syntax)[0] for _ in range(2))
    assert not torch.allclose(first[:, 0], second[:, 0])
    assert torch.allclose(first[:, 1], quiet[:, 1]) == (not dropout)


@pytest.mark.parametrize("syntax_dropout", [0.0, 0.3])
@pytest.mark.parametrize("has_global_expert", [True, False])
@every_implementation
def test_dropout_of_experts_has_the_derived_mean_and_variance(implementation, has_global_expert, syntax_dropout):
    """The batch is of draws; v is the unit matrix, so that the output is A."""
    n, draws, p = 5, 30_000, 0.4
    torch.manual_seed(6)
    q, k = torch.randn(2, 1, 2, n, 4).unbind()
    log_masks = small.log_masks(random_bias(1, n))
    weights = torch.tensor([[0.5, 0.2], [0.3, 0.7], [0.2, 0.1]])[None]  # (1, experts, heads)
    weights = weights if has_global_expert else weights[:, 1:] / weights[:, 1:].sum(dim=1, keepdim=True)

    def mixture(batch: int, **dropouts: FairseqDropout | None) -> ExpertMixture:
        biases = small.mask_biases(log_masks.expand(batch, -1, -1, -1), torch.ones(batch, 2, dtype=torch.bool))
        of_all = weights.unsqueeze(-1).expand(batch, -1, -1, -1)
        return ExpertMixture(biases, of_all, has_global_expert, dropout_on="experts", **dropouts)

    def dropout(p: float) -> FairseqDropout | None:
        return FairseqDropout(p, "test") if p else None  # in training

    dropped = mixture(draws, syntax_dropout=dropout(syntax_dropout), dropout=dropout(p))
    many = [part.expand(draws, -1, -1, -1) for part in (q, k, torch.eye(n).expand(1, 2, -1, -1))]
    assert IMPLEMENTATIONS[implementation].supports(dropped)
    found = IMPLEMENTATIONS[implementation].attend(*many, dropped).output
    x = scores(q, k)
    attention = ReferenceAttention().weights(x, mixture(1))[0]
    parts = (log_masks.unsqueeze(1) + x.unsqueeze(2)).softmax(dim=-1)[0]  # (heads, masks, n, n)
    parts = torch.cat([x[0].softmax(dim=-1).unsqueeze(1), parts], dim=1) if has_global_expert else parts
    variances = torch.tensor([1 / (1 - p) - 1] * has_global_expert + [1 / ((1 - p) * (1 - syntax_dropout)) - 1] * 2)
    expected = ((weights[0].t()[:, :, None, None] * parts) ** 2 * variances[:, None, None]).sum(dim=1)
    torch.testing.assert_close(found.mean(dim=0), attention, rtol=0.02, atol=0.005)
    torch.testing.assert_close(found.var(dim=0), expected, rtol=0.05, atol=1e-4)
    if not syntax_dropout:
        of_mixture = attention**2 * p / (1 - p)
        share = (expected / of_mixture)[of_mixture > 0]
        assert 0.999 / (2 + has_global_expert) < share.min() < share.max() < 1.001


@pytest.mark.parametrize("dropout_on", ["mixture", "experts"])
@pytest.mark.parametrize("combination", ["pure", "product"])
@every_implementation
def test_dropout_takes_the_same_entries_from_values_and_from_those_of_pairs(implementation, combination, dropout_on):
    """Each pair's vector is that of all values, negative: nothing is left, unless one is dropped without the other."""
    dropouts = {"dropout": 0.5, "dropout_on": dropout_on, "syntax_dropout": 0.5}
    masks = [Opposite(), AlsoOpposite()] if combination == "pure" else [Opposite()]
    net = attention(masks, combination=combination, implementation=implementation, **dropouts)
    with torch.no_grad():
        net.v_proj.weight.zero_()
        net.v_proj.bias.fill_(1.0)
        net.out_proj.bias.zero_()
    syntax = built(masks, small.batch([random_features(Random(1), 6, 7)]))
    x = torch.randn(8, 1, 16)
    assert net.train()(x, syntax)[0].abs().max() < 1e-6


@pytest.mark.parametrize(
    ("expected", "options"),
    [
        ("reference", {}),  # dropout of a sum
        ("sdpa", {"dropout_on": "experts"}),
        ("sdpa", {"dropout_on": "experts", "syntax_dropout": 0.1}),
        ("reference", {"dropout_on": "experts", "syntax_dropout": 0.1, "has_parse": [True, False]}),
        ("reference", {"syntax_dropout": 0.1}),
        ("sdpa", {"combination": "product", "syntax_dropout": 0.1}),  # one expert: A is its attention
        ("sdpa", {"combination": "pure", "masks": 1}),
        ("reference", {"combination": "pure"}),
        ("reference", {"dropout_on": "experts", "contents": ("attention",)}),
        ("shared", {"implementation": "auto"}),
        ("shared", {"implementation": "auto", "n": 200}),
        ("sdpa", {"implementation": "auto", "n": 200, "dropout": 0.0}),
        ("shared", {"implementation": "auto", "n": 200, "dropout": 0.0, "evaluates": True}),
        ("reference", {"implementation": "auto", "combination": "product"}),
        ("sdpa", {"implementation": "auto", "dropout_on": "experts", "device": "cuda"}),
        ("reference", {"implementation": "auto", "device": "cuda"}),
        ("reference", {"implementation": "auto", "dropout_on": "experts", "device": "cuda", "values": True}),
        ("sdpa", {"dropout_on": "experts", "values": True}),
    ],
)
def test_the_first_implementation_that_supports_a_mixture_is_chosen(expected, options, monkeypatch):
    chosen = []
    device = torch.device(options.pop("device", "cpu"))
    masks, n, evaluates = options.pop("masks", 2), options.pop("n", 5), options.pop("evaluates", False)
    syntax = random_bias(2, n, masks=masks, has_parse=options.pop("has_parse", None))
    contents = options.pop("contents", ())
    if options.pop("values", False):
        syntax.biases[0].values = (PairValues(Buckets(torch.zeros(1, n, n)), torch.zeros(1, 4)),)

    def remember(name, mixture, **given):
        chosen.append(choose(name, mixture, **{**given, "device": device}))
        return IMPLEMENTATIONS["reference"]

    monkeypatch.setattr(encoder_attention, "choose", remember)
    net = attention(MASKS[:masks], **{"implementation": "sdpa", "dropout": 0.1, **options}).train(not evaluates)
    with torch.set_grad_enabled(not evaluates):
        net(torch.randn(n, 2, 16), syntax, contents=contents)
    assert chosen == [IMPLEMENTATIONS[expected]]


def test_gates_of_each_query_are_traced_as_their_mean_over_real_positions():
    syntax = built(MASKS[:1], padded_batch())
    net = attention(MASKS[:1], combination="token-gate")
    x = torch.randn(8, 3, 16)
    _, gates = net(x, syntax, contents=("gates",))
    of_queries = net.gate(x, None)[:, 1:]
    expected = torch.stack([of_queries[b][..., ~syntax.padding[b]].mean(-1) for b in range(3)])
    torch.testing.assert_close(gates, expected)

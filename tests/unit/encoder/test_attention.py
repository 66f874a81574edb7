"""Attention under masks: the formula, extreme numbers, gradients."""

from __future__ import annotations

import copy
from random import Random

import pytest
import torch
from fairseq.modules.fairseq_dropout import FairseqDropout

import small
from fairseq_syntax.encoder import attention as syntax_attention
from fairseq_syntax.modules import numerics
from fairseq_syntax.modules.attention import Mixture, choose, fused, plain, shared
from fairseq_syntax.modules.biases import BatchBiases, BiasBuilder, SyntacticDependencyOfInterest, SyntacticLocalRange
from fairseq_syntax.testing import random_features
from syntax_data.features import INFINITE

MASKS = [SyntacticLocalRange(temperature=1.0), SyntacticDependencyOfInterest()]


def attention(**options):
    torch.manual_seed(2)
    return small.attention(**{"masks": MASKS, **options})


def random_bias(batch: int, n: int, masks: int = 2) -> BatchBiases:
    generator = torch.Generator().manual_seed(3)
    m = torch.rand(batch, masks, n, n, generator=generator)
    m = torch.where(m < 0.4, torch.zeros(()), m)
    m[:, :, range(n), range(n)] = 1
    return BatchBiases.of(m.log(), torch.ones(batch, masks, dtype=torch.bool))


@pytest.mark.parametrize("implementation", ["plain", "shared"])
def test_attention_is_the_papers_formula(implementation):
    net = attention(implementation=implementation).double()
    x = torch.randn(5, 3, 16, dtype=torch.float64)
    bias = random_bias(3, 5)
    output, weights = net(x, x, x, syntax=bias)

    gates = net.gate(x, None)[:, 1:]
    expected = torch.zeros(3, 5, 5, dtype=torch.float64)
    outputs = []
    q, k, v = (projection(x) for projection in (net.q_proj, net.k_proj, net.v_proj))
    for b in range(3):
        heads = []
        for h in range(4):
            part = slice(4 * h, 4 * h + 4)
            exps = (q[:, b, part] @ k[:, b, part].T / 2).exp()  # sqrt(4) = 2
            a = (1 - gates[b, :, h].sum()) * exps / exps.sum(-1, keepdim=True)
            for mask in range(2):
                masked = bias.log_masks[b, mask].exp() * exps
                a = a + gates[b, mask, h] * masked / masked.sum(-1, keepdim=True)
            expected[b] += a / 4
            heads.append(a @ v[:, b, part])
        outputs.append(torch.cat(heads, dim=-1))
    torch.testing.assert_close(weights, expected, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(output, net.out_proj(torch.stack(outputs, dim=1)), rtol=1e-5, atol=1e-6)


def mixed_bias(n: int) -> tuple[BatchBiases, torch.Tensor]:
    """Real masks and padding of a batch of width n: a whole sentence, a padded one, one without a parse, and two
    sentences on a line, with infinite distances between them."""
    random = Random(n)
    sentences: list = [1] * 4  # of a sentence of one subword, `</s>`, there is nothing to parse
    if n > 1:
        two = random_features(random, max(1, n // 2), n - 1)
        two["distance"][n // 2] = INFINITE
        short = max(1, n // 3)
        sentences = [random_features(random, max(1, n // 2), n - 1), random_features(random, short, short), n, two]
    net_input = small.batch(sentences)
    masks = BiasBuilder(MASKS)
    return masks(net_input["src_syntax"]), net_input["src_tokens"].eq(small.dictionary().pad())


@pytest.mark.parametrize("syntax_heads", [4, 3])
@pytest.mark.parametrize("n", [1, 2, 3, 64, 192])
@pytest.mark.parametrize("implementation", ["shared", "fused"])
def test_fast_paths_equal_the_plain_one_in_value_and_gradient(implementation, n, syntax_heads):
    bias, padding = mixed_bias(n)
    plain = attention(implementation="plain", syntax_heads=syntax_heads)
    fast = copy.deepcopy(plain)
    fast.implementation = implementation
    results = []
    for net in (plain, fast):
        torch.manual_seed(4)
        x = torch.randn(n, 4, 16, requires_grad=True)
        output, _ = net(x, x, x, key_padding_mask=padding, need_weights=False, syntax=bias)
        real = output.transpose(0, 1)[~padding]
        (real * torch.randn(real.shape)).sum().backward()
        results.append([real, x.grad, *(p.grad for p in net.parameters())])
    for expected, found in zip(*results, strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)


@pytest.fixture(params=[1, 3])
def groups(request, monkeypatch) -> list[int]:
    """Sentences are taken one or three at a time; how many were each time."""
    taken: list[int] = []

    def noted(x, *args, **kwargs):
        taken.append(len(x))
        return shared(x, *args, **kwargs)

    monkeypatch.setattr(syntax_attention, "at_a_time", lambda of_each: request.param)
    monkeypatch.setattr(syntax_attention, "shared", noted)
    return taken


@pytest.mark.parametrize("kind", ["padded", "without padding", "the same for all", "hides almost all"])
@pytest.mark.parametrize("combination", ["gate", "token-gate", "average", "pure"])
def test_sentences_taken_some_at_a_time_equal_those_of_one_batch(groups, combination, kind):
    masks, padding = mixed_bias(9)
    if kind == "without padding":
        padding = None
    elif kind == "the same for all":
        masks = BatchBiases.of(torch.rand(1, 2, 9, 9).log(), masks.parsed)
    elif kind == "hides almost all":  # of a sentence, which falls back to a softmax for each mask
        log_masks = torch.where(torch.eye(9, dtype=torch.bool), -60.0, -90.0).expand(1, 2, -1, -1)
        masks = BatchBiases.of(torch.cat([log_masks, masks.log_masks[1:]]), masks.parsed)
    whole, grouped = (attention(combination=combination, syntax_heads=3).eval() for _ in range(2))
    whole.implementation = "plain"
    x = torch.randn(9, 4, 16)
    given = {"key_padding_mask": padding, "need_weights": False, "syntax": masks}
    with torch.no_grad():
        expected = whole(x, x, x, **given)[0]
        for _ in range(2):  # layers, which share the groups
            torch.testing.assert_close(grouped(x, x, x, **given)[0], expected, rtol=1e-4, atol=1e-6)
    assert groups in ([1, 1, 1, 1] * 2, [3, 1] * 2)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("syntax_heads", [3, 4])
@pytest.mark.parametrize("combination", ["gate", "token-gate", "average", "pure"])
def test_in_evaluation_experts_are_summed_to_what_plain_gives(combination, syntax_heads, dtype):
    masks, padding = mixed_bias(9)
    nets = [attention(combination=combination, syntax_heads=syntax_heads).to(dtype).eval() for _ in range(2)]
    nets[0].implementation, nets[1].implementation = "plain", "shared"
    x = torch.randn(9, 4, 16).to(dtype)
    with torch.no_grad():
        plain, summed = (
            net(x, x, x, key_padding_mask=padding, syntax=masks, contents=("attention", "scores")) for net in nets
        )
    tolerance = {torch.float16: 2e-3, torch.bfloat16: 2e-2}.get(dtype, 1e-5)
    for expected, found in zip(plain, summed, strict=True):
        torch.testing.assert_close(found, expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize(
    "dropouts", [{}, {"dropout": 0.2}, {"dropout": 0.2, "dropout_on": "experts"}, {"syntax_dropout": 0.2}]
)
def test_training_takes_all_sentences_at_once(groups, dropouts):
    """Without gradients too: activation checkpointing computes first without them, then with them."""
    masks, padding = mixed_bias(9)
    net = attention(**dropouts)
    x = torch.randn(9, 4, 16)
    outputs = []
    for gradients in (False, True):
        torch.manual_seed(5)
        with torch.set_grad_enabled(gradients):
            outputs.append(net(x, x, x, key_padding_mask=padding, need_weights=False, syntax=masks)[0])
    assert groups == [4, 4]
    assert torch.equal(*outputs)


@pytest.mark.parametrize("n", [1, 2, 3, 64, 192])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("implementation", ["shared", "fused"])
def test_fast_paths_equal_the_plain_one_in_half_precision(implementation, dtype, n):
    bias, padding = mixed_bias(n)
    plain = attention(implementation="plain").to(dtype)
    fast = copy.deepcopy(plain)
    fast.implementation = implementation
    results = []
    for net in (plain, fast):
        torch.manual_seed(4)
        x = torch.randn(n, 4, 16).to(dtype).requires_grad_()
        output, _ = net(x, x, x, key_padding_mask=padding, need_weights=False, syntax=bias)
        real = output.transpose(0, 1)[~padding]
        (real * torch.randn(real.shape).to(dtype)).float().sum().backward()
        results.append([real, x.grad, net.v_proj.weight.grad, net.q_proj.weight.grad])
    tolerance = {torch.float16: 2e-3, torch.bfloat16: 2e-2}[dtype]
    for expected, found in zip(*results, strict=True):
        torch.testing.assert_close(found, expected, rtol=0, atol=tolerance * max(1.0, float(expected.abs().max())))


@pytest.mark.parametrize(
    ("dtype", "autocast", "tolerance"),
    [
        (torch.float32, False, 1e-5),
        (torch.float16, False, 2e-3),
        (torch.bfloat16, False, 2e-2),
        (torch.float32, True, 2e-2),
    ],
)
@pytest.mark.parametrize("implementation", ["plain", "shared", "fused"])
def test_what_a_gpu_is_asked_equals_what_a_cpu_is(implementation, dtype, autocast, tolerance, monkeypatch):
    bias, padding = mixed_bias(23)
    results = []
    for at_once in (False, True):
        monkeypatch.setattr(numerics, "is_asynchronous", lambda device, at_once=at_once: at_once)
        net = attention(implementation=implementation).to(dtype)
        torch.manual_seed(4)
        x = torch.randn(23, 4, 16).to(dtype).requires_grad_()
        with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
            output, _ = net(x, x, x, key_padding_mask=padding, need_weights=False, syntax=bias)
        real = output.transpose(0, 1)[~padding].float()
        (real * torch.randn(real.shape)).sum().backward()
        results.append([real, x.grad, *(p.grad for p in net.parameters())])
    for expected, found in zip(*results, strict=True):
        torch.testing.assert_close(found, expected, rtol=0, atol=tolerance * max(1.0, float(expected.abs().max())))


@pytest.mark.parametrize("implementation", ["plain", "shared", "fused"])
@pytest.mark.parametrize("n", [5, 140])
def test_autocast_computes_in_half_precision_what_is_computed_without(implementation, n):
    bias, padding = mixed_bias(n)
    net = attention(implementation=implementation)
    x = torch.randn(n, 4, 16, requires_grad=True)
    expected, _ = net(x, x, x, key_padding_mask=padding, need_weights=False, syntax=bias)
    with torch.autocast("cpu", torch.bfloat16):
        output, _ = net(x, x, x, key_padding_mask=padding, need_weights=False, syntax=bias)
    assert output.dtype == torch.bfloat16
    output.float().square().sum().backward()
    assert all(p.grad.isfinite().all() for p in (x, *net.parameters()))
    torch.testing.assert_close(output.float(), expected, rtol=2e-2, atol=2e-2)


@pytest.mark.parametrize("n", [7, 8, 23])
def test_masks_of_fused_attention_lie_as_a_gpu_wants_them(n, monkeypatch):
    """Rows a multiple of 8 numbers apart: others its kernel copies in each layer."""
    seen = []
    fused_attention = torch.nn.functional.scaled_dot_product_attention

    def look(*args: torch.Tensor, attn_mask: torch.Tensor, **kwargs: object) -> torch.Tensor:
        seen.append(attn_mask)
        return fused_attention(*args, attn_mask=attn_mask, **kwargs)

    monkeypatch.setattr(torch.nn.functional, "scaled_dot_product_attention", look)
    bias, padding = mixed_bias(n)
    x = torch.randn(n, 4, 16)
    attention(implementation="fused")(x, x, x, key_padding_mask=padding, need_weights=False, syntax=bias)
    (mask,) = seen
    assert mask.shape == (4, 1, 3 * n, n)
    assert all(stride % 8 == 0 for stride in mask.stride()[:-1])


def test_another_padding_is_not_the_one_before():
    bias, padding = mixed_bias(9)
    net = attention(implementation="fused")
    x = torch.randn(9, 4, 16)
    other = torch.zeros_like(padding)
    outputs = [net(x, x, x, key_padding_mask=p, need_weights=False, syntax=bias)[0] for p in (padding, other)]
    alone = net(x, x, x, key_padding_mask=other, need_weights=False, syntax=mixed_bias(9)[0])[0]
    torch.testing.assert_close(outputs[1], alone)
    assert not torch.allclose(outputs[0], outputs[1])


def test_shared_equals_plain_under_dropout_of_the_same_random_numbers():
    bias, padding = mixed_bias(16)
    x = torch.randn(16, 4, 16)
    outputs = []
    for implementation in ("plain", "shared"):
        net = attention(implementation=implementation, syntax_dropout=0.3, dropout=0.2)
        torch.manual_seed(5)
        outputs.append(net(x, x, x, key_padding_mask=padding, syntax=bias)[0])
    torch.testing.assert_close(outputs[1], outputs[0], rtol=1e-4, atol=1e-5)


def test_gradients_are_those_of_the_function():
    bias, padding = mixed_bias(6)
    finite = -torch.rand_like(bias.log_masks, dtype=torch.float64).mul(3).requires_grad_()
    for implementation in ("plain", "shared", "fused"):
        net = attention(implementation=implementation).double()
        x = torch.randn(6, 4, 16, dtype=torch.float64, requires_grad=True)

        def real(x: torch.Tensor, log_masks: torch.Tensor, *_: torch.Tensor, net=net) -> torch.Tensor:
            syntax = BatchBiases.of(log_masks, bias.parsed)
            output, _ = net(x, x, x, key_padding_mask=padding, need_weights=False, syntax=syntax)
            return output.transpose(0, 1)[~padding]

        for log_masks in (bias.log_masks.double(), finite):
            assert torch.autograd.gradcheck(real, (x, log_masks, *net.parameters()), fast_mode=True)


@pytest.mark.parametrize("logit", [-1e4, -100.0, 0.0, 30.0, 100.0, 1e4])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("implementation", ["plain", "shared", "fused"])
def test_no_nan_where_a_mask_hides_the_largest_logits(implementation, dtype, logit):
    """One key, hidden by masks from some, has logits far above, or below, all others."""
    net = attention(implementation=implementation)
    n = 12
    bias, padding = mixed_bias(n)
    assert (bias.log_masks[:, :, :, 2] == -torch.inf).any()
    heads = range(
        0, 16, 4
    )  # of each head the first dimension is its query's, the second its key's, the others its value's
    with torch.no_grad():
        for projection in (net.q_proj, net.k_proj):
            projection.weight.zero_()
            projection.bias.zero_()
        net.q_proj.weight[heads, heads] = 1
        net.k_proj.weight[heads, [h + 1 for h in heads]] = 1
        net.v_proj.weight[:, ::4] = 0
        net.v_proj.weight[:, 1::4] = 0
    x = torch.randn(n, 4, 16)
    x[:, :, ::4] = 1
    x[:, :, 1::4] = 0
    x[2, :, 1::4] = 2 * logit  # the logits are x_i·x_j/√4
    x = x.to(dtype).requires_grad_()
    net = net.to(dtype)
    output, _ = net(x, x, x, key_padding_mask=padding, need_weights=False, syntax=bias)
    assert output.dtype == dtype
    output.float().square().mean().backward()
    assert output.isfinite().all()
    assert x.grad.isfinite().all()
    reference = copy.deepcopy(net).float()
    reference.implementation = "plain"
    expected, _ = reference(*[x.detach().float()] * 3, key_padding_mask=padding, need_weights=False, syntax=bias)
    tolerance = {torch.float32: 1e-4, torch.float16: 1e-2, torch.bfloat16: 1e-1}[dtype]
    torch.testing.assert_close(output.float(), expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("implementation", ["plain", "shared", "fused"])
def test_no_nan_for_any_mask_and_logits(implementation, dtype):
    random = Random(3)
    for trial in range(15):
        torch.manual_seed(trial)
        n, largest = random.choice([1, 2, 3, 5, 12, 33]), random.choice([1e4, 1e3, 10.0])
        masks = torch.rand(3, 2, n, n) ** random.choice([1, 20, 80])
        masks = torch.where(torch.rand(3, 2, n, n) < random.random(), torch.zeros(()), masks)
        masks[:, :, range(n), range(n)] = 1
        net = attention(
            implementation=implementation,
            combination=random.choice(["gate", "average", "pure"]),
            gate=random.choice(
                [{}, *({"batch_norm": True, "statistics": s, "eps": 0.1} for s in ("running", "batch"))]
            ),
            syntax_heads=random.choice([2, 4]),
            syntax_dropout=random.choice([0.0, 0.3]),
        )
        with torch.no_grad():  # the logits are x_i·x_j/√4, head by head
            for projection in (net.q_proj, net.k_proj):
                projection.weight.copy_(torch.eye(16))
                projection.bias.zero_()
        x = torch.randn(n, 3, 16)
        x *= (2 * largest / x.view(n, 3, 4, 4).square().sum(-1).max()).sqrt()
        x, net = x.to(dtype).requires_grad_(), net.to(dtype)
        syntax = BatchBiases.of(masks.log(), torch.ones(3, 2, dtype=torch.bool))
        output, _ = net(x, x, x, need_weights=False, syntax=syntax)
        output.float().square().mean().backward()
        for tensor in (output, x.grad, *(p.grad for p in net.parameters() if p.grad is not None)):
            assert tensor.isfinite().all(), trial


@pytest.mark.parametrize("implementation", ["plain", "shared"])
def test_syntax_dropout_acts_on_syntactic_attention_of_parsed_sentences_in_training_only(implementation):
    net = attention(syntax_dropout=0.5, masks=MASKS[:1], implementation=implementation)
    x = torch.randn(6, 2, 16)
    bias = random_bias(2, 6, masks=1)
    bias = BatchBiases.of(bias.log_masks, torch.tensor([[True], [False]]))
    net.eval()
    quiet = net(x, x, x, syntax=bias)[1]
    torch.testing.assert_close(net(x, x, x, syntax=bias)[1], quiet)
    net.train()
    dropped = net(x, x, x, syntax=bias)[1]
    assert not torch.allclose(dropped[0], quiet[0])
    torch.testing.assert_close(dropped[1], quiet[1])
    many = torch.stack([net(x, x, x, syntax=bias)[1] for _ in range(3000)])
    torch.testing.assert_close(many.mean(0), quiet, rtol=0.1, atol=0.02)


@pytest.mark.parametrize("syntax_dropout", [0.0, 0.3])
@pytest.mark.parametrize("has_global_expert", [True, False])
@pytest.mark.parametrize("way", ["plain", "shared", "fused"])
def test_dropout_of_experts_has_the_mean_and_the_variance_that_are_derived(way, has_global_expert, syntax_dropout):
    """The batch is of draws; v is the unit matrix, so that the output of fused attention is A."""
    n, draws, p = 5, 30_000, 0.4
    torch.manual_seed(6)
    q, k = torch.randn(2, 1, 2, n, 4).unbind()
    log_masks = random_bias(1, n).log_masks
    weights = torch.tensor([[0.5, 0.2], [0.3, 0.7], [0.2, 0.1]])[None]  # (1, experts, heads)
    weights = weights if has_global_expert else weights[:, 1:] / weights[:, 1:].sum(dim=1, keepdim=True)

    def mixture(batch: int, **dropouts: FairseqDropout | None) -> Mixture:
        masks = BatchBiases.of(log_masks.expand(batch, -1, -1, -1), torch.ones(batch, 2, dtype=torch.bool))
        of_all = weights.unsqueeze(-1).expand(batch, -1, -1, -1)
        return Mixture(masks, of_all, None, dropouts.get("ignore"), has_global_expert, dropouts.get("dropout"))

    def dropout(p: float) -> FairseqDropout | None:
        return FairseqDropout(p, "test") if p else None  # in training

    dropped = mixture(draws, ignore=dropout(syntax_dropout), dropout=dropout(p))
    x = q @ k.transpose(2, 3) / 2
    if way == "fused":
        many = [part.expand(draws, -1, -1, -1) for part in (q, k, torch.eye(n).expand(1, 2, -1, -1))]
        found = fused(*many, dropped)
    else:
        found = {"plain": plain, "shared": shared}[way](x.expand(draws, -1, -1, -1), dropped)
    attention = plain(x, mixture(1))[0]
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


@pytest.mark.parametrize("implementation", ["plain", "shared", "fused"])
@pytest.mark.parametrize("syntax_heads", [2, 4])
def test_dropout_may_act_on_each_expert(implementation, syntax_heads):
    net = attention(
        implementation=implementation, syntax_heads=syntax_heads, dropout=0.3, syntax_dropout=0.2, dropout_on="experts"
    )
    n = 6
    x = torch.randn(n, 2, 16)
    syntax = random_bias(2, n)
    net.eval()
    quiet = net(x, x, x, need_weights=False, syntax=syntax)[0]
    net.train()
    seen = [net(x, x, x, need_weights=False, syntax=syntax)[0] for _ in range(2)]
    assert not torch.allclose(*seen)
    draws = BatchBiases.of(syntax.log_masks.repeat(4000, 1, 1, 1), torch.ones(8000, 2, dtype=torch.bool))
    many = net(*[x.repeat(1, 4000, 1)] * 3, need_weights=False, syntax=draws)[0]
    torch.testing.assert_close(many.view(n, 4000, 2, 16).mean(dim=1), quiet, rtol=0.05, atol=0.02)


@pytest.mark.parametrize("implementation", ["plain", "shared", "fused"])
def test_sentences_without_a_parse_have_no_syntax_dropout_beside_dropout_of_experts(implementation):
    net = attention(syntax_dropout=0.5, dropout_on="experts", implementation=implementation)
    x = torch.randn(6, 2, 16)
    syntax = BatchBiases.of(random_bias(2, 6).log_masks, torch.tensor([[True, True], [False, False]]))
    dropped = net(x, x, x, need_weights=False, syntax=syntax)[0]
    net.eval()
    quiet = net(x, x, x, need_weights=False, syntax=syntax)[0]
    torch.testing.assert_close(dropped[:, 1], quiet[:, 1])
    assert not torch.allclose(dropped[:, 0], quiet[:, 0])


def test_training_is_fused_where_no_dropout_acts_on_a_sum(monkeypatch):
    """As on a GPU, where fused attention is first."""
    ways = []

    def remember(*args: object, **kwargs: object) -> str:
        ways.append(choose(*args, **kwargs))
        return ways[-1]

    monkeypatch.setattr(syntax_attention, "choose", remember)
    x = torch.randn(5, 2, 16)

    def way(masks: int = 2, parsed: bool = True, **options: object) -> str:
        net = attention(implementation="fused", dropout=0.1, masks=MASKS[:masks], **options)
        syntax = BatchBiases.of(random_bias(2, 5, masks=masks).log_masks, torch.full((2, masks), parsed))
        net(x, x, x, need_weights=False, syntax=syntax)
        return ways[-1]

    assert way() == "plain"
    assert way(dropout_on="experts") == "fused"
    assert way(dropout_on="experts", syntax_dropout=0.1) == "fused"
    assert way(dropout_on="experts", syntax_dropout=0.1, parsed=False) == "plain"
    assert way(syntax_dropout=0.1) == "plain"
    assert way(combination="product", syntax_dropout=0.1) == "fused"  # one expert: A is what it gives
    assert way(combination="pure", masks=1) == "fused"
    assert way(combination="pure") == "plain"


def test_attention_mask_is_refused():
    x = torch.randn(5, 3, 16)
    with pytest.raises(ValueError, match="attn_mask"):
        attention()(x, x, x, attn_mask=torch.zeros(5, 5), syntax=random_bias(3, 5))

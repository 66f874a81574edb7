"""The gate and its batch normalisation."""

from __future__ import annotations

import copy

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

import small
from fairseq_syntax.modules.gate_norm import GateBatchNorm, RunningStatistics, StepStatistics
from fairseq_syntax.modules.gates import SyntaxGate, TokenGate
from pairwise import pairwise


def gate(**options):
    torch.manual_seed(1)
    return SyntaxGate(**{"embed_dim": 8, "hidden_dim": 5, "num_heads": 3, "num_masks": 1, **options})


@pytest.mark.parametrize("num_masks", [1, 2])
def test_gates_are_the_papers_formula(num_masks):
    net = gate(num_masks=num_masks).eval()
    x = torch.randn(6, 4, 8)
    padding = torch.zeros(4, 6, dtype=torch.bool)
    padding[1, :2] = True
    pooled = torch.stack([x[2 * (b == 1) :, b].amax(0) for b in range(4)])
    logits = net.batch_norm(net.fc2(net.layer_norm(torch.relu(net.fc1(pooled))))).view(4, num_masks, 3)
    weights = net(x, small.hides(padding))
    torch.testing.assert_close(weights[:, 1:], logits.exp() / (1 + logits.exp().sum(1, keepdim=True)))
    torch.testing.assert_close(weights.sum(dim=1), torch.ones(4, 3))


def test_by_batch_statistics_it_is_torchs():
    ours, theirs = GateBatchNorm(6, statistics="batch", eps=1e-5), nn.BatchNorm1d(6)
    for _ in range(3):
        logits = torch.randn(5, 6) * 3 + 1
        one, other = logits.clone().requires_grad_(), logits.clone().requires_grad_()
        torch.testing.assert_close(ours(one), theirs(other))
        for norm, x in ((ours, one), (theirs, other)):
            norm.weight.grad = None
            norm(x).pow(3).sum().backward()
            norm.eval()(x).pow(3).sum().backward()
            norm.train()
        torch.testing.assert_close(one.grad, other.grad)
        torch.testing.assert_close(ours.weight.grad, theirs.weight.grad)
    torch.testing.assert_close(ours.running_mean, theirs.running_mean)
    torch.testing.assert_close(ours.running_var, theirs.running_var)
    torch.testing.assert_close(ours.eval()(logits), theirs.eval()(logits))


def test_by_running_statistics_training_computes_what_evaluation_does():
    norm = GateBatchNorm(4)
    for _ in range(5):
        logits = torch.randn(9, 4) * 1e-3 + 7
        expected = copy.deepcopy(norm).eval()(logits)
        torch.testing.assert_close(norm(logits), expected, rtol=1e-4, atol=1e-5)
    assert norm.running_mean.gt(2).all()


@pytest.mark.parametrize(
    ("dtype", "amp", "spread"), pairwise([torch.float16, torch.bfloat16], [False, True], [3e-2, 1e-3])
)
def test_half_precision_does_not_blur_gates_that_hardly_vary(dtype, amp, spread):
    net = gate(embed_dim=32, hidden_dim=16).eval()
    x = torch.randn(6, 64, 32)
    with torch.no_grad():
        net.fc2.weight *= spread
        net.fc2.bias.uniform_(-1, 1)
        net.batch_norm = None  # the logits; which statistics there are depends on rounding of weights
        if not amp:
            net, x = net.to(dtype), x.to(dtype)
        exact = copy.deepcopy(net).double()
        logits = exact(x.double(), None)[:, 1].logit()
        for of in (net, exact):
            of.batch_norm = GateBatchNorm(3, eps=0.0).to(logits.dtype if of is exact else torch.float32).eval()
            of.batch_norm.running_mean.copy_(logits.mean(0))
            of.batch_norm.running_var.copy_(logits.var(0))
        with torch.autocast("cpu", dtype=dtype, enabled=amp):
            apart = (net(x, None) - exact(x.double(), None)).abs()
    assert exact(x.double(), None).std() > 0.1
    assert apart.max() < {torch.float16: 2e-3, torch.bfloat16: 2e-2}[dtype]


def test_by_running_statistics_the_gradient_is_batch_normalisations():
    """Up to the ratio of the deviations, which counts as constant (Ioffe 2017, Algorithm 1)."""
    norm = GateBatchNorm(3, eps=1e-5)
    norm(torch.randn(50, 3) * 2 + 1)
    running_var = norm.running_var.clone()
    logits = torch.randn(8, 3, requires_grad=True)
    upstream = torch.randn(8, 3)
    (gradient,) = torch.autograd.grad(norm(logits), logits, upstream)
    (plain,) = torch.autograd.grad(nn.BatchNorm1d(3)(logits), logits, upstream)
    ratio = ((logits.var(0, correction=0) + 1e-5) / (running_var + 1e-5)).sqrt()
    torch.testing.assert_close(gradient, plain * ratio.detach())
    torch.testing.assert_close(gradient.sum(0), torch.zeros(3), atol=1e-5, rtol=0)


@pytest.mark.parametrize("statistics", ["running", "batch"])
def test_a_batch_of_one_is_normalised_by_running_statistics(statistics):
    norm = GateBatchNorm(2, statistics=statistics)
    norm(torch.randn(50, 2) + 3)
    before = norm.running_mean.clone(), norm.running_var.clone()
    one = torch.tensor([[1.0, 2.0]])
    torch.testing.assert_close(norm(one), norm.eval()(one))
    assert torch.equal(norm.running_mean, before[0])
    assert torch.equal(norm.running_var, before[1])
    norm.train()(one.requires_grad_()).sum().backward()
    assert norm.weight.grad.abs().sum() > 0


@pytest.mark.parametrize("broken", [torch.inf, torch.nan])
def test_statistics_survive_a_step_that_overflows(broken):
    norm = GateBatchNorm(3)
    norm(torch.randn(8, 3) + 3)
    before = norm.running_mean.clone()
    logits = torch.randn(8, 3)
    with torch.no_grad():
        norm(logits)  # moves nothing
    assert torch.equal(norm.running_mean, before)
    logits[2, 1] = broken
    norm(logits)
    assert norm.running_mean[1] == before[1]
    assert (norm.running_mean[[0, 2]] != before[[0, 2]]).all()
    assert norm(torch.randn(8, 3)).isfinite().all()


def take_pass(norms, logits, statistics, *, counts=True):
    """A pass of a step, in which the gates that have logits run."""
    of_pass = RunningStatistics(norms)
    with statistics.within_step(counts=counts):
        for norm, x in zip(norms, logits, strict=True):
            if x is not None:
                norm(x, of_pass)
        statistics.end_pass(of_pass)


def buffers(norms):
    return [buffer for norm in norms for buffer in norm.statistics_buffers]


@given(data=st.data())
@settings(max_examples=25, deadline=None)
def test_passes_and_processes_move_statistics_as_one_pass_of_all_their_sentences_would(data):
    """Of each gate, those of the passes in which it runs: layer drop leaves it out of some."""
    sizes = data.draw(st.lists(st.integers(0, 3), min_size=1, max_size=5))  # 0: a pass that does not count
    ranks = data.draw(st.integers(1, 3))
    first = [GateBatchNorm(2, momentum=0.5), GateBatchNorm(3)]
    first[0](torch.randn(9, 2) + 5)
    torch.manual_seed(data.draw(st.integers(0, 99)))
    passes = [[torch.randn(max(1, n), f) + 7 for f in (2, 3)] for n in sizes]
    runs = [[data.draw(st.booleans()) for _ in first] for _ in sizes]
    of_ranks = [copy.deepcopy(first) for _ in range(ranks)]
    statistics = [StepStatistics(norms) for norms in of_ranks]
    for i, (n, logits) in enumerate(zip(sizes, passes, strict=True)):
        given_logits = [x if run else None for x, run in zip(logits, runs[i], strict=True)]
        take_pass(of_ranks[i % ranks], given_logits, statistics[i % ranks], counts=n > 0)
        assert all(map(torch.equal, buffers(of_ranks[i % ranks]), buffers(first)))
    sums: list[torch.Tensor] = []
    for of_rank in copy.deepcopy(statistics) if ranks > 1 else []:
        of_rank.move(lambda tensor: sums.append(tensor.clone()))
    for of_rank in statistics:
        of_rank.move((lambda tensor: tensor.copy_(sum(sums))) if ranks > 1 else None)
    together = copy.deepcopy(first)
    for k, norm in enumerate(together):
        rows = [logits[k] for logits, run, n in zip(passes, runs, sizes, strict=True) if run[k] and n]
        if rows:
            norm(torch.cat(rows))
    for norms in of_ranks:
        for found, expected in zip(buffers(norms), buffers(together), strict=True):
            torch.testing.assert_close(found, expected)
        assert all(map(torch.equal, buffers(norms), buffers(of_ranks[0])))


def test_a_step_that_is_given_up_moves_no_statistics():
    norms = [GateBatchNorm(2)]
    statistics, x = StepStatistics(norms), torch.randn(8, 2) + 3
    take_pass(norms, [x], statistics)
    with pytest.raises(MemoryError), statistics.within_step(counts=True):
        raise MemoryError
    statistics.move()
    take_pass(norms, [x], statistics)
    statistics.clear()
    statistics.move()
    assert norms[0].running_mean.eq(0).all()
    take_pass(norms, [x], statistics)
    statistics.move()
    torch.testing.assert_close(norms[0].running_mean, 0.1 * x.mean(0))


def test_statistics_of_a_pass_are_copies_for_its_backward_pass_and_a_layer_that_runs_again():
    norm = GateBatchNorm(3)
    norm(torch.randn(8, 3) + 3)
    of_pass, logits = RunningStatistics([norm]), torch.randn(8, 3, requires_grad=True)
    expected = copy.deepcopy(norm)(logits)
    first = norm(logits, of_pass)
    assert torch.equal(first, expected)
    StepStatistics([norm]).end_pass(of_pass)
    assert torch.equal(*(torch.autograd.grad(x.square().sum(), logits)[0] for x in (first, expected)))
    moved = norm.running_mean.clone()
    assert torch.equal(norm(logits, of_pass), first)
    assert torch.equal(norm.running_mean, moved)
    assert not torch.allclose(norm(logits), first)


def test_statistics_stay_float32_and_there_is_no_integer_buffer():
    norm = GateBatchNorm(2)
    norm(torch.randn(50, 2) + 3)
    exact = norm.running_mean.clone()
    norm.half()
    assert norm.weight.dtype == torch.float16
    assert norm.running_mean.dtype == torch.float32
    assert torch.equal(norm.running_mean, exact)
    assert norm(torch.randn(4, 2).half()).dtype == torch.float32
    assert all(buffer.is_floating_point() for buffer in norm.buffers())


FROZEN = {
    **{f"statistics {kind}": lambda kind=kind: gate(batch_norm=kind) for kind in ("running", "batch", None)},
    "of tokens": lambda: TokenGate(embed_dim=8, num_heads=3, num_masks=1),
}


@pytest.mark.parametrize(
    ("kind", "upstream", "dtype"), pairwise(list(FROZEN), [1.0, torch.inf, torch.nan], [torch.float32, torch.bfloat16])
)
def test_a_frozen_gate_gives_the_same_weights_and_its_parameters_get_gradients_of_exactly_zero(kind, upstream, dtype):
    """With mixed precision, any gradient that comes in, and after a copy; later they learn again."""
    torch.manual_seed(1)
    free = FROZEN[kind]()
    net = copy.deepcopy(free)
    net.frozen = True
    net = copy.deepcopy(net)
    x = torch.randn(6, 4, 8, requires_grad=True)
    with torch.autocast("cpu", dtype=dtype, enabled=dtype != torch.float32):
        expected, frozen = free(x, None), net(x, None)
    assert torch.equal(frozen, expected)
    gradient = torch.zeros_like(frozen)
    gradient[:, 1:] = upstream
    frozen.backward(gradient)
    torch.testing.assert_close(x.grad, torch.autograd.grad(expected, x, gradient)[0], equal_nan=True)  # as ever
    assert x.grad.ne(0).any()
    assert all(parameter.grad is not None and parameter.grad.eq(0).all() for parameter in net.parameters())
    if kind.startswith("statistics r"):
        assert net.batch_norm.running_mean.ne(0).all()  # statistics keep moving
    net.frozen = False
    net(torch.randn(6, 4, 8), None).square().sum().backward()
    assert all(parameter.grad.ne(0).any() for parameter in net.parameters())


@pytest.mark.parametrize(("training", "num_masks"), [(True, 2), (False, 1)])
def test_gradients_are_those_of_the_function(training, num_masks):
    """By running statistics they are, on purpose, another function's in training."""
    net = gate(num_masks=num_masks, batch_norm="batch").double().train(training)
    x = torch.randn(4, 5, 8, dtype=torch.float64, requires_grad=True)
    padding = torch.zeros(5, 4, dtype=torch.bool)
    padding[1, :2] = True
    assert torch.autograd.gradcheck(lambda x, *_: net(x, small.hides(padding)), (x, *net.parameters()))


@pytest.mark.parametrize("num_masks", [1, 2])
def test_token_gates_are_the_formula_token_by_token(num_masks):
    torch.manual_seed(1)
    x = torch.randn(50, 3, 8)
    net = TokenGate(embed_dim=8, num_heads=4, num_masks=num_masks)
    found = net(x, None)
    powers = (x @ net.linear.weight.T + net.linear.bias).exp()  # (n, batch, masks)
    expected = (powers / (1 + powers.sum(2, keepdim=True))).permute(1, 2, 0)
    torch.testing.assert_close(found[:, 1:], expected[:, :, None].expand(3, num_masks, 4, 50))
    torch.testing.assert_close(found.sum(1), torch.ones(3, 4, 50))
    assert found.mean().item() == pytest.approx(1 / (1 + num_masks), abs=0.1)  # at first all experts have as much

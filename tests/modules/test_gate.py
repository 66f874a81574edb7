"""The gate and its batch normalisation."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from fairseq_syntax.modules.gate import GateBatchNorm, SyntaxGate


def gate(**options):
    torch.manual_seed(1)
    return SyntaxGate(**{"embed_dim": 8, "hidden_dim": 5, "num_heads": 3, "num_masks": 1, **options})


def test_one_mask_is_the_papers_formula():
    net = gate().eval()
    x = torch.randn(6, 4, 8)
    padding = torch.zeros(4, 6, dtype=torch.bool)
    padding[1, :2] = True
    pooled = torch.stack([x[2 * (b == 1) :, b].amax(0) for b in range(4)])
    logits = net.fc2(net.layer_norm(torch.relu(net.fc1(pooled))))
    torch.testing.assert_close(net(x, padding)[:, 0], torch.sigmoid(net.batch_norm(logits)))


def test_several_masks_share_what_global_attention_leaves():
    weights = gate(num_masks=2)(torch.randn(6, 4, 8), None)
    assert weights.shape == (4, 2, 3)
    assert (weights > 0).all()
    assert (weights.sum(dim=1) < 1).all()


def test_padding_is_never_pooled():
    net = gate().eval()
    x = -torch.ones(4, 2, 8)
    padding = torch.zeros(2, 4, dtype=torch.bool)
    padding[:, 0] = True
    expected = net(x, padding)
    x[0] = 100.0
    torch.testing.assert_close(net(x, padding), expected)


def test_batch_norm_equals_torchs():
    ours, theirs = GateBatchNorm(6), nn.BatchNorm1d(6)
    for _ in range(3):
        logits = torch.randn(5, 6) * 3 + 1
        torch.testing.assert_close(ours(logits), theirs(logits))
    torch.testing.assert_close(ours.running_mean, theirs.running_mean)
    torch.testing.assert_close(ours.running_var, theirs.running_var)
    torch.testing.assert_close(ours.eval()(logits), theirs.eval()(logits))


def test_a_batch_of_one_is_normalised_by_running_statistics():
    norm = GateBatchNorm(2)
    norm(torch.randn(50, 2) + 3)
    before = norm.running_mean.clone(), norm.running_var.clone()
    one = torch.tensor([[1.0, 2.0]])
    torch.testing.assert_close(norm(one), norm.eval()(one))
    assert torch.equal(norm.running_mean, before[0])
    assert torch.equal(norm.running_var, before[1])
    norm.train()(one.requires_grad_()).sum().backward()
    assert norm.weight.grad.abs().sum() > 0


def test_statistics_move_only_where_gradients_are_computed():
    norm = GateBatchNorm(2)
    logits = torch.randn(50, 2) + 3
    with torch.no_grad():
        quiet = norm(logits)
    assert norm.running_mean.eq(0).all()
    torch.testing.assert_close(norm(logits), quiet)
    assert norm.running_mean.ne(0).all()


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


@pytest.mark.parametrize("batch_norm", [True, False])
def test_frozen_gate_works_but_gets_gradients_of_exactly_zero(batch_norm):
    net = gate(batch_norm=batch_norm)
    x = torch.randn(6, 4, 8, requires_grad=True)
    free = net(x, None)
    net.frozen = True
    frozen = net(x, None)
    assert torch.equal(frozen, free)
    frozen.square().sum().backward()
    assert torch.equal(x.grad, torch.autograd.grad(free.square().sum(), x)[0])  # its input learns as ever
    assert x.grad.ne(0).any()
    for parameter in net.parameters():
        assert parameter.grad is not None
        assert parameter.grad.eq(0).all()
    if batch_norm:
        assert net.batch_norm.running_mean.ne(0).all()  # statistics keep moving

"""Frozen parameters do not move in any optimizer."""

from __future__ import annotations

from argparse import Namespace

import pytest
import torch
from fairseq.optim import FP16Optimizer, build_optimizer
from torch import nn

from fairseq_syntax.compat.frozen_parameters import frozen


def configuration():
    adam = {"adam_betas": "(0.9, 0.98)", "adam_eps": 1e-8, "weight_decay": 0.1, "use_old_adam": True}
    scale = {"fp16_scale_window": None, "fp16_init_scale": 4, "fp16_scale_tolerance": 0.0}
    scale |= {"threshold_loss_scale": None, "min_loss_scale": 1e-4, "model_parallel_size": 1}
    return Namespace(
        optimizer=Namespace(optimizer="adam", lr=[0.1], fp16_adam_stats=False, tpu=False, **adam),
        common=Namespace(**scale),
        optimization=Namespace(update_freq=[1]),
        distributed_training=Namespace(distributed_world_size=1),
    )


def parameters(dtype):
    torch.manual_seed(1)
    return [nn.Parameter(torch.randn(3, 2).to(dtype)) for _ in range(3)]


def step(optimizer, params, still):
    optimizer.zero_grad()
    for parameter in params:
        parameter.grad = torch.ones_like(parameter)
    for parameter in still:
        parameter.grad = torch.zeros_like(parameter)
    optimizer._needs_sync = True
    optimizer.clip_grad_norm(0.0)  # as the trainer does
    with frozen(still, optimizer):
        optimizer.step()


def test_float32_adam_skips_them_and_keeps_no_moments():
    params = parameters(torch.float32)
    optimizer = build_optimizer(configuration().optimizer, params)
    before = [p.detach().clone() for p in params]
    for _ in range(3):
        step(optimizer, params, still=[params[1]])
    assert torch.equal(params[1], before[1])
    assert params[1] not in optimizer.optimizer.state
    assert not torch.equal(params[0], before[0])
    assert not torch.equal(params[2], before[2])
    step(optimizer, params, still=[])
    assert not torch.equal(params[1], before[1])


def fp16(monkeypatch, *, flatten):
    """Parameters, their optimizer, and its float32 copy of the second one."""
    monkeypatch.setattr(torch.cuda, "current_device", lambda: None)  # a CPU tensor's device index
    params = parameters(torch.float16)
    cfg = configuration()
    cfg.common.fp16_no_flatten_grads = not flatten
    optimizer = FP16Optimizer.build_optimizer(cfg, params)
    copy = optimizer.fp32_params[None].data[6:12] if flatten else optimizer.fp32_params[1].data
    return params, optimizer, copy


@pytest.mark.parametrize("flatten", [True, False])
def test_fp16_copies_stay_where_they_are(flatten, monkeypatch):
    params, optimizer, copy = fp16(monkeypatch, flatten=flatten)
    before = [p.detach().clone() for p in params]
    copy_before = copy.clone()
    for _ in range(3):
        step(optimizer, params, still=[params[1]])
    assert torch.equal(params[1], before[1])
    assert torch.equal(copy, copy_before)
    assert not torch.equal(params[0], before[0])
    assert not torch.equal(params[2], before[2])


def test_the_first_steps_afterwards_are_as_large_as_documented(monkeypatch):
    params, optimizer, copy = fp16(monkeypatch, flatten=True)
    optimizer.fp32_optimizer.optimizer.param_groups[0].update(weight_decay=0.0, lr=0.01)
    for _ in range(500):
        step(optimizer, params, still=[params[1]])
    moved = []
    for _ in range(50):
        before = copy.clone()
        step(optimizer, params, still=[])
        moved.append((copy - before).abs().max() / 0.01)
    assert max(moved) == pytest.approx(1.55, rel=0.01)


def test_upstream_decays_what_has_no_gradient(monkeypatch):
    params, optimizer, copy = fp16(monkeypatch, flatten=True)
    before = copy.clone()
    optimizer.zero_grad()
    for parameter in (params[0], params[2]):
        parameter.grad = torch.ones_like(parameter)
    optimizer._needs_sync = True
    optimizer.clip_grad_norm(0.0)
    optimizer.step()
    assert not torch.equal(copy, before), "upstream is mended: delete fairseq_syntax/compat/frozen_parameters.py"

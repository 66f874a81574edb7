"""Adam for all parameters at once is fairseq's Adam."""

from __future__ import annotations

import copy
import inspect

import pytest
import torch
from fairseq.optim.adam import Adam
from torch import nn

import small
from fairseq_syntax.compat import foreach_adam

STEPS = {"ours": Adam.step, "fairseq's": inspect.unwrap(Adam.step)}


def optimizer(dtype=torch.float32, *, count=4, **options):
    """Adam for `count` matrices in two groups, which differ in all options."""
    torch.manual_seed(1)
    parameters = [nn.Parameter(torch.randn(3, 2 + i).to(dtype)) for i in range(count)]
    first = {"params": parameters[::2], "lr": 0.03, "betas": (0.7, 0.8), "eps": 1e-3, "weight_decay": 0.2}
    return Adam([first, {"params": parameters[1::2]}], **{"lr": 0.1, **options})


def parameters(adam):
    return [parameter for group in adam.param_groups for parameter in group["params"]]


def set_gradients(adam, seed, *, without=None):
    torch.manual_seed(seed)
    for i, parameter in enumerate(parameters(adam)):
        gradient = torch.randn(parameter.shape[::-1]).to(parameter.dtype).t()  # not contiguous
        parameter.grad = None if i == without else gradient


def assert_same(left, right):
    for a, b in zip(parameters(left), parameters(right), strict=True):
        assert torch.equal(a, b)
        assert left.state[a].keys() == right.state[b].keys()
        for name, value in left.state[a].items():
            other = right.state[b][name]
            assert type(value) is type(other)
            assert value == other if name == "step" else (value.dtype == other.dtype and torch.equal(value, other))


@pytest.mark.parametrize("limit", [foreach_adam.ON_A_CPU, 20], ids=["at-once", "in-parts"])
@pytest.mark.parametrize("options", [{}, {"weight_decay": 0.1}, {"amsgrad": True}], ids=["plain", "decay", "amsgrad"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16], ids=str)
def test_every_step_is_bit_identical(dtype, options, limit, monkeypatch):
    monkeypatch.setattr(foreach_adam, "ON_A_CPU", limit)
    both = {name: optimizer(dtype, **options) for name in STEPS}
    before = [parameter.detach().clone() for parameter in parameters(both["ours"])]
    for seed, without in enumerate([0, None, 1, 0, None]):
        for name, step in STEPS.items():
            set_gradients(both[name], seed, without=without)
            both[name].param_groups[1]["lr"] = 0.1 / (1 + seed)  # by a schedule
            step(both[name])
        assert_same(*both.values())
    found = parameters(both["ours"])
    assert not any(map(torch.equal, found, before))
    assert [both["ours"].state[parameter]["step"] for parameter in found] == [3, 4, 5, 5]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16], ids=str)
@pytest.mark.parametrize("saved_by", STEPS)
def test_checkpoints_resume_with_either(saved_by, dtype):
    saved = optimizer(dtype)
    set_gradients(saved, 1, without=2)
    STEPS[saved_by](saved)
    resumed = {name: optimizer(dtype) for name in STEPS}
    for name, step in STEPS.items():
        resumed[name].load_state_dict(copy.deepcopy(saved.state_dict()))
        set_gradients(resumed[name], 2)
        step(resumed[name])
    assert_same(*resumed.values())
    assert {resumed["ours"].state[parameter]["step"] for parameter in parameters(resumed["ours"])} == {1, 2}


def test_sparse_gradients_are_refused_before_anything_changes():
    adam = optimizer()
    set_gradients(adam, 1)
    before = copy.deepcopy(adam)
    parameters(adam)[0].grad = parameters(adam)[0].grad.to_sparse()
    with pytest.raises(RuntimeError, match="sparse"):
        adam.step()
    assert_same(adam, before)


@pytest.mark.parametrize("amsgrad", [False, True])
def test_closure_is_called_once(amsgrad):
    adam = optimizer(amsgrad=amsgrad)
    losses = iter([0.5])

    def closure():
        set_gradients(adam, 1)
        return next(losses)

    assert adam.step(closure) == 0.5
    assert {state["step"] for state in adam.state.values()} == {1}


def test_number_of_operations_grows_with_parts_alone(monkeypatch):
    def operations(step, count):
        adam = optimizer(count=count)
        set_gradients(adam, 1)
        step(adam)
        return small.operations(step, adam)

    assert operations(Adam.step, 4) == operations(Adam.step, 20) > 0
    monkeypatch.setattr(foreach_adam, "ON_A_CPU", 20)
    assert operations(Adam.step, 4) < operations(Adam.step, 20)
    one_by_one = [operations(STEPS["fairseq's"], count) for count in (4, 20)]
    assert one_by_one[0] < one_by_one[1], "upstream is mended: delete fairseq_syntax/compat/foreach_adam.py"

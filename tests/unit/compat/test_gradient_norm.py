"""The norm of all gradients at once is fairseq's norm, on the device of the gradients."""

from __future__ import annotations

import pytest
import torch
from fairseq import utils
from torch import nn

import small

MENDED = "upstream is mended: delete fairseq_syntax/compat/gradient_norm.py"


def parameters(dtype=torch.float32, *, count=3):
    torch.manual_seed(1)
    found = [nn.Parameter(torch.empty(50, 20 + i, dtype=dtype)) for i in range(count)]
    for parameter in found:
        parameter.grad = torch.randn(parameter.shape).to(dtype)
    return found


def clipped(dtype=torch.float32, max_norm=0.5):
    found = parameters(dtype)
    norm = utils.clip_grad_norm_(found, max_norm)
    return norm, [parameter.grad for parameter in found]


@pytest.fixture
def stock(monkeypatch):
    """A function that puts fairseq's own norm back."""
    return lambda: monkeypatch.setattr(utils, "multi_tensor_l2norm_available", False)


@pytest.fixture
def gpu(monkeypatch):
    """A current GPU, in whose place is torch's device without data."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: "meta")


@pytest.mark.parametrize("max_norm", [0.0, 0.5, 1e9])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16], ids=str)
def test_norm_and_gradients_are_bit_identical(dtype, max_norm, stock):
    found = clipped(dtype, max_norm)
    stock()
    torch.testing.assert_close(found, clipped(dtype, max_norm), rtol=0, atol=0)


def test_norm_in_half_precision_does_not_overflow():
    large = [torch.full((9,), 6e4, dtype=torch.float16)] * 4
    assert utils.multi_tensor_total_norm(large) == pytest.approx(6 * 6e4)


@pytest.mark.filterwarnings("ignore:amp_C fused kernels unavailable")
def test_gradients_on_a_cpu_are_clipped_there_beside_a_gpu(stock, gpu):
    norm, gradients = clipped()
    assert norm.device.type == "cpu"
    assert torch.cat([gradient.flatten() for gradient in gradients]).norm() == pytest.approx(0.5)
    stock()
    assert clipped(max_norm=0.0)[0].device.type == "meta", MENDED


def test_number_of_operations_does_not_grow_with_the_gradients(stock):
    def operations(count):
        return small.operations(utils.clip_grad_norm_, parameters(count=count), 0.5)

    assert operations(3) == operations(20) > 0
    stock()
    assert operations(3) < operations(20), MENDED

"""The softmax of rows that torch is slow for is torch's, in value and gradient."""

from __future__ import annotations

import pytest
import torch

from fairseq_syntax.modules.numerics import softmax


@pytest.mark.parametrize("n", [1, 2, 15, 16, 17])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_softmax_of_short_rows(n, dtype):
    torch.manual_seed(n)
    x = torch.randn(3, 2, 4, n).to(dtype)
    x[0, 0, 1, : n - 1] = -torch.inf  # hidden keys
    weights = torch.randn(3, 2, 4, n).to(dtype)
    results = []
    for function in (softmax, lambda row: row.softmax(dim=-1)):
        row = x.clone().requires_grad_()
        found = function(row)
        results.append((found, *torch.autograd.grad((found * weights).sum(), row)))
    torch.testing.assert_close(*results)

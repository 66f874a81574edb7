"""Arguments handed through code that does not know of them."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from fairseq_syntax.nn.calls import extra_arguments, outputs_of


class Echo(nn.Module):
    def forward(self, *args, **kwargs):
        return args, kwargs


def test_arguments_are_added_inside_the_block_only():
    one, other = Echo(), Echo()
    with extra_arguments([one], syntax=5):
        assert one(1, x=2) == ((1,), {"x": 2, "syntax": 5})
        assert other(1) == ((1,), {})
    assert one(1) == ((1,), {})


def test_nothing_stays_behind_after_an_error():
    one = Echo()
    with pytest.raises(KeyError), extra_arguments([one], syntax=5):
        raise KeyError
    assert one() == ((), {})


def test_outputs_are_gathered_inside_the_block_only():
    first, second = nn.Linear(2, 2), nn.Identity()
    x = torch.ones(1, 2)
    with outputs_of([first, second]) as outputs:
        y = first(x)
        second(first(2 * x))
    first(x)
    assert [len(outputs[module]) for module in (first, second)] == [2, 1]
    assert torch.equal(outputs[first][0], y)
    assert not outputs[first][0].requires_grad

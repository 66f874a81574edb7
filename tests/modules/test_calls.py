"""Arguments handed through code that does not know of them."""

from __future__ import annotations

import pytest
from torch import nn

from fairseq_syntax.modules.calls import extra_arguments


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

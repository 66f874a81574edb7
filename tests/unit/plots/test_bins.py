"""Sentences in bins."""

from __future__ import annotations

import itertools

import hypothesis
import pytest
from hypothesis import strategies as st

from syntax_experiments.plots.picture_data import MOST, Bin, make_bins


@pytest.mark.parametrize(
    ("values", "least", "expected"),
    [
        ([3, 1, 2, 1], 2, [Bin(1, 1, (1, 3)), Bin(2, 3, (0, 2))]),
        ([1, 2, 2, 3], 2, [Bin(1, 3, (0, 1, 2, 3))]),  # 3 alone joins what 1 has joined
        ([None, 4, None], 50, [Bin(4, 4, (1,))]),
        ([4, 5, 6, 12, 33], 1, [Bin(4, 5, (0, 1)), Bin(6, 10, (2,)), Bin(11, 15, (3,)), Bin(16, 33, (4,))]),
    ],
)
def test_neighbours_are_joined(values, least, expected):
    assert make_bins(values, least=least) == expected


@hypothesis.given(st.lists(st.none() | st.integers(1, 300)), st.integers(1, 20))
def test_every_sentence_is_in_one_bin_of_enough(values, least):
    bins = make_bins(values, least=least)
    found = sorted(s for b in bins for s in b.sentences)
    assert found == [i for i, value in enumerate(values) if value is not None]
    assert all(b.first <= values[s] <= b.last for b in bins for s in b.sentences)
    assert len(bins) <= MOST
    assert all(b.last < c.first for b, c in itertools.pairwise(bins))
    assert len(bins) < 2 or all(len(b.sentences) >= least for b in bins)

"""The mixture of words and their descendants that a layer reads."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from test_dependency import HEADS, SPLIT, WHOLE, features

from fairseq_syntax.modules.tree_mixing import DescendantMixing, Descendants, descendant_depths, descendant_weights


def test_descendant_weights_by_hand():
    depths = descendant_depths(*features(SPLIT, HEADS))
    weights = descendant_weights(depths)[0]
    torch.testing.assert_close(weights[2], torch.tensor([1, 2, 0, 0, 1, 1, 2, 0]) / 7)
    torch.testing.assert_close(weights[6], torch.tensor([0, 0, 0, 0, 0.5, 0.5, 0, 0]))
    assert not weights[[0, 3, 4, 5, 7]].any()  # leaves, the later subword, </s>
    depths[0, 2, 6] = 0  # hidden
    torch.testing.assert_close(descendant_weights(depths)[0, 2], torch.tensor([1, 2, 0, 0, 1, 1, 0, 0]) / 5)


@pytest.mark.parametrize(
    ("activation", "expected"),
    [
        (F.relu, [0.5, 0.75, 0.5714, 2, 2.5, 1.875]),
        (torch.sigmoid, [0.6225, 0.6792, 0.6391, 0.8808, 0.9241, 0.8670]),
    ],
)
def test_the_mixture_by_hand(activation, expected):
    states = torch.arange(1.0, 8).view(7, 1, 1)  # H = 1 … 6, and </s>
    mixing = DescendantMixing(1, layers=1, weight=0.1, activation=activation)
    torch.nn.init.constant_(mixing.layers[0]["own"].weight, 0.5)
    torch.nn.init.constant_(mixing.layers[0]["descendants"].weight, -0.25)
    weights = descendant_weights(descendant_depths(*features(WHOLE, HEADS)))
    found = mixing(states, 1, Descendants(weights, torch.tensor([True])))
    mixed = 0.9 * states[:6, 0, 0] + 0.1 * torch.tensor(expected)
    torch.testing.assert_close(found[:6, 0, 0], mixed, atol=1e-4, rtol=0)

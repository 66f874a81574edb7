"""The mixture of words and their descendants that a layer reads."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from test_dependency import HEADS, WHOLE, features

from fairseq_syntax.modules.tree_mixing import DescendantMixing, Descendants, descendant_depths, descendant_weights

STATES = torch.arange(1.0, 8).view(7, 1, 1)  # H = 1 … 6, and </s>


def mixing(activation, *, layers: int = 1, embed_dim: int = 1) -> DescendantMixing:
    made = DescendantMixing(embed_dim, layers=layers, weight=0.1, activation=activation)
    torch.nn.init.constant_(made.layers[0].own.weight, 0.5)
    torch.nn.init.constant_(made.layers[0].descendants.weight, -0.25)
    return made


@pytest.mark.parametrize(
    ("activation", "expected"),
    [
        (F.relu, [0.5, 0.75, 0.5714, 2, 2.5, 1.875]),
        (torch.sigmoid, [0.6225, 0.6792, 0.6391, 0.8808, 0.9241, 0.8670]),
    ],
)
def test_the_mixture_by_hand(activation, expected):
    weights = descendant_weights(descendant_depths(*features(WHOLE, HEADS)))
    torch.testing.assert_close((weights[0] @ STATES[:, 0, 0])[:6], torch.tensor([0, 1, 26 / 7, 0, 0, 4.5]))
    found = mixing(activation)(STATES, 1, Descendants(weights, torch.tensor([True])))
    mixed = 0.9 * STATES[:6, 0, 0] + 0.1 * torch.tensor(expected)
    torch.testing.assert_close(found[:6, 0, 0], mixed, atol=1e-4, rtol=0)


def test_a_sentence_without_a_parse_is_left_as_it_is_and_layers_have_matrices_of_their_own():
    made = DescendantMixing(4, layers=2, weight=0.3, activation=torch.tanh)
    torch.manual_seed(1)
    x, weights = torch.randn(5, 2, 4), torch.rand(2, 5, 5)
    one, two = (made(x, layer, Descendants(weights, torch.tensor([True, False]))) for layer in (1, 2))
    assert torch.equal(one[:, 1], x[:, 1])
    assert not torch.allclose(one[:, 0], x[:, 0])
    assert not torch.allclose(one[:, 0], two[:, 0])
    two.sum().backward()
    assert made.weight.grad.any()
    assert made.layers[0].own.weight.grad is None


def test_parameters_are_as_many_as_the_equation_has():
    made = DescendantMixing(512, layers=6, weight=0.1, activation=F.relu)
    assert sum(p.numel() for p in made.parameters()) == 3_145_729

"""Fusion of an encoder's output and that of the layer on top."""

from __future__ import annotations

import pytest
import torch

from fairseq_syntax.modules.fusion import FUSIONS, Fusion, FusionOptions


def by_the_formula(fusion: Fusion, h: torch.Tensor, top: torch.Tensor) -> torch.Tensor:
    """H̄ of one sentence without padding, (n, embed_dim)."""
    kind, weight = fusion.options.kind, fusion.options.weight
    if kind == "sum":
        return weight * h + (1 - weight) * top
    if kind == "top":
        return top
    if kind == "concatenate":
        return torch.cat([h, top], dim=1) @ fusion.project.weight.T
    w = fusion.similarity.weight[0]
    scores = torch.stack([torch.stack([w @ torch.cat([x, y, x * y]) for y in top]) for x in h])
    context, summary = scores.softmax(1) @ top, scores.max(1).values.softmax(0) @ h
    return torch.cat([h, context, h * context, h * summary], dim=1) @ fusion.project.weight.T


@pytest.mark.parametrize("learned", [False, True])
@pytest.mark.parametrize("kind", FUSIONS)
def test_fusion_is_its_formula_sentence_by_sentence(kind, learned):
    """A sentence without a parse keeps the encoder's output."""
    torch.manual_seed(2)
    own, top = torch.randn(2, 5, 3, 4, dtype=torch.float64)
    padding = torch.zeros(3, 5, dtype=torch.bool)
    padding[0, :2] = True
    fusion = Fusion(4, FusionOptions(kind=kind, weight=0.9, learned=learned)).double()
    found = fusion(own, top, has_parse=torch.tensor([True, True, False]), padding=padding)
    for b in range(2):
        real = ~padding[b]
        torch.testing.assert_close(found[real, b], by_the_formula(fusion, own[real, b], top[real, b]))
    assert torch.equal(found[:, 2], own[:, 2])
    if list(fusion.parameters()):
        found.sum().backward()
        assert all(parameter.grad.any() for parameter in fusion.parameters())


def test_a_weight_that_no_logit_has_cannot_be_learned():
    with pytest.raises(ValueError, match="--fusion-weight: expected one between 0 and 1, to be learned, found 1"):
        FusionOptions(weight=1.0, learned=True)

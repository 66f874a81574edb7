"""How the output of a layer on top joins an encoder's."""

from __future__ import annotations

import pytest
import torch

from fairseq_syntax.modules.fusion import FUSIONS, Fusion, FusionOptions

OWN = torch.tensor([[[1.0, 0.0]], [[0.0, 1.0]]])  # (2, 1, 2)
TOP = torch.tensor([[[1.0, 1.0]], [[0.0, 2.0]]])
PARSED = torch.tensor([True])


def joined(own: torch.Tensor, top: torch.Tensor, *, has_parse=PARSED, padding=None, **options) -> torch.Tensor:
    torch.manual_seed(1)
    return Fusion(own.shape[2], FusionOptions(**options))(own, top, has_parse=has_parse, padding=padding)


def test_the_sum_by_hand():
    assert joined(OWN, TOP).squeeze(1).tolist() == [[1, 0.5], [0, 1.5]]
    assert torch.equal(joined(OWN, TOP, weight=1.0), OWN)
    assert torch.equal(joined(OWN, TOP, kind="top"), TOP)


def test_a_learned_weight_begins_where_it_is_told_to():
    for weight in (0.5, 0.9):
        torch.testing.assert_close(joined(OWN, TOP, weight=weight, learned=True), joined(OWN, TOP, weight=weight))
    fusion = Fusion(2, FusionOptions(learned=True))
    fusion(OWN, TOP, has_parse=PARSED, padding=None).sum().backward()
    assert fusion.logit.grad.any()
    with pytest.raises(ValueError, match="--fusion-weight: expected one between 0 and 1, to be learned, found 1"):
        FusionOptions(weight=1.0, learned=True)


def test_concatenation_is_projected():
    torch.manual_seed(1)
    fusion = Fusion(2, FusionOptions(kind="concatenate"))
    found = fusion(OWN, TOP, has_parse=PARSED, padding=None)
    torch.testing.assert_close(found, torch.cat([OWN, TOP], dim=2) @ fusion.project.weight.T)


def test_bidirectional_attention_is_its_formula_position_by_position():
    torch.manual_seed(2)
    own, top = torch.randn(2, 5, 3, 4, dtype=torch.float64)
    padding = torch.zeros(3, 5, dtype=torch.bool)
    padding[0, :2] = True
    fusion = Fusion(4, FusionOptions(kind="bi-attention")).double()
    found = fusion(own, top, has_parse=torch.ones(3, dtype=torch.bool), padding=padding)
    w = fusion.similarity.weight[0]
    for b in range(3):
        h, other = own[~padding[b], b], top[~padding[b], b]
        scores = torch.stack([torch.stack([w @ torch.cat([x, y, x * y]) for y in other]) for x in h])
        context = scores.softmax(1) @ other
        summary = scores.max(1).values.softmax(0) @ h
        expected = torch.cat([h, context, h * context, h * summary], dim=1) @ fusion.project.weight.T
        torch.testing.assert_close(found[~padding[b], b], expected)


@pytest.mark.parametrize("kind", FUSIONS)
def test_a_sentence_without_a_parse_keeps_what_it_has(kind):
    torch.manual_seed(3)
    own, top = torch.randn(2, 5, 2, 4)
    found = joined(own, top, kind=kind, has_parse=torch.tensor([True, False]))
    assert torch.equal(found[:, 1], own[:, 1])
    assert not torch.allclose(found[:, 0], own[:, 0])

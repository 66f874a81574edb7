"""The criterion's losses against fairseq's and their definition, of pairs of sentences."""

from __future__ import annotations

import math
from collections.abc import Sequence
from types import SimpleNamespace

import pytest
import torch
from fairseq.criterions.masked_lm import MaskedLmConfig, MaskedLmLoss
from fairseq.logging import metrics

import small
import systems
from fairseq_syntax.criterions.masked_lm_with_syntax import MaskedLmWithSyntax, MaskedLmWithSyntaxConfig
from fairseq_syntax.criterions.predicted_parses import PREDICTED
from fairseq_syntax.modules.numerics import UNKNOWN

TASK = SimpleNamespace(target_dictionary=small.dictionary())
STOCK = MaskedLmLoss(MaskedLmConfig(tpu=False), TASK)


def ours(parent: float = 0.5, distance: float = 2.0) -> MaskedLmWithSyntax:
    weights = {"parent_loss_weight": parent, "distance_loss_weight": distance}
    return MaskedLmWithSyntax.build_criterion(MaskedLmWithSyntaxConfig(tpu=False, **weights), TASK)


def sample(rows: Sequence[int] = range(4)) -> dict:
    """These examples of a batch, padded as all, in which every third token is masked, `<s>` too."""
    net_input, pad = systems.pairs(), TASK.target_dictionary.pad()
    masked = (torch.arange(net_input["src_tokens"].numel()) % 3 == 0).view_as(net_input["src_tokens"])
    target = net_input["src_tokens"].masked_fill(~masked, pad)
    net_input["src_tokens"] = net_input["src_tokens"].masked_fill(target != pad, len(TASK.target_dictionary) - 1)
    chosen = {
        name: {k: v[rows] for k, v in value.items()} if isinstance(value, dict) else value[rows]
        for name, value in net_input.items()
    }
    return {"net_input": chosen, "target": target[rows], "ntokens": 50, "nsentences": len(rows)}


def run(criterion, net, batch=None) -> tuple[float, int, dict]:
    torch.manual_seed(2)
    loss, sample_size, log = criterion(net, batch or sample())
    return loss.item(), int(sample_size), log


def test_auxiliary_losses_are_weighed_by_masked_tokens_and_logged_beside():
    net = systems.model("seprem_roberta").train()
    loss, sample_size, log = run(ours(), net)
    torch.manual_seed(2)
    found = net(**sample()["net_input"], predictions=True)[1]["syntax_predictions"]
    masked = sample()["target"].ne(TASK.target_dictionary.pad()).sum(dim=1).tolist()
    assert sample_size == sum(masked)
    expected = 0.0
    for name, weight in (("parent", 0.5), ("distance", 2.0)):
        (prediction,) = found[name]
        losses = prediction.cross_entropy()
        for row, tokens in enumerate(masked):
            there = (prediction.sentences == row) & (prediction.targets != UNKNOWN)
            expected += weight * tokens * losses[there].mean().item() if there.any() else 0
        assert log[f"{name}_loss"].item() == pytest.approx(losses.sum().item() / math.log(2), rel=1e-5)
    assert expected > 0
    assert loss == pytest.approx(log["loss"].item() + expected, rel=1e-5)
    net.eval()
    assert run(ours(), net)[2]["loss"].item() == pytest.approx(run(STOCK, net)[0])


def test_the_loss_of_a_batch_is_the_sum_of_those_of_its_parts(monkeypatch):
    """As fairseq accumulates it over --update-freq and processes."""
    net = systems.all_distances_hidden(monkeypatch, "seprem_roberta", distance_prediction_rate=1.0).train()
    loss, sample_size, log = run(ours(), net)
    for parts in ([[0], [1, 2, 3]], [[3, 1], [2, 0]]):
        found = [run(ours(), net, sample(part)) for part in parts]
        assert sum(of_part for of_part, _, _ in found) == pytest.approx(loss, rel=1e-5)
        assert sum(size for _, size, _ in found) == sample_size
        assert {name: sum(of[f"{name}_predictions"] for *_, of in found) for name in PREDICTED} == {
            name: log[f"{name}_predictions"] for name in PREDICTED
        }


@pytest.mark.parametrize("system", ["roberta", "relative_position_roberta", "tree_bias_roberta"])
def test_a_model_that_predicts_nothing_has_fairseqs_loss(system):
    net, batch = small.model(system).eval(), sample()
    if system == "roberta":
        batch["net_input"] = systems.of_stock(batch["net_input"])
    loss, _, log = run(ours(), net, batch)
    assert loss == run(STOCK, net, batch)[0]
    with metrics.aggregate(new_root=True) as found:
        MaskedLmWithSyntax.reduce_metrics([log])
        assert set(found.get_smoothed_values()) == {"loss", "ppl"}

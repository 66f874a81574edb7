"""The criterion's losses against fairseq's and their definition."""

from __future__ import annotations

import math
from types import SimpleNamespace

import pytest
import torch
from fairseq.criterions.label_smoothed_cross_entropy import LabelSmoothedCrossEntropyCriterion
from fairseq.logging import metrics

import small
import systems
from fairseq_syntax.criterions.label_smoothed_cross_entropy_with_syntax import LabelSmoothedCrossEntropyWithSyntax

TASK = SimpleNamespace(target_dictionary=small.dictionary())


def ours(parent: float = 1.0, distance: float = 1.0, loss: str = "cross-entropy", *, sentence_avg: bool = False):
    return LabelSmoothedCrossEntropyWithSyntax(TASK, parent, distance, loss, sentence_avg, 0.1)


def sample() -> dict:
    net_input = systems.batch()
    return {"net_input": net_input, "target": net_input["prev_output_tokens"].roll(-1, 1), "ntokens": 16}


def run(criterion, net, batch=None) -> tuple[float, int, dict]:
    torch.manual_seed(2)
    loss, sample_size, log = criterion(net, batch or sample())
    return loss.item(), sample_size, log


def predictions_of(net, batch) -> dict:
    torch.manual_seed(2)
    return net(**batch["net_input"], predictions=True)[1]["syntax_predictions"]


@pytest.mark.parametrize("sentence_avg", [False, True])
@pytest.mark.parametrize("system", systems.SUPERVISED)
def test_auxiliary_losses_are_weighed_by_their_means_and_logged_beside(system, sentence_avg):
    net = systems.model(system).train()
    loss, sample_size, log = run(ours(0.5, 2.0, sentence_avg=sentence_avg), net)
    assert sample_size == (4 if sentence_avg else 16)
    expected = 0.0
    for name, weight in (("parent", 0.5), ("distance", 2.0)):
        for prediction in predictions_of(net, sample()).get(name, []):
            number = prediction.number().item()
            expected += weight * sample_size * prediction.cross_entropy().item() / number
            assert log[f"{name}_loss"].item() == pytest.approx(
                prediction.cross_entropy().item() / math.log(2), rel=1e-5
            )
            assert log[f"{name}_predictions"].item() == number
    assert expected > 0
    assert loss == pytest.approx(log["loss"].item() + expected, rel=1e-5)


@pytest.mark.parametrize("system", systems.SUPERVISED)
def test_what_is_logged_as_loss_is_translations_alone(system):
    net = systems.model(system).eval()
    _, _, log = run(ours(), net)
    expected, _, stock = run(LabelSmoothedCrossEntropyCriterion(TASK, False, 0.1), net)
    assert log["loss"].item() == pytest.approx(expected)
    assert log["nll_loss"].item() == pytest.approx(stock["nll_loss"].item())


def test_a_model_that_predicts_nothing_has_fairseqs_loss():
    for system, batch in (("sla_transformer", sample()), ("transformer", None)):
        net = small.model(system).eval()
        if batch is None:
            batch = {**sample(), "net_input": systems.of_stock(sample()["net_input"])}
        stock = LabelSmoothedCrossEntropyCriterion(TASK, False, 0.1)
        assert run(ours(), net, batch)[0] == run(stock, net, batch)[0]


def test_a_batch_without_labels_has_no_auxiliary_loss():
    net = systems.model("lisa_transformer").train()
    unlabelled = {**sample(), "net_input": systems.of_stock(sample()["net_input"])}
    loss, _, log = run(ours(), net, unlabelled)
    assert loss == log["loss"].item()
    assert log["parent_predictions"].item() == 0


def test_all_batches_log_the_same_keys():
    """fairseq adds up, over batches and ranks, the keys of the first one."""
    logs = []
    for options in ({"encoder_layerdrop": 0.5}, {}):
        net = systems.model("lisa_transformer", **options).train()
        for seed in range(6):
            torch.manual_seed(seed)
            logs.append(ours()(net, sample())[2])
    logs.append(ours()(small.model("relative_position_transformer"), sample())[2])
    assert len({frozenset(log) for log in logs}) == 1
    assert len({log["parent_predictions"].item() for log in logs}) == 2
    assert len({tuple(torch.is_tensor(value) for value in log.values()) for log in logs}) == 1


def test_the_squared_loss_is_that_of_attention_rows():
    net = systems.model("lisa_transformer").train()
    loss, _, log = run(ours(3.0, loss="squared"), net)
    (prediction,) = predictions_of(net, sample())["parent"]
    expected = prediction.squared_error().item()
    assert log["parent_loss"].item() == pytest.approx(expected, rel=1e-5)
    mean = expected / prediction.number().item()
    assert loss == pytest.approx(log["loss"].item() + 3 * 16 * mean, rel=1e-5)


def test_means_are_logged_over_batches():
    criterion, net = ours(), systems.model("seprem_transformer").train()
    logs = [run(criterion, net)[2] for _ in range(2)]
    with metrics.aggregate(new_root=True) as found:
        criterion.reduce_metrics(logs)
        values = found.get_smoothed_values()
    for name in ("parent", "distance"):
        number = logs[0][f"{name}_predictions"].item()
        assert values[f"{name}_loss"] == pytest.approx(logs[0][f"{name}_loss"].item() / number, abs=2e-3)
        assert values[f"{name}_accuracy"] == pytest.approx(100 * logs[0][f"{name}_correct"].item() / number, abs=1e-2)


def test_a_scorer_learns_heads():
    net = systems.model("lisa_transformer", lisa_teacher_forcing=False).train()
    optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
    accuracy = []
    for _ in range(40):
        optimizer.zero_grad()
        loss, _, log = ours()(net, sample())
        loss.backward()
        optimizer.step()
        accuracy.append(log["parent_correct"].item() / log["parent_predictions"].item())
    assert accuracy[0] < 0.5
    assert accuracy[-1] > 0.95

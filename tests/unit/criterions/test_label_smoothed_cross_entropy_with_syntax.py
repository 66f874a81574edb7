"""The criterion's losses against fairseq's and their definition."""

from __future__ import annotations

import gc
import math
import weakref
from argparse import Namespace
from collections.abc import Sequence
from types import SimpleNamespace

import pytest
import torch
from fairseq.criterions.label_smoothed_cross_entropy import LabelSmoothedCrossEntropyCriterion
from fairseq.logging import metrics

import small
import systems
from fairseq_syntax.criterions.label_smoothed_cross_entropy_with_syntax import LabelSmoothedCrossEntropyWithSyntax
from fairseq_syntax.criterions.predicted_parses import PREDICTED
from fairseq_syntax.modules.numerics import UNKNOWN
from pairwise import pairwise

TASK = SimpleNamespace(target_dictionary=small.dictionary())


def ours(parent: float = 1.0, distance: float = 1.0, loss: str = "cross-entropy", *, sentence_avg: bool = False):
    cfg = Namespace(
        parent_loss_weight=parent, distance_loss_weight=distance, parent_loss=loss, sentence_avg=sentence_avg,
        label_smoothing=0.1,
    )  # fmt: skip
    return LabelSmoothedCrossEntropyWithSyntax.build_criterion(cfg, TASK)


STOCK = LabelSmoothedCrossEntropyCriterion(TASK, False, 0.1)
CASES = pairwise(systems.SUPERVISED, [False, True], ["cross-entropy", "squared"])
TOKENS = [4, 2, 1, 3]  # of the target sentences


def sample(rows: Sequence[int] = range(4)) -> dict:
    """These sentences of a batch, padded as all."""
    net_input = systems.batch()
    target = net_input["prev_output_tokens"].roll(-1, 1)
    for row, tokens in enumerate(TOKENS):
        target[row, tokens:] = TASK.target_dictionary.pad()
    chosen = {
        name: {k: v[rows] for k, v in value.items()} if isinstance(value, dict) else value[rows]
        for name, value in net_input.items()
    }
    return {"net_input": chosen, "target": target[rows], "ntokens": sum(TOKENS[row] for row in rows)}


def run(criterion, net, batch=None) -> tuple[float, int, dict]:
    torch.manual_seed(2)
    loss, sample_size, log = criterion(net, batch or sample())
    return loss.item(), sample_size, log


def predictions_of(net, batch) -> dict:
    torch.manual_seed(2)
    return net(**batch["net_input"], predictions=True)[1]["syntax_predictions"]


def mean_of_sentences(losses, prediction, weights) -> float:
    """Σ t_s·(mean of sentence s), one number after the other."""
    total = 0.0
    for sentence, weight in enumerate(weights):
        there = (prediction.sentences == sentence) & (prediction.targets != UNKNOWN)
        total += weight * losses[there].mean().item() if there.any() else 0
    return total


@pytest.mark.parametrize(("system", "sentence_avg", "kind"), CASES)
def test_auxiliary_losses_are_weighed_by_sentences_means_and_logged_beside(system, sentence_avg, kind):
    net = systems.model(system).train()
    loss, sample_size, log = run(ours(0.5, 2.0, kind, sentence_avg=sentence_avg), net)
    assert sample_size == (4 if sentence_avg else 10)
    expected = 0.0
    for name, weight in (("parent", 0.5), ("distance", 2.0)):
        for prediction in predictions_of(net, sample()).get(name, []):
            squared = kind == "squared" and name == "parent"
            losses = prediction.squared_error() if squared else prediction.cross_entropy()
            expected += weight * mean_of_sentences(losses, prediction, [1] * 4 if sentence_avg else TOKENS)
            bits = losses.sum().item() / (1 if squared else math.log(2))
            assert log[f"{name}_loss"].item() == pytest.approx(bits, rel=1e-5)
            assert log[f"{name}_predictions"].item() == (prediction.targets != UNKNOWN).sum().item()
    assert expected > 0
    assert loss == pytest.approx(log["loss"].item() + expected, rel=1e-5)
    net.eval()
    _, _, log = run(ours(), net)  # what is logged as loss is translation's alone
    translation, _, stock = run(STOCK, net)
    assert log["loss"].item() == pytest.approx(translation)
    assert log["nll_loss"].item() == pytest.approx(stock["nll_loss"].item())


@pytest.mark.parametrize(("system", "sentence_avg", "kind"), CASES)
def test_the_loss_of_a_batch_is_the_sum_of_those_of_its_parts(system, sentence_avg, kind, monkeypatch):
    """As fairseq accumulates it over --update-freq and processes."""
    net = systems.all_distances_hidden(monkeypatch, system).train()
    criterion = ours(0.5, 2.0, kind, sentence_avg=sentence_avg)
    loss, sample_size, log = run(criterion, net)
    for parts in ([[0], [1, 2, 3]], [[3, 1], [2, 0]], [[0], [1], [2], [3]]):
        found = [run(criterion, net, sample(part)) for part in parts]
        assert sum(of_part for of_part, _, _ in found) == pytest.approx(loss, rel=1e-5)
        assert sum(size for _, size, _ in found) == sample_size
        for name in PREDICTED:
            number = f"{name}_predictions"
            assert sum(of_part[number].item() for _, _, of_part in found) == log[number].item()
    assert log["parent_predictions"] > 0


def test_nothing_of_a_pass_is_kept_when_the_vocabularys_softmax_runs_out_of_memory(monkeypatch):
    net, graph = systems.model("seprem_transformer").train(), []

    def fail(net_output, *_, **__):
        graph.append(weakref.ref(net_output[1]["syntax_predictions"]["parent"][0].scores))
        raise RuntimeError("CUDA out of memory")

    monkeypatch.setattr(net, "get_normalized_probs", fail)
    with pytest.raises(RuntimeError, match="out of memory"):
        ours()(net, sample())
    gc.collect()
    assert [found() for found in graph] == [None]


def test_a_model_that_predicts_nothing_has_fairseqs_loss():
    plain = {**sample(), "net_input": systems.of_stock(sample()["net_input"])}  # without labels
    for system, batch in (("sla_transformer", sample()), ("transformer", plain), ("lisa_transformer", plain)):
        net = small.model(system).eval()
        loss, _, log = run(ours(), net, batch)
        assert loss == run(STOCK, net, batch)[0]
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
    for _ in range(90):
        optimizer.zero_grad()
        loss, _, log = ours()(net, sample())
        loss.backward()
        optimizer.step()
        accuracy.append(log["parent_correct"].item() / log["parent_predictions"].item())
    assert accuracy[0] < 0.5
    assert accuracy[-1] > 0.95

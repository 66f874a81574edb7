"""Losses and scores of label sets, against numbers by hand."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
from fairseq.criterions.sentence_prediction import SentencePredictionConfig
from fairseq.logging import metrics

from fairseq_syntax.criterions.multi_label_prediction import MultiLabelPrediction, label_sets, scores, sums


def criterion(**options):
    return MultiLabelPrediction(SentencePredictionConfig(**options), SimpleNamespace(target_dictionary=None))


def test_golden_scores():
    """(P, G) = (ab, a), (∅, b), (c, c)."""
    predicted = label_sets(torch.tensor([[0, 1], [-1, -1], [2, -1]]), 3)
    right = label_sets(torch.tensor([[0], [1], [2]]), 3)
    found = {name: float(total) for name, total in sums(predicted, right).items()}
    assert (found["macro_p"] / 3, found["macro_r"] / 3) == pytest.approx((0.5, 2 / 3))
    expected = {"accuracy": 1 / 3, "f1_macro": 0.5714, "f1_micro": 0.6667}
    assert scores({**found, "nsentences": 3}) == pytest.approx(expected, abs=5e-5)
    nothing = {name: 0.0 for name in found}
    assert scores({**nothing, "nsentences": 3}) == {"accuracy": 0, "f1_macro": 0, "f1_micro": 0}


def test_the_loss_is_a_mean_over_classes_and_scores_are_of_all_batches():
    logits = torch.tensor([[2.0, 1.0, -3.0], [-1.0, -0.5, -2.0], [-1.0, -1.0, 0.5]])
    target = torch.tensor([[0, -1], [1, -1], [2, -1]])
    logs, total = [], 0.0
    for some in (slice(0, 1), slice(1, 3)):
        sample = {"net_input": {"rows": logits[some]}, "target": target[some], "ntokens": 7}
        loss, size, log = criterion()(lambda rows, **_: (rows, {}), sample)
        assert size == len(logits[some])
        logs.append(log)
        total += loss.item()
    right = torch.eye(3)
    p = logits.sigmoid()
    assert total == pytest.approx(-(right * p.log() + (1 - right) * (1 - p).log()).mean(dim=1).sum().item(), rel=1e-5)
    with metrics.aggregate(new_root=True) as found:
        MultiLabelPrediction.reduce_metrics(logs)
        values = found.get_smoothed_values()
    assert {n: v for n, v in values.items() if n != "loss"} == {"accuracy": 33.3, "f1_macro": 57.1, "f1_micro": 66.7}
    assert values["loss"] == pytest.approx(total / 3 / 0.693147, abs=1e-3)


def test_scores_of_single_labels_are_refused():
    with pytest.raises(ValueError, match="--report-mcc: expected without --criterion multi_label_prediction"):
        criterion(report_mcc=True)

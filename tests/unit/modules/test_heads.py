"""Heads and distances that models predict: the scorer, the targets, the losses, what is hidden."""

from __future__ import annotations

import math

import pytest
import torch
from test_dependency import HEADS, SPLIT, WHOLE, features

from fairseq_syntax.modules.biases import UNKNOWN, PredictedParent
from fairseq_syntax.modules.heads import (
    DISTANCE_CLASSES,
    ParentScorer,
    Prediction,
    PredictionOptions,
    Predictor,
    corrupt_distances,
    parent_targets,
    predicted_parents,
)
from fairseq_syntax.modules.tree_mixing import descendant_depths


def test_the_scorer_by_hand():
    states = torch.tensor([[[1.0, 0]], [[0, 1.0]], [[1.0, 1.0]]])  # two words and </s>, (3, 1, 2)
    scorer = ParentScorer(2, 2)
    assert not scorer(states).any()  # at first all words are as likely
    scorer.dependent.weight.data = torch.tensor([[1, -1], [0.5, 2]])
    scorer.head.weight.data = torch.tensor([[2.0, 0], [1, -1]])
    scorer.dependent.bias.data.zero_()
    scorer.head.bias.data.zero_()
    scorer.weight.data = torch.tensor([[1, 0], [0, 1], [0.5, -0.5]])
    scores = scorer(states)
    torch.testing.assert_close(scores, torch.tensor([[[3, 0, 3], [2.3, -0.15, 0.8], [3, -0.2, 1]]]))
    prediction = predicted_parents(scores, torch.tensor([[1, 1, UNKNOWN]]), None)
    assert (prediction.cross_entropy().sum() / 2).item() == pytest.approx(3.2187, abs=5e-5)
    assert (prediction.squared_error().sum() / 2).item() == pytest.approx(1.4564, abs=5e-5)


def test_targets_by_hand():
    word, head = features(SPLIT, HEADS)
    assert parent_targets(word, head).tolist() == [[1, 2, 2, 2, 6, 6, 2, UNKNOWN]]
    wide = torch.tensor([[UNKNOWN] * 2 + word[0].tolist()]), torch.tensor([[UNKNOWN] * 2 + head[0].tolist()])
    assert parent_targets(*wide).tolist() == [[UNKNOWN, UNKNOWN, 3, 4, 4, 4, 8, 8, 4, UNKNOWN]]
    two = parent_targets(*features(WHOLE, [2, 0, 2, 6, 6, 0]))
    assert two.tolist() == [[1, 1, 1, 5, 5, 5, UNKNOWN]]
    assert (parent_targets(word, torch.full_like(head, UNKNOWN)) == UNKNOWN).all()


def test_the_loss_wants_the_head_of_each_dependent_and_not_the_other_way():
    targets = parent_targets(*features(WHOLE, HEADS))
    right = torch.zeros(1, 7, 7)
    right[0, range(6), targets[0, :6]] = 50.0
    prediction = predicted_parents(right, targets, None)
    assert prediction.cross_entropy().sum().item() == pytest.approx(0, abs=1e-6)
    assert int(prediction.correct()) == 6
    assert predicted_parents(right.mT, targets, None).cross_entropy().sum().item() > 100
    uniform = predicted_parents(torch.zeros(1, 7, 7), targets, None)
    assert uniform.cross_entropy().sum().item() == pytest.approx(6 * math.log(7))
    assert uniform.squared_error().sum().item() == pytest.approx(6 * (1 - 1 / 7))


def test_padding_changes_no_loss():
    targets = parent_targets(*features(WHOLE, HEADS))
    scores = torch.randn(1, 7, 7)
    expected = predicted_parents(scores, targets, None)
    wide = torch.nn.functional.pad(scores, (2, 0, 2, 0), value=9.0)
    moved = torch.cat([torch.full((1, 2), UNKNOWN), torch.where(targets < 0, targets, targets + 2)], dim=1)
    found = predicted_parents(wide, moved, torch.tensor([[True] * 2 + [False] * 7]))
    for loss in (Prediction.cross_entropy, Prediction.squared_error):
        torch.testing.assert_close(loss(found)[2:], loss(expected))
        assert not loss(found)[:2].any()


def test_a_head_under_teacher_forcing_is_the_parsers_in_training_alone():
    word, head = features(SPLIT, HEADS)
    mask = PredictedParent()
    module, unforced = (
        PredictedParent(teacher_forcing=forcing).build_layer_module(heads=1, head_dim=4, embed_dim=8)
        for forcing in (True, False)
    )
    torch.nn.init.normal_(module.scorer.weight)
    unforced.load_state_dict(module.state_dict())
    x = torch.randn(8, 1, 8)
    targets = mask.bias(torch.arange(8)[None], word=word, head=head)
    scores = module.scorer(x).unsqueeze(1)
    forced = module(targets, x)
    attention = forced.bias.softmax(dim=-1)[0, 0]
    assert attention[:7].argmax(dim=1).tolist() == targets[0, :7].tolist()
    assert torch.equal(attention[:7].max(dim=1).values, torch.ones(7))
    torch.testing.assert_close(attention[7], scores[0, 0, 7].softmax(0))  # </s> has no head
    assert torch.equal(forced.prediction, scores)
    without_labels = module(mask.bias(torch.arange(8)[None]), x)
    for bias in (without_labels, unforced(targets, x), module.eval()(targets, x)):
        assert torch.equal(bias.bias, scores)


def test_distances_are_corrupted_at_the_published_rates():
    word, head = (feature.expand(400, -1) for feature in features(SPLIT, HEADS))
    descent = descendant_depths(word, head)
    torch.manual_seed(1)
    hidden = corrupt_distances(descent, word, head, rate=0.15)
    sentence, one, other = hidden.pairs
    begins = [0, 1, 2, 4, 5, 6]
    assert set(one.tolist()) == set(other.tolist()) == set(begins)
    assert not (one == other).any()
    assert len(one) / (400 * 30) == pytest.approx(0.15, abs=0.02)
    true, shown = descent[sentence, one, other], hidden.shown[sentence, one, other]
    assert torch.equal(hidden.targets, true)
    far = true > 0
    assert float((shown[far] == 0).float().mean()) == pytest.approx(0.8, abs=0.05)
    unlike = (shown != true) & (shown != 0)
    assert float(unlike[~far].float().mean()) == pytest.approx(0.1, abs=0.03)  # a false distance where no way leads
    assert set(shown[~far].unique().tolist()) == {0, 1, 2}
    untouched = torch.ones_like(descent, dtype=torch.bool)
    untouched[sentence, one, other] = False
    untouched[:, :, 3] = untouched[:, :, 2]  # flects as re@@
    assert torch.equal(hidden.shown[untouched], descent[untouched])
    assert torch.equal(hidden.shown[:, :, 3][:, [0, 1, 4, 5, 6]], hidden.shown[:, :, 2][:, [0, 1, 4, 5, 6]])


def test_distances_are_predicted_from_the_states_of_both_words():
    word, head = features(list(range(20)), list(range(20)))  # a chain, whose long distances are one class
    corrupted = corrupt_distances(descendant_depths(word, head), word, head, rate=1.0)
    assert int(corrupted.targets.max()) == DISTANCE_CLASSES - 1 == 16
    assert len(corrupted.targets) == 20 * 19
    predictor = Predictor(8, 4, PredictionOptions(distances=True))
    x = torch.randn(21, 1, 8)
    (found,) = predictor(x, parent_targets(word, head), corrupted, None)["distance"]
    weight = torch.cat([predictor.one.weight, predictor.other.weight], dim=1)
    for row, b, i, j in zip(found.scores, *corrupted.pairs, strict=True):
        torch.testing.assert_close(row, weight @ torch.cat([x[i, b], x[j, b]]) + predictor.one.bias)
    assert predictor(x, parent_targets(word, head), None, None) == {}


def test_nothing_to_predict_is_a_loss_of_zero_with_a_gradient():
    scores = torch.zeros(1, 3, 3, requires_grad=True)
    nothing = predicted_parents(scores, torch.full((1, 3), UNKNOWN), None)
    loss = (nothing.cross_entropy() + nothing.squared_error()).sum()
    loss.backward()
    assert loss.item() == 0
    assert int(nothing.correct()) == 0
    assert not scores.grad.any()

"""The span head, and the loss of predicted spans."""

from __future__ import annotations

import copy
from types import SimpleNamespace

import pytest
import torch
from fairseq.logging import metrics
from torch import nn

import systems
from fairseq_syntax.criterions.span_prediction import SpanPrediction
from fairseq_syntax.modules.span_head import add_span_head, span_logits

#: ``<s> q </s> </s> p1 p2 p3 p4 </s>``: logits of the first and the last token of an answer.
LOGITS = torch.tensor([
    [1, 0.3, 0.1, 0.2, 0.5, 2, -0.5, 0.4, 0.9],
    [0.8, 0.1, 0, 0.3, -1, 0.7, 1.9, 0.2, 1.2],
]).T  # fmt: skip
PASSAGE = (4, 8)


def loss_of(targets: list[tuple[int, int]], padding: int = 0) -> tuple[float, dict]:
    """The criterion's loss of a batch of equal windows, and what it logs."""
    logits = torch.cat([LOGITS, torch.full((padding, 2), 9.0)]).expand(len(targets), -1, -1)
    sample = {
        "net_input": {}, "ntokens": 9 * len(targets), "target": torch.tensor(targets),
        "passage": torch.tensor([PASSAGE] * len(targets)),
    }  # fmt: skip
    criterion = SpanPrediction(SimpleNamespace(target_dictionary=None), "spans")
    loss, size, logged = criterion(lambda **_: (logits, {}), sample)
    assert size == len(targets)
    return float(loss), logged


def test_the_golden_loss():
    loss, logged = loss_of([(5, 6)])
    assert loss == pytest.approx(0.6277, abs=5e-5)
    assert logged["ncorrect"] == 1
    log_p = LOGITS.log_softmax(dim=0)
    assert float(-(log_p[5, 0] + log_p[6, 1]) / 2) == pytest.approx(1.0274, abs=5e-5)  # over all positions


def test_the_log_has_means_over_windows_without_padding():
    alone = [loss_of([target])[0] for target in ((5, 6), (0, 0), (5, 7))]
    loss, logged = loss_of([(5, 6), (0, 0), (5, 7)], padding=3)
    assert loss == pytest.approx(sum(alone))
    with metrics.aggregate() as found:
        SpanPrediction.reduce_metrics([logged, loss_of([(5, 6)])[1]])
    values = found.get_smoothed_values()
    assert values["accuracy"] == 50  # both ends, of two in four windows
    assert values["loss"] == pytest.approx((sum(alone) + alone[0]) / 4 / torch.log(torch.tensor(2.0)).item(), abs=1e-3)


def test_only_the_passage_and_the_first_token_compete():
    found = span_logits(LOGITS[None].expand(2, -1, -1), torch.tensor([[4, 8], [1, 3]]))
    assert found.isfinite()[..., 0].int().tolist() == [[1, 0, 0, 0, 1, 1, 1, 1, 0], [1, 1, 1, 0, 0, 0, 0, 0, 0]]
    torch.testing.assert_close(found[0, 4:8], LOGITS[4:8])


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.args = SimpleNamespace(encoder_embed_dim=8)
        self.classification_heads = nn.ModuleDict()
        add_span_head(self, "spans")


def test_weights_are_where_fairseq_expects_no_others():
    torch.manual_seed(1)
    model, other = Model(), Model()
    assert [*model.state_dict()] == ["span_heads.spans.weight", "span_heads.spans.bias"]
    states = torch.rand(2, 5, 8)
    expected = model.classification_heads["spans"](states)
    assert expected.shape == (2, 5, 2)
    before = {name: value.clone() for name, value in other.state_dict().items()}
    other.load_state_dict({})  # of a pre-trained model
    torch.testing.assert_close(other.state_dict(), before, rtol=0, atol=0)
    other.load_state_dict(model.state_dict())
    torch.testing.assert_close(other.classification_heads["spans"](states), expected, rtol=0, atol=0)
    copied = copy.deepcopy(model)  # for a moving average of weights
    model.span_heads["spans"].bias.data += 1
    torch.testing.assert_close(copied.classification_heads["spans"](states), expected, rtol=0, atol=0)
    torch.testing.assert_close(model.classification_heads["spans"](states), expected + 1)
    assert 0.01 < float(model.span_heads["spans"].weight.detach().std()) < 0.04
    with pytest.raises(RuntimeError, match=r"span_heads\.spans\.bias"):
        other.load_state_dict({"span_heads.spans.weight": torch.zeros(2, 8)})


@pytest.mark.parametrize("pooling", ["first", "mean"])
@pytest.mark.parametrize("system", ["sg_net_roberta", "seprem_roberta"])
def test_the_head_reads_every_position_and_a_parse_reaches_it(system, pooling):
    """Also that of a layer on top, under any pooling."""
    net, net_input = systems.model(system, pooling=pooling).eval(), systems.pairs()
    add_span_head(net, "spans")
    logits, _ = net(**net_input, classification_head_name="spans")
    states, _ = net(**net_input, features_only=True)
    torch.testing.assert_close(logits, net.span_heads["spans"](states), rtol=0, atol=0)
    flat = {**net_input["src_syntax"], "head": net_input["src_syntax"]["head"].clamp(max=0)}
    other, _ = net(**{**net_input, "src_syntax": flat}, classification_head_name="spans")
    assert (other - logits).abs().max() > 1e-3

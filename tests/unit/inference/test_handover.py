"""Features go beside fairseq-interactive from batch to batch, never to another one."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from fairseq_syntax.inference.handover import FeatureQueue


def made(*rows: list[int], feature: int) -> dict[str, Any]:
    """A batch as a dataset makes it."""
    tokens = torch.tensor(rows)
    return {"id": [0], "net_input": {"src_tokens": tokens, "src_syntax": {"head": torch.full(tokens.shape, feature)}}}


def rebuilt(batch: dict[str, Any]) -> dict[str, Any]:
    """What fairseq-interactive makes of it: equal tokens, and nothing more."""
    return {"net_input": {"src_tokens": batch["net_input"]["src_tokens"].clone()}}


def feature(batch: dict[str, Any]) -> int:
    (value,) = set(batch["net_input"]["src_syntax"]["head"].flatten().tolist())
    return value


def test_each_batch_gets_its_own_features_also_where_tokens_are_equal():
    handover = FeatureQueue()
    batches = [made([4, 5, 2], feature=i) for i in range(3)]
    for batch in batches:
        handover.put(batch)
        assert "src_syntax" not in batch["net_input"]
    given = [rebuilt(batch) for batch in batches]
    assert [feature(handover.take(batch)) for batch in given] == [0, 1, 2]
    assert all("src_syntax" not in batch["net_input"] for batch in given)  # what was given stays as it is


def test_a_batch_at_a_time():
    handover = FeatureQueue()
    epoch = SimpleNamespace(next_epoch_itr=lambda shuffle: (made([4 + i, 2], feature=i) for i in range(4)))
    for i, batch in enumerate(handover.through(epoch).next_epoch_itr(shuffle=False)):
        assert feature(handover.take(rebuilt(batch))) == i


@pytest.mark.parametrize("other", [[[9, 5, 2]], [[4, 5, 2], [4, 5, 2]], [[4, 5]]])
def test_the_wrong_order_is_an_error(other):
    handover = FeatureQueue()
    handover.put(made([4, 5, 2], feature=1))
    with pytest.raises(RuntimeError, match="in the order in which they were made"):
        handover.take(rebuilt(made(*other, feature=2)))


def test_the_last_batches_of_an_earlier_buffer_are_forgotten():
    handover = FeatureQueue()
    first = handover.through(SimpleNamespace(next_epoch_itr=lambda: iter([made([4, 2], feature=i) for i in range(3)])))
    for batch, _ in zip(first.next_epoch_itr(), range(2), strict=False):  # whoever translates them stops halfway
        rebuilt(batch)
    handover.restart()
    batch = made([4, 2], feature=7)
    handover.put(batch)
    assert feature(handover.take(rebuilt(batch))) == 7
    assert handover.take(rebuilt(batch)).keys() == {"net_input"}


def test_two_buffers_at_once_never_mix():
    handover = FeatureQueue()
    one, two = (
        handover.through(
            SimpleNamespace(next_epoch_itr=lambda at=at: iter([made([at, 2], feature=at)]))
        ).next_epoch_itr()
        for at in (4, 5)
    )
    first, second = next(one), next(two)
    with pytest.raises(RuntimeError, match="in the order"):
        handover.take(rebuilt(second))
    handover.restart()
    handover.put(made([4, 2], feature=4))
    handover.put(made([5, 2], feature=5))
    assert [feature(handover.take(rebuilt(batch))) for batch in (first, second)] == [4, 5]


def test_other_batches_stay_as_they_are():
    handover = FeatureQueue()
    plain = rebuilt(made([4, 2], feature=1))
    assert handover.take(plain) is plain  # the model says what is missing
    handover.put(made([4, 2], feature=1))
    whole = made([4, 2], feature=3)  # of a data-bin, while new text waits
    assert handover.take(whole) is whole
    assert feature(handover.take(plain)) == 1


def test_tokens_are_compared_only_where_the_batch_was_moved(monkeypatch):
    def compared(*_: object) -> bool:
        raise AssertionError("compared")

    monkeypatch.setattr(torch, "equal", compared)
    handover = FeatureQueue()
    batch = made([4, 2], feature=1)
    handover.put(batch)
    assert feature(handover.take({"net_input": {"src_tokens": batch["net_input"]["src_tokens"]}})) == 1


def test_features_follow_the_tokens_to_their_device():
    handover = FeatureQueue()
    batch = made([4, 2], feature=1)
    handover.put(batch)
    moved = batch["net_input"]["src_tokens"].to("meta")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch, "equal", lambda a, b: a.device == b.device)
        taken = handover.take({"net_input": {"src_tokens": moved}})
    assert taken["net_input"]["src_syntax"]["head"].device.type == "meta"

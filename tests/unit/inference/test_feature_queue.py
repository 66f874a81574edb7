"""Features go beside fairseq-interactive from batch to batch, never to another one."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from fairseq_syntax.inference.feature_queue import FeatureQueue
from fairseq_syntax.modules.syntax_batch import SyntaxBatch


def made(*rows: list[int], feature: int) -> dict[str, Any]:
    """A batch as a dataset makes it."""
    tokens = torch.tensor(rows)
    features = SyntaxBatch(head=torch.full(tokens.shape, feature))
    return {"id": [0], "net_input": {"src_tokens": tokens, "src_syntax": features}}


def rebuilt(batch: dict[str, Any]) -> dict[str, Any]:
    """The batch that fairseq-interactive builds from it: equal tokens, and nothing more."""
    return {"net_input": {"src_tokens": batch["net_input"]["src_tokens"].clone()}}


def feature(batch: dict[str, Any]) -> int:
    (value,) = set(batch["net_input"]["src_syntax"]["head"].flatten().tolist())
    return value


def iterator(*batches: dict[str, Any]) -> SimpleNamespace:
    return SimpleNamespace(next_epoch_itr=lambda **_: iter(batches))


def test_each_batch_gets_its_own_features_also_where_tokens_are_equal():
    queue = FeatureQueue()
    batches = [made([4, 5, 2], feature=i) for i in range(3)]
    for i, batch in enumerate(queue.wrap(iterator(*batches)).next_epoch_itr(shuffle=False)):  # one at a time
        assert "src_syntax" not in batch["net_input"]
        assert feature(queue.pop(rebuilt(batch))) == i
    batches = [made([4, 5, 2], feature=i) for i in range(3)]
    for batch in batches:
        queue.push(batch)
    given = [rebuilt(batch) for batch in batches]
    assert [feature(queue.pop(batch)) for batch in given] == [0, 1, 2]
    assert all("src_syntax" not in batch["net_input"] for batch in given)  # unchanged


@pytest.mark.parametrize("other", [[[9, 5, 2]], [[4, 5, 2], [4, 5, 2]], [[4, 5]]])
def test_the_wrong_order_is_an_error(other):
    queue = FeatureQueue()
    queue.push(made([4, 5, 2], feature=1))
    with pytest.raises(RuntimeError, match="in the order in which they were made"):
        queue.pop(rebuilt(made(*other, feature=2)))


def test_the_last_batches_of_an_earlier_buffer_are_dropped():
    queue = FeatureQueue()
    batches = queue.wrap(iterator(*(made([4, 2], feature=i) for i in range(3)))).next_epoch_itr()
    next(batches), next(batches)  # the translation stops halfway
    queue.clear()
    batch = made([4, 2], feature=7)
    queue.push(batch)
    assert feature(queue.pop(rebuilt(batch))) == 7
    assert queue.pop(rebuilt(batch)).keys() == {"net_input"}


def test_other_batches_are_returned_as_they_are():
    queue = FeatureQueue()
    plain = rebuilt(made([4, 2], feature=1))
    assert queue.pop(plain) is plain  # the model names the missing features
    queue.push(made([4, 2], feature=1))
    whole = made([4, 2], feature=3)  # of a data-bin, while new text waits
    assert queue.pop(whole) is whole
    assert feature(queue.pop(plain)) == 1


def test_features_are_moved_where_the_tokens_are_and_else_nothing_is_compared(monkeypatch):
    queue = FeatureQueue()
    batches = [made([4, 2], feature=1) for _ in range(2)]
    tokens = [batch["net_input"]["src_tokens"] for batch in batches]
    for batch in batches:
        queue.push(batch)
    monkeypatch.setattr(torch, "equal", lambda *_: pytest.fail("compared"))
    assert feature(queue.pop({"net_input": {"src_tokens": tokens[0]}})) == 1
    monkeypatch.setattr(torch, "equal", lambda a, b: a.device == b.device)
    taken = queue.pop({"net_input": {"src_tokens": tokens[1].to("meta")}})
    assert taken["net_input"]["src_syntax"]["head"].device.type == "meta"

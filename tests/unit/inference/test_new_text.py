"""New text's features go beside fairseq's inference, and are never lost unnoticed."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from fairseq_syntax.inference.new_text import FeatureQueue
from fairseq_syntax.inference.parsed_batch import ParsedBatch, reasons_without_parse
from fairseq_syntax.modules.syntax_batch import SyntaxBatch
from syntax_data.features.sentence import AlignedSentence
from syntax_data.trees.tree import NoParse


def made(*rows: list[int], feature: int) -> dict[str, Any]:
    """A batch as a dataset makes it."""
    tokens = torch.tensor(rows)
    features = SyntaxBatch(head=torch.full(tokens.shape, feature))
    return {"id": [0], "net_input": {"src_tokens": tokens, "src_syntax": features}}


def rebuilt(batch: dict[str, Any]) -> dict[str, Any]:
    """The batch that fairseq-interactive builds from it: equal tokens alone."""
    return {"net_input": {"src_tokens": batch["net_input"]["src_tokens"].clone()}}


def feature(batch: dict[str, Any]) -> int:
    (value,) = set(batch["net_input"]["src_syntax"]["head"].flatten().tolist())
    return value


def through(queue: FeatureQueue, *batches: dict[str, Any]) -> Any:
    """The batches as fairseq's inference gets them, one at a time."""
    return queue.wrap(SimpleNamespace(next_epoch_itr=lambda **_: iter(batches))).next_epoch_itr(shuffle=False)


def test_each_batch_gets_its_own_features_also_where_tokens_are_equal():
    queue = FeatureQueue()
    for at_once in (False, True):
        batches = through(queue, *(made([4, 5, 2], feature=i) for i in range(3)))
        for i, batch in enumerate(list(batches) if at_once else batches):
            given = rebuilt(batch)
            assert feature(queue.pop(given)) == i
            assert given["net_input"].keys() == {"src_tokens"}  # unchanged
    batches = through(queue, *(made([4, 2], feature=i) for i in range(3)))
    next(batches), next(batches)  # the translation stops halfway, and another one begins
    (batch,) = through(queue, made([4, 2], feature=7))
    assert feature(queue.pop(rebuilt(batch))) == 7
    plain = rebuilt(batch)
    assert queue.pop(plain) is plain  # the model names the missing features
    (batch,) = through(queue, made([4, 2], feature=1))
    whole = made([4, 2], feature=3)  # of a data-bin, while new text waits
    assert queue.pop(whole) is whole
    assert feature(queue.pop(rebuilt(batch))) == 1


@pytest.mark.parametrize("other", [[[9, 5, 2]], [[4, 5, 2], [4, 5, 2]], [[4, 5]]])
def test_the_wrong_order_is_an_error(other):
    queue = FeatureQueue()
    list(through(queue, made([4, 5, 2], feature=1)))
    with pytest.raises(RuntimeError, match="in the order in which they were made"):
        queue.pop(rebuilt(made(*other, feature=2)))


def test_features_are_moved_to_the_device_of_the_tokens(monkeypatch):
    queue = FeatureQueue()
    (batch,) = through(queue, made([4, 2], feature=1))
    monkeypatch.setattr(torch, "equal", lambda a, b: a.device == b.device)
    taken = queue.pop({"net_input": {"src_tokens": batch["net_input"]["src_tokens"].to("meta")}})
    assert taken["net_input"]["src_syntax"]["head"].device.type == "meta"


def test_a_part_of_a_batch_has_its_own_parses_and_missing_ones_are_counted():
    reasons = [NoParse("failed") if i % 2 else [] for i in range(4)]
    sentences = [AlignedSentence([f"w{i}"], [0], [0], {"trees": reasons[i]}) for i in range(4)]
    tokens, heads = ([torch.tensor([i + k, 2]) for i in range(4)] for k in (4, 0))
    batch = ParsedBatch(tokens, [1, 2, 3, 4], sentences, {"head": heads})
    assert (len(batch), batch.lengths, batch.without_parse) == (4, [2] * 4, {"failed": 2})
    part = batch[1:4:2]
    assert [ids.tolist() for ids in part] == [[5, 2], [7, 2]]
    assert (part.numbers, [sentence.words for sentence in part.sentences]) == ([2, 4], [["w1"], ["w3"]])
    assert [row.tolist() for row in part.features["head"]] == [[1, 2], [3, 2]]
    with pytest.raises(TypeError, match="expected a slice"):
        batch[0]
    parses = {"trees": [], "conllu": NoParse("failed")}
    assert reasons_without_parse(AlignedSentence([], [], [], parses)) == set()

"""A batch of new text never loses its parses unnoticed."""

from __future__ import annotations

import pytest
import torch

from fairseq_syntax.inference.new_text import NewText
from fairseq_syntax.inference.parsed_batch import ParsedBatch, reasons_without_parse
from syntax_data.features.sentence import AlignedSentence
from syntax_data.trees.tree import NoParse


def parsed(number: int = 4) -> ParsedBatch:
    sentences = [
        AlignedSentence([f"w{i}"], [0], [0], {"trees": NoParse("failed") if i % 2 else []}) for i in range(number)
    ]
    features = {"head": [torch.tensor([i, 0]) for i in range(number)]}
    return ParsedBatch(
        [torch.tensor([i + 4, 2]) for i in range(number)], list(range(1, number + 1)), sentences, features
    )


def test_missing_parses_of_every_kind_are_counted():
    assert parsed().without_parse == {"failed": 2}
    sentence = AlignedSentence(["w"], [0], [0], {"trees": [], "conllu": NoParse("failed"), "amr": NoParse("too_long")})
    assert reasons_without_parse(sentence) == {"failed", "too_long"}
    assert reasons_without_parse(AlignedSentence([], [], [], sentence.parses)) == set()


def test_a_part_is_a_batch_with_its_own_parses():
    part = parsed()[1:4:2]
    assert (len(parsed()), parsed().lengths) == (4, [2] * 4)
    assert isinstance(part, ParsedBatch)
    assert [ids.tolist() for ids in part.tokens] == [[5, 2], [7, 2]]
    assert part.numbers == [2, 4]
    assert [sentence.words for sentence in part.sentences] == [["w1"], ["w3"]]
    assert [row.tolist() for row in part.features["head"]] == [[1, 0], [3, 0]]
    assert part.without_parse == {"failed": 2}
    assert len(parsed()[:0]) == 0


@pytest.mark.parametrize(
    "lose",
    [list, iter, lambda batch: batch[0], lambda batch: batch + batch, lambda batch: [*batch]],
    ids=["list", "iter", "item", "sum", "star"],
)
def test_what_would_lose_the_parses_is_an_error_at_once(lose):
    with pytest.raises(TypeError):
        lose(parsed())


def test_token_ids_have_no_parses():
    batch, new_text = parsed(), NewText(None, None, {"head"})
    assert new_text.parsed(batch) is batch
    for tokens in (batch.tokens, [torch.tensor([4, 2])]):
        with pytest.raises(ValueError, match="token ids have none"):
            new_text.parsed(tokens)
    with new_text.unpacked(batch) as tokens:
        assert new_text.parsed(tokens) is batch
        with pytest.raises(ValueError, match="token ids have none"):
            new_text.parsed(list(tokens))  # equal ones are not these
    with pytest.raises(ValueError, match="token ids have none"):
        new_text.parsed(tokens)

"""Lines on their way to a model: phrases, and reading ahead."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
import torch
from fairseq.token_generation_constraints import unpack_constraints

from fairseq_syntax.inference.source_lines import is_reading_ahead, pack_phrases, read_ahead, split_phrases


@pytest.mark.parametrize(
    ("line", "expected"),
    [("a b", ("a b", [])), ("a \tb c\td", ("a", ["b c", "d"])), ("a\t\t \tb", ("a", ["b"])), ("", ("", []))],
)
def test_phrases_follow_the_text(line, expected):
    assert split_phrases(line) == expected


def test_phrases_are_packed_by_line_but_for_those_without_subwords():
    def encode(phrases: list[str]) -> list[torch.Tensor]:
        return [torch.tensor([*map(int, phrase.split()), 2]) for phrase in phrases]

    packed = pack_phrases([["5 6", "7"], [], ["", "8"]], encode)
    assert [[ids.tolist() for ids in unpack_constraints(row)] for row in packed] == [[[5, 6], [7]], [], [[8]]]


def test_items_are_computed_ahead_and_in_order():
    computed = [threading.Event() for _ in range(5)]

    def items() -> Iterator[int]:
        for i, event in enumerate(computed):
            event.set()
            yield i

    for i in read_ahead(items()):
        assert all(event.wait(10) for event in computed[: i + 2])
        assert not any(event.is_set() for event in computed[i + 3 :])  # one is ready, and one is being computed
        assert i < 4 or not computed[i + 1 :]
    assert not is_reading_ahead()


@pytest.mark.parametrize("count", [0, 1, 3])
def test_an_error_comes_after_the_items_before_it(count):
    def items() -> Iterator[int]:
        yield from range(count)
        raise ValueError("broken")

    ahead = read_ahead(items())
    assert [next(ahead) for _ in range(count)] == [*range(count)]
    with pytest.raises(ValueError, match="broken"):
        next(ahead)
    assert not is_reading_ahead()

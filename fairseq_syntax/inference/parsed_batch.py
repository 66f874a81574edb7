"""Sentences that were read and parsed, on their way to a model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from torch import Tensor

from syntax_data.features.sentence import AlignedSentence
from syntax_data.trees.tree import NoParse


@dataclass(frozen=True)
class ParsedBatch:
    """Sentences with their parses; iteration gives token ids, ``batch[2:5]`` a part.

    Attributes:
        tokens: ids of each sentence's subwords, ``(n,)``, ``</s>`` the last.
        numbers: of the sentences' lines in all of the input, from 1.
        sentences: their words and parses.
        features: for each feature one tensor a sentence, ``(n,)``, or ``(0,)`` without the parse that it is from.
    """

    tokens: list[Tensor]
    numbers: list[int]
    sentences: list[AlignedSentence]
    features: dict[str, list[Tensor]]

    def __len__(self) -> int:
        return len(self.tokens)

    def __iter__(self) -> Iterator[Tensor]:
        return iter(self.tokens)

    def __getitem__(self, part: slice) -> ParsedBatch:
        if not isinstance(part, slice):
            raise TypeError(f"expected a slice of the batch, such as [2:5], found {part!r}; .tokens are its token ids")
        return self.take(range(len(self))[part])

    def take(self, places: Iterable[int]) -> ParsedBatch:
        """Return the sentences at some places, from 0."""
        places = list(places)
        return ParsedBatch(
            [self.tokens[i] for i in places],
            [self.numbers[i] for i in places],
            [self.sentences[i] for i in places],
            {name: [rows[i] for i in places] for name, rows in self.features.items()},
        )

    @property
    def lengths(self) -> list[int]:
        """Numbers of subwords of the sentences, with ``</s>``."""
        return [len(ids) for ids in self.tokens]

    @property
    def without_parse(self) -> Counter[str]:
        """Numbers of sentences that have words and no parse, by the reason."""
        return Counter(reason for sentence in self.sentences for reason in reasons_without_parse(sentence))


def reasons_without_parse(sentence: AlignedSentence) -> set[str]:
    """Return the reasons why a sentence with words lacks a parse."""
    parses = sentence.parses.values() if sentence.words else ()
    return {parse.reason for parse in parses if isinstance(parse, NoParse)}

"""The interface of features."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from syntax_data.features.sentence import AlignedSentence

#: The largest value of a distance; it means +∞.
INFINITE = 65535
#: The most labels of one kind.
MOST_LABELS = 255


@dataclass
class Rows:
    """A feature's values of consecutive sentences.

    Attributes:
        values: of all sentences, ``(values,)``.
        lengths: of the sentences, ``(sentences,)``.
        first: true for the first value of a sentence, ``(values,)``.
        last: true for the last, of ``</s>``, ``(values,)``.
    """

    values: np.ndarray
    lengths: np.ndarray
    first: np.ndarray
    last: np.ndarray

    @classmethod
    def of(cls, values: np.ndarray, lengths: np.ndarray) -> Rows:
        """The rows of sentences of `lengths`, some of which may be empty."""
        is_last = np.zeros(len(values) + 1, bool)  # the one before the first value, too
        is_last[np.cumsum(lengths, dtype=np.int64)[lengths > 0]] = is_last[0] = True
        return cls(values.astype(np.int64), lengths, is_last[:-1], is_last[1:])

    def place(self, at: int) -> tuple[int, int]:
        """Sentence, from 0 here, and position in it of a value."""
        ends = np.cumsum(self.lengths, dtype=np.int64)
        sentence = int(np.searchsorted(ends, at, side="right"))
        return sentence, at - int(ends[sentence] - self.lengths[sentence])


#: A bool for each value, whether it is invalid, and what was expected of it.
Wrong = Iterator[tuple[np.ndarray, str]]


class Feature(ABC):
    """A kind of feature.

    Attributes:
        name: in options, and of its files.
        source: the name of the format (:data:`~syntax_data.trees.formats.FORMATS`) of the parses that it needs;
            ``None``: the subwords are enough.
        dtype: numpy's name of the type of its values in a file.
        labels: the meanings of its values, from 0, where they are fixed; ``()``: labels of the parses.
    """

    name: str
    source: str | None = None
    dtype: str = "uint16"
    labels: tuple[str, ...] | None = None

    def of(self, sentence: AlignedSentence, number: Callable[[str], int]) -> list[int]:
        """The values of n - 1 subwords and ``</s>``; ``[]`` without the parse.

        `number` numbers the labels of parses, from 1.
        """
        values = self.values(sentence, number)
        return self.with_symbols(values, sentence) if values and sentence.symbols else values

    @abstractmethod
    def values(self, sentence: AlignedSentence, number: Callable[[str], int]) -> list[int]:
        """:meth:`of` without the sentence's symbols."""

    @abstractmethod
    def with_symbols(self, values: list[int], sentence: AlignedSentence) -> list[int]:
        """Insert the values of the sentence's symbols."""

    def cut(self, values: np.ndarray, kept: np.ndarray, features: Mapping[str, np.ndarray]) -> np.ndarray:
        """The values, ``(k,)``, of the subwords `kept`, ``(k,)``, consecutive ones and ``</s>``.

        `values` are ``(n,)``, `features` all features of the sentence by name.
        """
        return self.resegmented(values, kept, features)

    def resegmented(self, values: np.ndarray, first_in: np.ndarray, features: Mapping[str, np.ndarray]) -> np.ndarray:
        """The values, ``(k,)``, of the same text in other subwords, and ``</s>``.

        `values` and `features` are those of :meth:`cut`. The first character of each of the k is in the subword
        `first_in`, ``(k,)``, of the n, never falling.
        """
        return values[first_in]

    @abstractmethod
    def wrong(self, rows: Rows, features: Mapping[str, Rows], labels: Sequence[str]) -> Wrong:
        """Yield the invalid values.

        `features` are all of the same sentences, `labels` the meanings of numbers.
        """

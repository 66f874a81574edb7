"""What a feature is."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from syntax_data.features.sentence import AlignedSentence

#: The largest value of a distance; it stands for +∞.
INFINITE = 65535
#: The most labels of one kind.
MOST_LABELS = 255


@dataclass
class Rows:
    """A feature's values of some consecutive sentences, ``(values,)``, and for each value where it stands.

    Attributes:
        values: in a row.
        lengths: of the sentences, ``(sentences,)``.
        first: whether it is the first of its sentence.
        last: whether it is the last, that of ``</s>``.
    """

    values: np.ndarray
    lengths: np.ndarray
    first: np.ndarray
    last: np.ndarray

    @classmethod
    def of(cls, values: np.ndarray, lengths: np.ndarray) -> Rows:
        """Those of sentences of `lengths`, some of which may be empty."""
        is_last = np.zeros(len(values) + 1, bool)  # the one before the first value, too
        is_last[np.cumsum(lengths, dtype=np.int64)[lengths > 0]] = is_last[0] = True
        return cls(values.astype(np.int64), lengths, is_last[:-1], is_last[1:])

    def place(self, at: int) -> tuple[int, int]:
        """Sentence, from 0 here, and position in it of a value."""
        ends = np.cumsum(self.lengths, dtype=np.int64)
        sentence = int(np.searchsorted(ends, at, side="right"))
        return sentence, at - int(ends[sentence] - self.lengths[sentence])


#: What a feature's values cannot be: which of them are not (a bool each), and what was expected of those.
Wrong = Iterator[tuple[np.ndarray, str]]


@dataclass(frozen=True)
class Feature:
    """A kind of feature.

    Attributes:
        name: in options, and of its files.
        source: the name of the format (:data:`~syntax_data.trees.formats.FORMATS`) of the parses that it is made of;
            ``None``: of the subwords alone, if need be.
        dtype: numpy's name of the type of its values in a feature file.
        values: of a sentence's n - 1 subwords and ``</s>``, or ``[]`` without the parse that they are made of. Gets the
            sentence, which is without its symbols here, and for labels a function that numbers them, from 1.
        with_symbols: `values`, ``(n,)``, with those of the sentence's symbols among them. Gets the values and the
            sentence.
        cut: what is left of them, ``(kept + 1,)``, when the sentence is cut to its first `kept` subwords and ``</s>``.
            Gets its values, ``(n,)``; `kept`; and the values of all features of the sentence by name.
        wrong: which values cannot be. Gets its rows; the rows of all features of the same sentences by name; and
            for labels what the values number, from 0.
        labels: what its values number, where that is fixed. ``()``: labels as the parses have them.
    """

    name: str
    source: str | None
    dtype: str
    values: Callable[[AlignedSentence, Callable[[str], int]], list[int]]
    with_symbols: Callable[[list[int], AlignedSentence], list[int]]
    cut: Callable[[np.ndarray, int, Mapping[str, np.ndarray]], np.ndarray]
    wrong: Callable[[Rows, Mapping[str, Rows], Sequence[str]], Wrong]
    labels: tuple[str, ...] | None = None

    def of(self, sentence: AlignedSentence, number: Callable[[str], int]) -> list[int]:
        """`values`, with those of symbols."""
        values = self.values(sentence, number)
        return self.with_symbols(values, sentence) if values and sentence.symbols else values

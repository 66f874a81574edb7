"""``case`` and ``position``, which need no parse (Sundararaman et al. 2019, §3)."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from syntax_data.features.labels import LabelFeature
from syntax_data.features.sentence import AlignedSentence


class Case(LabelFeature):
    """Case of the word's first letter."""

    name = "case"
    labels = ("</s>", "lower", "capitalised")

    def values(self, sentence: AlignedSentence, _: Callable[[str], int]) -> list[int]:
        first = [next(filter(str.isalpha, word), "") for word in sentence.words]
        return [*(1 + first[word].istitle() for word in sentence.word_of), 0]


class Position(LabelFeature):
    """The subword's place: the whole word (O), its start (S), inside (M) or end (E)."""

    name = "position"
    labels = ("</s>", "O", "S", "M", "E")

    def values(self, sentence: AlignedSentence, _: Callable[[str], int]) -> list[int]:
        around = [None, *sentence.word_of, None]
        values = []
        for before, word, after in zip(around, around[1:], around[2:], strict=False):
            first, last = before != word, after != word
            values.append(1 if first and last else 2 if first else 4 if last else 3)
        return [*values, 0]

    def resegmented(self, values: np.ndarray, first_in: np.ndarray, _: Mapping[str, np.ndarray]) -> np.ndarray:
        """A symbol keeps 0."""
        starts = np.isin(values, [self.labels.index("O"), self.labels.index("S")])
        places = values[first_in]
        real = places > 0
        words = np.cumsum(starts)[first_in][real]
        first, last = np.diff(words, prepend=-1) != 0, np.diff(words, append=-1) != 0
        places[real] = np.select([first & last, first, last], [1, 2, 4], 3)
        return places

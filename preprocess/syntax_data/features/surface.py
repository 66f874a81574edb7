"""``case`` and ``position``, which need no parse (Sundararaman et al. 2019, §3)."""

from __future__ import annotations

from collections.abc import Callable

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

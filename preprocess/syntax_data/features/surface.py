"""``case`` and ``position``, which need no parse (Sundararaman et al. 2019, §3)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from syntax_data.features.labels import LabelFeature
from syntax_data.features.sentence import AlignedSentence


def case_feature(word_of: Sequence[int], words: Sequence[str]) -> list[int]:
    """``case`` for the n - 1 subwords of `word_of` and ``</s>``: whether the word's first letter is upper case."""
    capitalised = [_first_letter(word).istitle() for word in words]
    return [*(1 + capitalised[word] for word in word_of), 0]


def _first_letter(word: str) -> str:
    return word[0] if word[:1].isalpha() else next(filter(str.isalpha, word), "")


def position_feature(word_of: Sequence[int]) -> list[int]:
    """``position`` for the n - 1 subwords of `word_of` and ``</s>``; see :attr:`Position.labels`."""
    around = [None, *word_of, None]
    values = []
    for before, word, after in zip(around, word_of, around[2:], strict=False):
        first, last = before != word, after != word
        values.append(1 if first and last else 2 if first else 4 if last else 3)
    return [*values, 0]


class Case(LabelFeature):
    """Whether the word is capitalised."""

    name = "case"
    labels = ("</s>", "lower", "capitalised")

    def values(self, sentence: AlignedSentence, _: Callable[[str], int]) -> list[int]:
        return case_feature(sentence.word_of, sentence.words)


class Position(LabelFeature):
    """The subword's place in its word: the whole word (O), its start (S), inside (M), or its end (E)."""

    name = "position"
    labels = ("</s>", "O", "S", "M", "E")

    def values(self, sentence: AlignedSentence, _: Callable[[str], int]) -> list[int]:
        return position_feature(sentence.word_of)

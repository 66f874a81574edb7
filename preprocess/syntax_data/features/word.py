"""``word``: index of the subword's word; ``</s>`` is a word of its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from syntax_data.features.feature import Feature, Rows, Wrong
from syntax_data.features.sentence import AlignedSentence


def word_feature(word_of: Sequence[int]) -> list[int]:
    """``word`` for the n - 1 subwords of `word_of` and ``</s>``."""
    number = {word: i for i, word in enumerate(dict.fromkeys(word_of))}
    return [*(number[word] for word in word_of), len(number)]


def insert_symbol_words(words: list[int], symbols: Sequence[range]) -> tuple[list[int], list[int]]:
    """``word`` with symbols: words of their own, or parts of the word around them.

    Also returns the numbers of the new words, in order.
    """
    new = []
    for symbol in symbols:
        start = symbol.start
        inside = inside_a_word(words, start)
        inserted = [words[start]] * len(symbol)
        words = [*words[:start], *inserted, *(words[start:] if inside else (word + 1 for word in words[start:]))]
        new += [] if inside else inserted[:1]
    return words, new


def inside_a_word(words: Sequence[int], at: int) -> bool:
    """Return true if the subwords before and after `at` are of one word."""
    return at > 0 and words[at - 1] == words[at]


class Word(Feature):
    name = "word"

    def values(self, sentence: AlignedSentence, _: Callable[[str], int]) -> list[int]:
        return word_feature(sentence.word_of)

    def with_symbols(self, values: list[int], sentence: AlignedSentence) -> list[int]:
        return insert_symbol_words(values, sentence.symbols)[0]

    def resegmented(self, values: np.ndarray, first_in: np.ndarray, _: Mapping[str, np.ndarray]) -> np.ndarray:
        words = values[first_in]
        return np.cumsum(np.diff(words, prepend=words[:1]) > 0).astype(values.dtype)

    def wrong(self, rows: Rows, _: Mapping[str, Rows], __: Sequence[str]) -> Wrong:
        step = np.diff(rows.values, prepend=0)
        yield rows.first & (rows.values != 0), "the first word to be number 0"
        yield ~rows.first & ((step < 0) | (step > 1)), "the same word as before or the next"
        yield rows.last & ~rows.first & (step != 1), "a word of its own for </s>"

"""``word``: index of the subword's word; ``</s>`` is a word of its own, after the last."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from syntax_data.features.feature import Feature, Rows, Wrong


def kept_words(word_of: Sequence[int]) -> list[int]:
    """The words that have a subword, in order; `word_of` is that of :func:`syntax_data.text.alignment.align`."""
    return [word for i, word in enumerate(word_of) if not i or word != word_of[i - 1]]


def word_feature(word_of: Sequence[int]) -> list[int]:
    """``word`` for the n - 1 subwords of `word_of` and ``</s>``."""
    index = -1
    previous = None
    words = []
    for word in word_of:
        index += word != previous
        previous = word
        words.append(index)
    return [*words, index + 1]


def put_symbols_among_words(words: list[int], symbols: Sequence[range]) -> tuple[list[int], list[int]]:
    """``word`` with symbols, which are words of their own, or inside of another word part of that.

    Also returns the new numbers of those words that are new, in order.
    """
    new = []
    for symbol in symbols:
        start, count = symbol.start, len(symbol)
        number = words[start]
        if inside_a_word(words, start):
            words = [*words[:start], *[number] * count, *words[start:]]
        else:
            new.append(number)
            words = [*words[:start], *[number] * count, *(word + 1 for word in words[start:])]
    return words, new


def inside_a_word(words: Sequence[int], at: int) -> bool:
    """Whether a place before subword `at` is inside of a word."""
    return at > 0 and words[at - 1] == words[at]


def cut_word(word: np.ndarray, kept: int, _: Mapping[str, np.ndarray]) -> np.ndarray:
    """The words that are kept, and ``</s>`` after them."""
    return np.append(word[:kept], word[kept - 1] + 1 if kept else 0).astype(word.dtype)


def _wrong(word: Rows, _: Mapping[str, Rows], __: Sequence[str]) -> Wrong:
    step = np.diff(word.values, prepend=0)
    yield word.first & (word.values != 0), "the first word to be number 0"
    yield ~word.first & ((step < 0) | (step > 1)), "the same word as before or the next"
    yield word.last & ~word.first & (step != 1), "a word of its own for </s>"


WORD = Feature(
    name="word",
    source=None,
    dtype="uint16",
    values=lambda sentence, _: word_feature(sentence.word_of),
    with_symbols=lambda words, sentence: put_symbols_among_words(words, sentence.symbols)[0],
    cut=cut_word,
    wrong=_wrong,
)

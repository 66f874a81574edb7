"""``case`` and ``position``: what a text shows without its parse (Sundararaman et al. 2019, §3)."""

from __future__ import annotations

from collections.abc import Sequence

from syntax_data.features.feature import Feature
from syntax_data.features.labels import cut_label, put_symbols_among_labels, wrong_label

#: Whether the word is capitalised.
CASES = ("</s>", "lower", "capitalised")
#: Where in its word the subword stands: it is the whole word, starts it, lies inside, or ends it.
POSITIONS = ("</s>", "O", "S", "M", "E")


def case_feature(word_of: Sequence[int], words: Sequence[str]) -> list[int]:
    """``case`` for the n - 1 subwords of `word_of` and ``</s>``: whether the word's first letter is upper case."""
    capitalised = [_first_letter(word).istitle() for word in words]
    return [*(1 + capitalised[word] for word in word_of), 0]


def _first_letter(word: str) -> str:
    return word[0] if word[:1].isalpha() else next(filter(str.isalpha, word), "")


def position_feature(word_of: Sequence[int]) -> list[int]:
    """``position`` for the n - 1 subwords of `word_of` and ``</s>``; see :data:`POSITIONS`."""
    around = [None, *word_of, None]
    values = []
    for before, word, after in zip(around, word_of, around[2:], strict=False):
        first, last = before != word, after != word
        values.append(POSITIONS.index("O" if first and last else "S" if first else "E" if last else "M"))
    return [*values, 0]


CASE = Feature(
    name="case",
    source=None,
    dtype="uint8",
    values=lambda sentence, _: case_feature(sentence.word_of, sentence.words),
    with_symbols=put_symbols_among_labels,
    cut=cut_label,
    wrong=wrong_label,
    labels=CASES,
)
POSITION = Feature(
    name="position",
    source=None,
    dtype="uint8",
    values=lambda sentence, _: position_feature(sentence.word_of),
    with_symbols=put_symbols_among_labels,
    cut=cut_label,
    wrong=wrong_label,
    labels=POSITIONS,
)

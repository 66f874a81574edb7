"""``deprel`` and ``upos``: the label of the word's dependency relation to its head, and of its part of speech.

Numbers of labels count from 1 in the order in which the labels first come; 0 is ``</s>``, and a symbol.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from syntax_data.features.feature import Feature, Rows, Wrong
from syntax_data.features.sentence import AlignedSentence
from syntax_data.trees.formats import CONLLU
from syntax_data.trees.tree import DependencyTree


def put_symbols_among_labels(values: list[int], sentence: AlignedSentence) -> list[int]:
    """Labels with symbols, which have that of ``</s>``."""
    for symbol in sentence.symbols:
        values = [*values[: symbol.start], *[0] * len(symbol), *values[symbol.start :]]
    return values


def cut_label(values: np.ndarray, kept: int, _: Mapping[str, np.ndarray]) -> np.ndarray:
    """Each subword keeps its own, and so does ``</s>``."""
    return np.append(values[:kept], values[-1:])


def wrong_label(row: Rows, features: Mapping[str, Rows], labels: Sequence[str]) -> Wrong:
    """See :class:`~syntax_data.features.feature.Feature`."""
    yield row.last & (row.values != 0), "0 for </s>"
    zero_is_fine = np.ones(len(row.values), bool)  # at symbols
    for name in {"case", "position"} & features.keys():
        of_all = features[name]
        zero_is_fine &= of_all.values[np.repeat(row.lengths > 0, of_all.lengths)] == 0
    wrong = (~row.last & (row.values < 1) & ~zero_is_fine) | (row.values >= len(labels))
    yield wrong, f"a number from 1 to {len(labels) - 1}"


def _label(name: str, of_words: Callable[[DependencyTree], Sequence[str]]) -> Feature:
    def values(sentence: AlignedSentence, number: Callable[[str], int]) -> list[int]:
        if not isinstance(sentence.dependencies, DependencyTree):
            return []
        labels = of_words(sentence.dependencies)
        return [*(number(labels[word]) for word in sentence.word_of), 0]

    return Feature(
        name=name,
        source=CONLLU.name,
        dtype="uint8",
        values=values,
        with_symbols=put_symbols_among_labels,
        cut=cut_label,
        wrong=wrong_label,
        labels=(),
    )


DEPREL = _label("deprel", lambda tree: tree.deprel)
UPOS = _label("upos", lambda tree: tree.upos)

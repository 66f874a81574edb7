"""Integers from a sentence's trees, one for each subword and ``</s>``.

===============  ===================================================================================  ============
feature          value at subword i of n (the last is ``</s>``)                                       module
===============  ===================================================================================  ============
word             index of the subword's word; ``</s>`` is a word of its own, after the last           word
distance         syntactic distance between subwords i and i + 1: 0 inside a word, :data:`INFINITE`   distance
                 between two sentences of the line, before ``</s>`` and after it
head             0 if the subword's word is a root, else 1 + the index of its head's word; 0 for      dependencies
                 ``</s>``
deprel           number of the label of the word's dependency relation to its head                    labels
upos             number of the label of the word's universal part of speech                           labels
category         number of the label of the constituent right above the word's part of speech         labels
category_2,      those of the next two constituents above it; ``_`` where there is none               labels
category_3
shared_category  that of the smallest constituent which the word shares with the next one             labels
case             case of the word's first letter                                                      surface
position         the subword's place in its word                                                      surface
===============  ===================================================================================  ============

Words are the CoNLL-U tokens if they are parsed, else the leaves of the trees, else the words of the text, without those
that have no subword. A sentence without a parse has no values of the features that need it.

A symbol (``--symbols``), a word that the parser never saw, is a word of its own and a root, and has the labels of
``</s>``. Its distance to the next word repeats that of the word before it to the symbol, so that the greatest distance
between two other words stays; before a line's first word it is infinite. A symbol inside of a word of the parse is a
subword of that word. The features of the other words stay, but for the numbers of words.

A marker (``--markers``) has no text, and is a subword of the word that follows, at the end of a line of the last one.

Other names are word labels: of the word's ``name=value`` in MISC, numbered as ``upos`` is (``--word-labels``).

Another feature is a subclass of :class:`Feature` in a file of its own or of its family, and an entry in
:data:`FEATURES`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from operator import methodcaller

import numpy as np

from syntax_data.features.dependencies import Head
from syntax_data.features.distance import Distance
from syntax_data.features.feature import INFINITE, MOST_LABELS, Feature
from syntax_data.features.labels import Category, SharedCategory, WordLabel
from syntax_data.features.surface import Case, Position
from syntax_data.features.word import Word
from syntax_data.trees.categories import CHAIN
from syntax_data.trees.tree import WORD_LABEL

__all__ = [
    "FEATURES",
    "INFINITE",
    "MOST_LABELS",
    "Feature",
    "is_word_label",
    "parse_kinds",
    "resegment",
    "truncate",
    "window",
]


class _Features(dict[str, Feature]):
    """Features by name, in the order in which they are written; word labels are not among its keys."""

    def __missing__(self, name: str) -> Feature:
        if not is_word_label(name):
            raise KeyError(name)
        return WordLabel(name, methodcaller("misc", name))


#: Every feature by name; ``FEATURES[name]`` is also a word label, where :func:`is_word_label`.
FEATURES = _Features(
    (feature.name, feature)
    for feature in (
        Word(),
        Distance(),
        Head(),
        WordLabel("deprel", lambda tree: tree.deprel),
        WordLabel("upos", lambda tree: tree.upos),
        *(Category(level) for level in range(1, CHAIN + 1)),
        SharedCategory(),
        Case(),
        Position(),
    )
)


def is_word_label(name: str) -> bool:
    """True for a name that word labels may have: letters, digits and ``_``, unlike others."""
    return WORD_LABEL.fullmatch(name) is not None and name not in FEATURES


def parse_kinds(names: Iterable[str]) -> list[str]:
    """The kinds of parses that these features need, each once, in order."""
    return sorted({kind for name in names if (kind := FEATURES[name].source)})


def truncate(features: Mapping[str, np.ndarray], length: int) -> dict[str, np.ndarray]:
    """Cut features, ``(n,)`` or ``(0,)``, to the first `length` - 1 subwords and ``</s>``; see :func:`window`."""
    return window(features, range(length - 1))


def window(features: Mapping[str, np.ndarray], subwords: range) -> dict[str, np.ndarray]:
    """Cut features, ``(n,)`` or ``(0,)``, to consecutive subwords and ``</s>``.

    Attention biases from them are sub-matrices of the whole sentence's. ``head`` needs ``word`` beside it. Raises
    :class:`ValueError` if the heads of what is cut off lead into a cycle.
    """
    end = max(map(len, features.values()), default=0) - 1
    kept = np.append(np.arange(subwords.start, subwords.stop), end)
    return {
        name: FEATURES[name].cut(values, kept, features) if len(values) > len(kept) else values
        for name, values in features.items()
    }


def resegment(features: Mapping[str, np.ndarray], first_in: np.ndarray) -> dict[str, np.ndarray]:
    """Spread features, ``(n,)`` or ``(0,)``, over other subwords of the same text.

    ``head`` needs ``word`` beside it, and ``shared_category`` needs ``distance`` where words may get no subword. Raises
    as :func:`window`.

    Args:
        first_in: the subword of the n in which the first character of each of the k others is, ``(k,)``, never falling;
            both end in ``</s>``.
    """
    return {
        name: FEATURES[name].resegmented(values, first_in, features) if len(values) else values
        for name, values in features.items()
    }

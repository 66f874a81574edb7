"""Trees to the integers a sentence's feature files hold: one for each subword and ``</s>``.

========  ===================================================================================  ===========
feature   value at subword i of n (the last is ``</s>``)                                       file
========  ===================================================================================  ===========
word      index of the subword's word; ``</s>`` is a word of its own, after the last           word.py
distance  syntactic distance between subwords i and i + 1: 0 inside a word, :data:`INFINITE`   distance.py
          between two sentences of the line, before ``</s>`` and after it
head      0 if the subword's word is a root, else 1 + the index of its head's word; 0 for      heads.py
          ``</s>``
deprel    number of the label of the word's dependency relation to its head                    labels.py
upos      number of the label of the word's universal part of speech                           labels.py
case      whether the word is capitalised                                                      surface.py
position  where in its word the subword stands                                                 surface.py
========  ===================================================================================  ===========

Words are those of the parse that have a subword: the CoNLL-U tokens if they are parsed, else the leaves of the
trees, else the words of the text. A sentence without a parse has no values of the features that are made of that
parse: its entry in their files is empty.

A symbol (``--symbols``), a word that the parser never saw, is put among the features of the others, which stay as they
are but for the numbers of words. It is a word of its own and a root, and has the labels of ``</s>``. Its distance to
the next word repeats that of the word before it to the symbol, so that the greatest distance between two other words
stays; a symbol before a line's first word is infinitely far from it. A symbol inside of a word of the parse is a
subword of that word.

Another feature is a :class:`Feature` in a file of its own or of its family, and a name in :data:`FEATURES`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from syntax_data.features.distance import DISTANCE
from syntax_data.features.feature import INFINITE, MOST_LABELS, Feature
from syntax_data.features.heads import HEAD
from syntax_data.features.labels import DEPREL, UPOS
from syntax_data.features.surface import CASE, POSITION
from syntax_data.features.word import WORD

__all__ = ["FEATURES", "INFINITE", "MOST_LABELS", "Feature", "parse_kinds", "truncate"]

#: Every feature by name, in the order in which they are written.
FEATURES = {feature.name: feature for feature in (WORD, DISTANCE, HEAD, DEPREL, UPOS, CASE, POSITION)}


def parse_kinds(names: Iterable[str]) -> list[str]:
    """The kinds of parses that these features are made of, each once, in order."""
    return sorted({kind for name in names if (kind := FEATURES[name].source)})


def truncate(features: Mapping[str, np.ndarray], length: int) -> dict[str, np.ndarray]:
    """Cuts a sentence's features to its first `length` - 1 subwords and ``</s>``.

    The masks of what is left are the sub-matrices of the whole sentence's masks. A feature that is empty (no parse)
    stays empty.

    Args:
        features: of one sentence, each ``(n,)`` or ``(0,)``; ``head`` needs ``word`` beside it.
        length: of the sentence that is left, 1 to n.

    Raises:
        ValueError: the heads of what is cut off lead into a cycle.
    """
    return {
        name: FEATURES[name].cut(values, length - 1, features) if len(values) > length else values
        for name, values in features.items()
    }

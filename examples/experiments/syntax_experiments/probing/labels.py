"""Labels of sentences and words from their parses, and those of control tasks.

A control task gives each type the task's labels at random: of words, of pairs of them, and of sentences by their last
word (Hewitt and Liang 2019, §2). What a probe gets right there, it has learned by heart, type by type. Classes, and the
labels that controls draw, are those of the training sentences: `train` says which items are for training.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cache

import numpy as np

from syntax_data.trees.categories import category
from syntax_data.trees.tree import Tree

#: Instead of a label or head that a sentence or word does not have.
NO_LABEL = -1


def top_constituents(trees: Sequence[Tree]) -> str | None:
    """Return the labels below the topmost node with several children, such as ``NP VP .``.

    They are without functions. ``None`` unless there is one tree, with such a node. A word without a part of speech
    is ``_``.
    """
    node: Tree | str = trees[0] if len(trees) == 1 else ""
    while isinstance(node, Tree) and len(node.children) == 1:
        node = node.children[0]
    if isinstance(node, str):
        return None
    return " ".join("_" if isinstance(child, str) else category(child.label) for child in node.children)


def balanced_classes(values: np.ndarray, most: int, train: np.ndarray) -> tuple[np.ndarray, list[str]]:
    """Return classes of up to `most` ranges of values, ``(items,)``, and their names.

    They are as equal in size in training as possible: the sum of their squared sizes is the least. Values beyond those
    of training are of the first or last class.
    """
    there = values != NO_LABEL
    distinct, counts = np.unique(values[there & train], return_counts=True)
    sums = np.cumsum([0, *counts]).tolist()

    @cache
    def best(end: int, classes: int) -> tuple[int, int]:
        """Return the least cost of the first `end` values in some classes, and where the last class begins."""
        if classes == 1:
            return sums[end] ** 2, 0
        starts = range(classes - 1, end)
        return min((best(start, classes - 1)[0] + (sums[end] - sums[start]) ** 2, start) for start in starts)

    tops: list[int] = []  # the greatest value of each class
    end = len(distinct)
    for classes in range(min(most, end), 0, -1):
        tops.insert(0, int(distinct[end - 1]))
        end = best(end, classes)[1]
    names = [f"up to {tops[0]}", *(f"{a + 1} to {b}" for a, b in itertools.pairwise(tops))]
    return np.where(there, np.minimum(np.searchsorted(tops, values), len(tops) - 1), NO_LABEL), names


def frequent_classes(labels: Iterable[str | None], most: int, train: np.ndarray) -> tuple[np.ndarray, list[str]]:
    """Return classes of the `most` most frequent labels and one of all others, and their names."""
    learned = sorted(label for label, of_train in zip(labels, train, strict=True) if of_train and label is not None)
    names = [name for name, _ in Counter(learned).most_common(most)]
    number: dict[str | None, int] = {None: NO_LABEL, **{name: i for i, name in enumerate(names)}}
    found = np.array([number.get(label, len(names)) for label in labels])
    return found, [*names, "other"] if (found == len(names)).any() else names


def last_word(words: Sequence[str]) -> str:
    """Return the type of a sentence in control tasks: its last word, in lower case.

    Words without a letter or digit do not count. First words would be a few types of most sentences, whose labels then
    would not be as frequent as those of the task.
    """
    return next((w for w in reversed(words) if any(map(str.isalnum, w))), words[-1]).casefold()


def by_type(labels: np.ndarray, types: np.ndarray, train: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """Draw a label for each type, as often as it occurs in training; return the items' labels, ``(items,)``.

    Args:
        types: of the items, numbers from 0.
    """
    there = labels != NO_LABEL
    drawn = random.choice(labels[there & train], size=int(types.max(initial=0)) + 1)
    return np.where(there, drawn[types], NO_LABEL)


def heads_by_word_type(
    heads: np.ndarray, starts: np.ndarray, types: np.ndarray, train: np.ndarray, random: np.random.Generator
) -> np.ndarray:
    """Draw a step from word to head in training for each word type; return words' heads, ``(words,)``.

    A step that leads out of the sentence is taken to the other side, one that does so there too to the end that is
    farther away. So a head is another word of the sentence.

    Args:
        heads: of all sentences' words in a row, the row's index.
        starts: where each sentence starts in the row, and the row's end.
        types: of the words, numbers from 0.
    """
    words = np.arange(len(heads))
    steps = by_type(np.where(heads == NO_LABEL, NO_LABEL, heads - words + len(words)), types, train, random)
    steps -= len(words)
    lengths = np.diff(starts)
    first, last = np.repeat(starts[:-1], lengths), np.repeat(starts[1:], lengths) - 1
    found = np.where(words - first > last - words, first, last)
    for other in (words - steps, words + steps):
        found = np.where((other >= first) & (other <= last), other, found)
    return np.where(heads == NO_LABEL, NO_LABEL, found)

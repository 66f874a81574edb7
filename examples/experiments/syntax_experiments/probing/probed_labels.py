"""Labels of sentences and words from their parses, and those of control tasks.

A control task gives each type the task's labels at random: of words, of pairs of them, and of sentences by their last
word (Hewitt and Liang 2019, §2). What a probe gets right there, it has learned by heart, type by type. Classes, and the
labels that controls draw, are those of the training sentences.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from syntax_data.features.distance import greatest_distance, syntactic_distances
from syntax_data.features.feature import INFINITE
from syntax_data.trees.tree import DependencyTree, Tree

#: Instead of a label or head that a sentence or word does not have.
NO_LABEL = -1
#: How many classes depths and distances have, and how many sequences of top constituents have one of their own.
DEPTHS, DISTANCES, TOPS = 5, 8, 19


@dataclass(frozen=True)
class ProbeLabels:
    """The labels of a line of m words; :data:`NO_LABEL` where its parses give none."""

    depth: int  # the height of the constituency tree less 1, unary chains collapsed
    top: str | None  # as top_constituents returns it
    #: The syntactic distance between each word and the next in a sentence (Hou 2024, §3.1), ``(m,)``.
    distances: np.ndarray
    heads: np.ndarray  # of each word, its head's index from 0, ``(m,)``; none of a root


def labels_of(count: int, trees: Sequence[Tree] | None, dependencies: DependencyTree | None) -> ProbeLabels:
    """Return the labels of a line of `count` words from the parses that it has."""
    depth, top, distances = NO_LABEL, None, np.full(count, NO_LABEL)
    if trees is not None:
        found = syntactic_distances(trees)
        depth, top = greatest_distance(found), top_constituents(trees)
        distances[:-1] = [NO_LABEL if d == INFINITE else d for d in found]
    heads = np.full(count, NO_LABEL) if dependencies is None else np.array(dependencies.heads) - 1
    return ProbeLabels(depth, top, distances, heads)


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
    return " ".join("_" if isinstance(child, str) else _category(child.label) for child in node.children)


def _category(label: str) -> str:
    return label if label.startswith("-") else label.split("-")[0].split("=")[0]


def balanced_classes(values: np.ndarray, most: int, train: np.ndarray) -> tuple[np.ndarray, list[str]]:
    """Return up to `most` classes of consecutive values, and their names.

    They are as equal in size in training as possible: the sum of their squared sizes is the least. Values beyond those
    of training are of the first or last class.

    Args:
        values: ``(items,)``; the class is :data:`NO_LABEL` where they are.
        train: which of them are for training.
    """
    there = values != NO_LABEL
    distinct, counts = np.unique(values[there & train], return_counts=True)
    ends = np.concatenate([[0], np.cumsum(counts)])
    least = np.full((min(most, len(distinct)) + 1, len(ends)), np.inf)
    last_cut = np.zeros(least.shape, dtype=np.int64)
    least[0, 0] = 0
    for k in range(1, len(least)):
        for end in range(k, len(ends)):
            cost = least[k - 1, :end] + (ends[end] - ends[:end]) ** 2.0
            last_cut[k, end] = cost.argmin()
            least[k, end] = cost.min()
    tops: list[int] = []  # the greatest value of each class
    end = len(distinct)
    for k in range(len(least) - 1, 0, -1):
        tops.insert(0, int(distinct[end - 1]))
        end = int(last_cut[k, end])
    classes = np.minimum(np.searchsorted(tops, values), len(tops) - 1)
    names = [f"up to {tops[0]}", *(f"{a + 1} to {b}" for a, b in itertools.pairwise(tops))]
    return np.where(there, classes, NO_LABEL), names


def frequent_classes(labels: Sequence[str | None], most: int, train: np.ndarray) -> tuple[np.ndarray, list[str]]:
    """Return the `most` most frequent labels in training and one of all others as classes.

    With their names. The class is :data:`NO_LABEL` for ``None``.

    Args:
        train: which labels are for training, ``(labels,)``.
    """
    counts = Counter(label for label, learned in zip(labels, train, strict=True) if learned and label is not None)
    names = [name for name, _ in sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:most]]
    number = {name: i for i, name in enumerate(names)}
    found = np.array([NO_LABEL if label is None else number.get(label, len(names)) for label in labels], dtype=np.int64)
    return found, [*names, "other"] if (found == len(names)).any() else names


def last_word(words: Sequence[str]) -> str:
    """Return the type of a sentence in control tasks: its last word, in lower case.

    Words without a letter or digit do not count. First words would be a few types of most sentences, whose labels then
    would not be as frequent as those of the task.
    """
    return next((w for w in reversed(words) if any(map(str.isalnum, w))), words[-1]).casefold()


def by_type(labels: np.ndarray, types: np.ndarray, train: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """Draw a label for each type, and return the items' labels, ``(items,)``.

    Labels are drawn as often as they occur in training, also for types that occur in testing alone.

    Args:
        labels: of sentences, words or pairs of words, :data:`NO_LABEL` for none.
        types: of the same, numbers from 0.
        train: which of them are for training.
    """
    there = labels != NO_LABEL
    drawn = random.choice(labels[there & train], size=int(types.max(initial=0)) + 1)
    return np.where(there, drawn[types], NO_LABEL)


def heads_by_word_type(
    heads: np.ndarray, starts: np.ndarray, types: np.ndarray, train: np.ndarray, random: np.random.Generator
) -> np.ndarray:
    """Draw a step from word to head in training for each word type; return words' heads.

    A step that leads out of the sentence is taken to the other side, one that does so there too to the end that is
    farther away. So a head is another word of the sentence.

    Args:
        heads: of all sentences' words in a row, the row's index; :data:`NO_LABEL` for a root.
        starts: where each sentence starts in the row, and the row's end.
        types: of the words, numbers from 0.
        train: which words are for training.
    """
    words = np.arange(len(heads))
    there = heads != NO_LABEL
    steps = random.choice((heads - words)[there & train], size=int(types.max(initial=0)) + 1)[types]
    lengths = np.diff(starts)
    first, last = np.repeat(starts[:-1], lengths), np.repeat(starts[1:], lengths) - 1

    def inside(found: np.ndarray) -> np.ndarray:
        return (found >= first) & (found <= last)

    ends = np.where(words - first > last - words, first, last)
    found = np.where(inside(words + steps), words + steps, np.where(inside(words - steps), words - steps, ends))
    return np.where(there, found, NO_LABEL)

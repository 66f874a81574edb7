"""What is asked of sentences and words, as labels made of their parses; and the labels of control tasks.

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
from syntax_data.trees.tree import DependencyTree, Tree, depth

#: In the place of a label or head that a sentence or word does not have.
NONE = -1
#: How many classes depths and distances are put into, and how many sequences of top constituents are told apart.
DEPTHS, DISTANCES, TOPS = 5, 8, 19


@dataclass(frozen=True)
class Labels:
    """What the parses of a line of m words say.

    Attributes:
        depth: of its constituents, the height of the tree less 1, unary chains collapsed; or of its dependencies, the
            greatest number of words on the way from a root down.
        top: the labels of the constituents below the topmost node that has several; ``None``: the line has several
            sentences, or one word.
        distances: between each word and the next, ``(m - 1,)``: the syntactic distance (Hou 2024, §3.1), or the
            number of arcs between them in the dependency tree; :data:`NONE` between two sentences.
        heads: of each word, its head's index from 0, ``(m,)``; :data:`NONE` for a root.
    """

    depth: int | None = None
    top: str | None = None
    distances: np.ndarray | None = None
    heads: np.ndarray | None = None


def labels_of(
    trees: Sequence[Tree] | None, dependencies: DependencyTree | None, *, without_trees: bool = False
) -> Labels:
    """The labels of a line, of whichever parses it has.

    Args:
        without_trees: no line has constituents: depths and distances are those of the dependency tree.
    """
    heads = None if dependencies is None else np.array(dependencies.heads, dtype=np.int64) - 1
    if trees is not None:
        found = syntactic_distances(trees)
        distances = np.array([NONE if d == INFINITE else d for d in found], dtype=np.int64)
        return Labels(greatest_distance(found), top_constituents(trees), distances, heads)
    if dependencies is not None and without_trees:
        return Labels(depth(dependencies.heads), None, arcs_between_neighbours(dependencies.heads), heads)
    return Labels(heads=heads)


def top_constituents(trees: Sequence[Tree]) -> str | None:
    """The labels below the topmost node with several children, such as ``NP VP .``, without functions (``NP-SBJ``).

    ``None`` unless there is one tree, with such a node. A word that hangs there without a part of speech is ``_``.
    """
    if len(trees) != 1:
        return None
    node: Tree | str = trees[0]
    while isinstance(node, Tree) and len(node.children) == 1:
        node = node.children[0]
    if isinstance(node, str):
        return None
    return " ".join("_" if isinstance(child, str) else _category(child.label) for child in node.children)


def _category(label: str) -> str:
    return label if label.startswith("-") else label.split("-")[0].split("=")[0]


def arcs_between_neighbours(heads: Sequence[int]) -> np.ndarray:
    """How many arcs lie between each word and the next in the dependency tree, ``(m - 1,)``; :data:`NONE`: no way.

    Args:
        heads: from 1, 0 above a root.
    """

    def steps_up(word: int) -> dict[int, int]:
        found: dict[int, int] = {}
        while word:
            found[word] = len(found)
            word = heads[word - 1]
        return found

    ups = [steps_up(word) for word in range(1, len(heads) + 1)]
    found = [
        min((left[above] + right[above] for above in left.keys() & right.keys()), default=NONE)
        for left, right in itertools.pairwise(ups)
    ]
    return np.array(found, dtype=np.int64)


def balanced_bins(values: np.ndarray, classes: int) -> np.ndarray:
    """The greatest value of each of up to `classes` classes of consecutive values, as equal in size as can be.

    Of all ways to cut it is that with the least sum of squared sizes. ``numpy.searchsorted(bins, values)`` are the
    classes.
    """
    distinct, counts = np.unique(values, return_counts=True)
    ends = np.concatenate([[0], np.cumsum(counts)])
    least = np.full((min(classes, len(distinct)) + 1, len(ends)), np.inf)
    last_cut = np.zeros(least.shape, dtype=np.int64)
    least[0, 0] = 0
    for k in range(1, len(least)):
        for end in range(k, len(ends)):
            cost = least[k - 1, :end] + (ends[end] - ends[:end]) ** 2.0
            last_cut[k, end] = cost.argmin()
            least[k, end] = cost.min()
    bins: list[int] = []
    end = len(distinct)
    for k in range(len(least) - 1, 0, -1):
        bins.insert(0, int(distinct[end - 1]))
        end = int(last_cut[k, end])
    return np.array(bins, dtype=np.int64)


def in_bins(values: np.ndarray, bins: np.ndarray) -> np.ndarray:
    """The class of each value; one in no bin is of the next, beyond the last bin of the last."""
    return np.minimum(np.searchsorted(bins, values), len(bins) - 1)


def frequent_classes(labels: Sequence[str | None], most: int, train: np.ndarray) -> tuple[np.ndarray, list[str]]:
    """Numbers of the labels that are the `most` most frequent in training, one more for others, :data:`NONE` for
    ``None``; and their names.

    Args:
        train: which labels are for training, ``(labels,)``.
    """
    counts = Counter(label for label, learned in zip(labels, train, strict=True) if learned and label is not None)
    names = [name for name, _ in sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:most]]
    number = {name: i for i, name in enumerate(names)}
    found = np.array([NONE if label is None else number.get(label, len(names)) for label in labels], dtype=np.int64)
    return found, [*names, "other"] if (found == len(names)).any() else names


def last_word(words: Sequence[str]) -> str:
    """The type of a sentence in control tasks: its last word that has a letter or a digit, in lower case.

    First words would be a few types of most sentences, whose labels then are no longer as frequent as the task's.
    """
    return next((w for w in reversed(words) if any(map(str.isalnum, w))), words[-1]).casefold()


def by_type(labels: np.ndarray, types: np.ndarray, train: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """For each type one label, drawn as often as the labels occur in training, for all that have one: ``(items,)``.

    A type that occurs in testing alone has a label too, which nobody can know.

    Args:
        labels: of sentences, words or pairs of words, :data:`NONE` for none.
        types: of the same, numbers from 0.
        train: which of them are for training.
    """
    there = labels != NONE
    drawn = random.choice(labels[there & train], size=int(types.max(initial=0)) + 1)
    return np.where(there, drawn[types], NONE)


def heads_by_word_type(
    heads: np.ndarray, starts: np.ndarray, types: np.ndarray, train: np.ndarray, random: np.random.Generator
) -> np.ndarray:
    """Heads that the word type decides: it draws one of the steps from word to head that occur in training, for all its
    words.

    A step that leads out of the sentence is taken to the other side, one that does so there too to the end that is
    farther away. So a head is another word of the sentence.

    Args:
        heads: of all sentences' words in a row, the row's index; :data:`NONE` for a root.
        starts: where each sentence starts in the row, and the row's end.
        types: of the words, numbers from 0.
        train: which words are for training.
    """
    words = np.arange(len(heads))
    there = heads != NONE
    steps = random.choice((heads - words)[there & train], size=int(types.max(initial=0)) + 1)[types]
    lengths = np.diff(starts)
    first, last = np.repeat(starts[:-1], lengths), np.repeat(starts[1:], lengths) - 1

    def inside(found: np.ndarray) -> np.ndarray:
        return (found >= first) & (found <= last)

    ends = np.where(words - first > last - words, first, last)
    found = np.where(inside(words + steps), words + steps, np.where(inside(words - steps), words - steps, ends))
    return np.where(there, found, NONE)

"""Trees to the integers a sentence's feature files hold: one for each subword and ``</s>``.

========  ===========================================================================================
feature   value at subword i of n (the last is ``</s>``)
========  ===========================================================================================
word      index of the subword's word; ``</s>`` is a word of its own, after the last
distance  syntactic distance between subwords i and i + 1: 0 inside a word, :data:`INFINITE` between
          two sentences of the line, before ``</s>`` and after it
head      0 if the subword's word is a root, else 1 + the index of its head's word; 0 for ``</s>``
deprel    number of the label of the word's dependency relation to its head
upos      number of the label of the word's universal part of speech
case      whether the word is capitalised: :data:`CASES`
position  where in its word the subword stands: :data:`POSITIONS` (syntax-infused Transformer,
          Sundararaman et al. 2019, §3)
========  ===========================================================================================

Words are those of the parse that have a subword: the CoNLL-U tokens if they are parsed, else the leaves of the
trees, else the words of the text. Numbers of labels count from 1 in the order in which the labels first come; 0
is ``</s>``. A sentence without a parse has no values of the features that are made of that parse: its entry in
their files is empty.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from syntax_preprocess.trees import DependencyTree, Tree

#: The largest value of a distance; it stands for +∞.
INFINITE = 65535
#: The most labels of one kind.
MOST_LABELS = 255


@dataclass(frozen=True, slots=True)
class Feature:
    """A kind of feature.

    Attributes:
        source: the kind of parse that it is made of; ``None``: of the subwords alone, if need be.
        dtype: numpy's name of the type of its values in a feature file.
        labels: what its values number, where that is fixed. ``()``: labels as the parses have them.
    """

    source: str | None
    dtype: str
    labels: tuple[str, ...] | None = None


CASES = ("</s>", "lower", "capitalised")
POSITIONS = ("</s>", "O", "S", "M", "E")

#: Every feature, in the order in which they are written.
FEATURES = {
    "word": Feature(None, "uint16"),
    "distance": Feature("trees", "uint16"),
    "head": Feature("conllu", "uint16"),
    "deprel": Feature("conllu", "uint8", ()),
    "upos": Feature("conllu", "uint8", ()),
    "case": Feature(None, "uint8", CASES),
    "position": Feature(None, "uint8", POSITIONS),
}


def parse_kinds(names: Iterable[str]) -> list[str]:
    """The kinds of parses that these features are made of, each once, in order."""
    return sorted({kind for name in names if (kind := FEATURES[name].source)})


def syntactic_distances(trees: Sequence[Tree], *, binarize: str = "none") -> list[int]:
    """Syntactic distances between the m words of a line (Hou 2024, §3.1; Shen et al. 2018).

    d_i = height(LCA(w_i, w_{i+1})) - 1 for i = 0 … m - 2, where unary chains are collapsed,
    height(word) = 1 and height(node) = 1 + max over its children. Trees stay n-ary, so all boundaries
    between the children of one node share a distance, unless `binarize` says otherwise: ``right`` makes
    (a (b c)) of the children (a b c), ``left`` ((a b) c). Between two trees it is :data:`INFINITE`.
    """
    distances: list[int] = []
    for number, tree in enumerate(trees):
        if number:
            distances.append(INFINITE)
        _append_distances(tree, distances, binarize)
    return distances


def _append_distances(tree: Tree, distances: list[int], binarize: str) -> None:
    # Depth first, without recursion (trees can be as deep as a sentence is long). A frame holds its
    # node's remaining children, the greatest height among those done, and the boundaries between them.
    stack: list[tuple[list[Tree | str], list[int], list[int]]] = [(tree.children[::-1], [], [])]
    while stack:
        children, heights, boundaries = stack[-1]
        if children:
            if heights:
                boundaries.append(len(distances))
                distances.append(0)
            child = children.pop()
            while not isinstance(child, str) and len(child.children) == 1:
                child = child.children[0]  # unary chains add nothing
            if isinstance(child, str):
                heights.append(1)
            else:
                stack.append((child.children[::-1], [], []))
            continue
        stack.pop()
        if binarize == "none":
            height = max(heights) + (len(heights) > 1)  # one child: a unary chain adds nothing
            for boundary in boundaries:
                distances[boundary] = height - 1
        else:
            if binarize == "right":
                heights.reverse()
                boundaries.reverse()
            height = heights[0]
            for other, boundary in zip(heights[1:], boundaries, strict=True):
                height = 1 + max(height, other)
                distances[boundary] = height - 1
        if stack:
            stack[-1][1].append(height)


def kept_words(word_of: Sequence[int]) -> list[int]:
    """The words that have a subword, in order; `word_of` is that of :func:`syntax_preprocess.alignment.align`."""
    return [word for i, word in enumerate(word_of) if not i or word != word_of[i - 1]]


def word_feature(word_of: Sequence[int]) -> list[int]:
    """``word`` for the n - 1 subwords of `word_of` and ``</s>``; see the module's table."""
    index = -1
    previous = None
    words = []
    for word in word_of:
        index += word != previous
        previous = word
        words.append(index)
    return [*words, index + 1]


def distance_feature(word_of: Sequence[int], distances: Sequence[int]) -> list[int]:
    """``distance`` for the n - 1 subwords of `word_of` and ``</s>``, from the m - 1 word distances.

    The distance over words that have no subword is the greatest on the way: that of the lowest common ancestor.
    """
    inside = [
        0 if left == right else distances[left] if left + 1 == right else max(distances[left:right])
        for left, right in itertools.pairwise(word_of)
    ]
    return [*inside, INFINITE, INFINITE] if word_of else [INFINITE]


def head_feature(word_of: Sequence[int], tree: DependencyTree) -> list[int]:
    """``head`` for the n - 1 subwords of `word_of` and ``</s>``; see the module's table.

    A word whose head has no subword hangs on its nearest ancestor that has one.
    """
    heads = tree.heads
    kept = kept_words(word_of)
    if len(kept) == len(heads):
        return [*(heads[word] for word in word_of), 0]
    value = {0: 0} | {word + 1: i for i, word in enumerate(kept, start=1)}  # of what hangs on a word
    values = []
    for word in word_of:
        head = heads[word]
        passed = []
        while head not in value:
            passed.append(head)
            head = heads[head - 1]
        value.update(dict.fromkeys(passed, value[head]))
        values.append(value[head])
    return [*values, 0]


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

"""Categories: labels of constituents, of those above each word and of what it shares with the next."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache, reduce

from syntax_data.trees.tree import Tree


@lru_cache(1024)
def category(label: str) -> str:
    """A constituent's label without functions and indices: ``NP`` of ``NP-SBJ-1`` and ``NP=2``; ``_`` if empty."""
    return label if label.startswith("-") else label.split("-")[0].split("=")[0] or "_"


#: How many constituents above a word have a feature.
CHAIN = 3


def word_categories(trees: Sequence[Tree]) -> list[tuple[str, ...]]:
    """The categories of the :data:`CHAIN` constituents above each word's part of speech, the lowest first.

    A part of speech is a node over this one word and nothing else; a word without one has the constituent that it is a
    child of. So ``He`` and ``runs`` have NP, S, ``_`` and VP, S, ``_`` in (S (NP (PRP He)) (VP (VBZ runs))), and both
    have S, ``_``, ``_`` in (S He runs).
    """
    found = []
    for tree in trees:
        above: list[Tree] = []
        for node, step in tree.walk():
            if isinstance(node, str):
                is_tag = len(above[-1].children) == 1 and len(above) > 1
                lowest = len(above) - is_tag
                labels = [category(one.label) for one in above[max(0, lowest - CHAIN) : lowest]]
                found.append((*reversed(labels), *["_"] * (CHAIN - len(labels))))
            elif step > 0:
                above.append(node)
            else:
                above.pop()
    return found


def shared_categories(trees: Sequence[Tree]) -> list[str]:
    """The category of the smallest constituent that each word shares with the next one; ``_`` for a tree's last word.

    So the words of (S (NP (DT the) (NN cat)) (VP (VBZ runs))) have NP, S and ``_`` (Gómez-Rodríguez and Vilares 2018).
    """
    found = []
    for tree in trees:
        above: list[Tree] = []
        shared = 0  # how many of these are above the word before, too
        for node, step in tree.walk():
            if isinstance(node, str):
                if shared:
                    found.append(category(above[shared - 1].label))
                shared = len(above)
            elif step > 0:
                above.append(node)
            else:
                above.pop()
                shared = min(shared, len(above))
        found.append("_")
    return found


def with_categories(trees: Sequence[Tree], categories: Iterable[Sequence[str]]) -> list[Tree]:
    """The same trees whose words have these categories: each word is below a unary chain of its own."""
    rest = iter(categories)
    return [tree.with_leaves(lambda word: [_chain(next(rest), word)]) for tree in trees]


def _chain(labels: Sequence[str], word: str) -> Tree:
    return reduce(lambda below, label: Tree(label, [below]), labels, Tree("X", [word]))

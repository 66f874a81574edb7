"""Controls that depend on a sentence's length alone.

Under ``flat`` all distances tie: of a soft bias of syntactic distances only locality is left. All words but the first
are siblings below it.
"""

from __future__ import annotations

from random import Random

from syntax_data.trees.tree import DependencyTree, Tree, sentence_sizes

#: The kinds of these controls.
FROM_LENGTH = ("right-branching", "left-branching", "random", "flat")


def control_trees(kind: str, trees: list[Tree], seed: str) -> list[Tree]:
    """For each tree another one over the same words, of a :data:`FROM_LENGTH` kind."""
    random = Random(seed)
    return [_tree(kind, tree.leaves(), random) for tree in trees]


def control_heads(kind: str, tree: DependencyTree, seed: str) -> DependencyTree:
    """The same tokens and labels under other heads, which fit :func:`control_trees`.

    Each constituent's head is that of its first part (``right-branching``: every word depends on the one before;
    ``flat``: on the first), its last (``left-branching``: every word depends on the one after) or any (``random``).
    """
    random, above = Random(seed), Random(f"{seed} heads")
    heads: list[int] = []
    for size in sentence_sizes(tree.heads):
        first = len(heads)
        heads += [head and head + first for head in _heads(kind, size, random, above)]
    return tree.with_heads(heads)


def _splits(kind: str, size: int, random: Random) -> list[tuple[int, int, int]]:
    """The constituents (first, middle, end) of a binary tree, from the root downwards."""
    found = []
    stack = [(0, size)]
    while stack:
        first, end = stack.pop()
        if end - first > 1:
            if kind == "random":
                middle = random.randrange(first + 1, end)
            else:
                middle = first + 1 if kind == "right-branching" else end - 1
            found.append((first, middle, end))
            stack += [(middle, end), (first, middle)]
    return found


def _tree(kind: str, words: list[str], random: Random) -> Tree:
    splits = [] if kind == "flat" else _splits(kind, len(words), random)
    return Tree.from_brackets(words, {(0, len(words)): "X"} | {(first, end): "X" for first, _, end in splits})


def _heads(kind: str, size: int, random: Random, choice: Random) -> list[int]:
    if kind == "flat":
        return [0, *[1] * (size - 1)]
    head = {(i, i + 1): i for i in range(size)}  # of each constituent
    heads = [0] * size
    for first, middle, end in reversed(_splits(kind, size, random)):
        parts = head.pop((first, middle)), head.pop((middle, end))
        above = choice.randrange(2) if kind == "random" else int(kind == "left-branching")
        heads[parts[1 - above]] = parts[above] + 1
        head[first, end] = parts[above]
    return heads

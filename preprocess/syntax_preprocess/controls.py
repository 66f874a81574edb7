"""Trees that know nothing of the sentence but its length, for ablations."""

from __future__ import annotations

from random import Random

from syntax_preprocess.trees import DependencyTree, Tree, depth, sentence_sizes

#: The choices of ``--control``.
CONTROLS = ("linear", "random")


def control_trees(kind: str, trees: list[Tree], seed: str) -> list[Tree]:
    """For each tree another one over the same words; `kind` is one of :data:`CONTROLS`."""
    random = Random(seed)
    return [_tree(kind, tree.leaves(), random) for tree in trees]


def control_heads(kind: str, tree: DependencyTree, seed: str) -> DependencyTree:
    """The same tokens and labels under other heads, those of :func:`control_trees` for the same `seed`, sentence by
    sentence.

    Each constituent's head is that of its first part (``linear``: every word hangs on the one before) or of any
    part (``random``).
    """
    random, above = Random(seed), Random(f"{seed} heads")
    heads: list[int] = []
    for size in sentence_sizes(tree.heads):
        first = len(heads)
        heads += [head and head + first for head in _heads(kind, size, random, above)]
    return DependencyTree(tree.tokens, heads, tree.columns, tree.sentences, depth=depth(heads))


def _splits(kind: str, size: int, random: Random) -> list[tuple[int, int, int]]:
    """The constituents (first, middle, end) of a binary tree over `size` words, from the root downwards.

    ``linear`` is right-branching; ``random`` cuts each constituent at any place with equal chance.
    """
    found = []
    stack = [(0, size)]
    while stack:
        first, end = stack.pop()
        if end - first > 1:
            middle = first + 1 if kind == "linear" else random.randrange(first + 1, end)
            found.append((first, middle, end))
            stack += [(middle, end), (first, middle)]
    return found


def _tree(kind: str, words: list[str], random: Random) -> Tree:
    built: dict[tuple[int, int], Tree | str] = {(i, i + 1): word for i, word in enumerate(words)}
    for first, middle, end in reversed(_splits(kind, len(words), random)):
        built[first, end] = Tree("X", [built.pop((first, middle)), built.pop((middle, end))])
    whole = built[0, len(words)]
    return Tree("X", [whole]) if isinstance(whole, str) else whole


def _heads(kind: str, size: int, random: Random, choice: Random) -> list[int]:
    splits = _splits(kind, size, random)
    head = {(i, i + 1): i for i in range(size)}  # of each constituent
    heads = [0] * size
    for first, middle, end in reversed(splits):
        parts = head.pop((first, middle)), head.pop((middle, end))
        above = 0 if kind == "linear" else choice.randrange(2)
        heads[parts[1 - above]] = parts[above] + 1
        head[first, end] = parts[above]
    return heads

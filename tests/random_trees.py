"""Random constituency trees: n-ary, with unary chains."""

from __future__ import annotations

from random import Random

from syntax_preprocess.trees import Tree


def random_tree(random: Random, words: int) -> Tree:
    """A random tree over `words` words w0, w1, …; each node has one to five children."""

    def build(first: int, last: int) -> Tree:
        if first + 1 == last:
            node = Tree("T", [f"w{first}"])
        else:
            parts = random.randint(2, min(5, last - first))
            cuts = sorted(random.sample(range(first + 1, last), parts - 1))
            ends = zip([first, *cuts], [*cuts, last], strict=True)
            node = Tree("N", [build(a, b) for a, b in ends])
        while random.random() < 0.2:
            node = Tree("U", [node])
        return node

    return build(0, words)


def bracketed(tree: Tree) -> str:
    """The tree in the notation that the reader reads."""
    inside = " ".join(c if isinstance(c, str) else bracketed(c) for c in tree.children)
    return f"({tree.label} {inside})"

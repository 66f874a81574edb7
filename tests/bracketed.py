"""Trees as text, written without the product's writer."""

from __future__ import annotations

from syntax_data.trees.tree import Tree


def bracketed(tree: Tree) -> str:
    """The tree in the notation that the reader reads."""
    inside = " ".join(c if isinstance(c, str) else bracketed(c) for c in tree.children)
    return f"({tree.label} {inside})"

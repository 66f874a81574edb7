"""``random-tags``: the tree and the heads stay, the words' parts of speech are in random order."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from syntax_data.trees.tree import DependencyTree

#: The columns of CoNLL-U that belong together: UPOS, XPOS and FEATS.
_TAGS = slice(3, 6)


def random_tags(dependencies: DependencyTree, seed: str) -> DependencyTree:
    """Give each word UPOS, XPOS and FEATS of a random one of the line's words; each is given once."""
    columns = [list(row) for row in dependencies.columns]
    drawn = Random(f"{seed} tags").sample(dependencies.columns, len(columns))
    for row, other in zip(columns, drawn, strict=True):
        row[_TAGS] = other[_TAGS]
    return replace(dependencies, columns=columns)

"""``shuffled``: the tree and the heads of another sentence with as many words.

Both are of the same other line, whole, with all its sentences. Relations (DEPREL) come with the heads and categories
with the tree, everything else of CoNLL-U stays with the word. The other line never has the same words, case aside.
"""

from __future__ import annotations

import sys
from array import array
from dataclasses import dataclass
from hashlib import blake2b
from heapq import heappush, heappushpop
from itertools import chain
from random import Random

from syntax_data.trees.categories import with_categories, word_categories
from syntax_data.trees.tree import DependencyTree, NoParse, Tree

#: Lines of each length that are kept to draw from.
MOST = 200

#: Why a line has no parse under ``shuffled`` that had one.
NO_OTHER = "no other of this length"

#: How many words a line's trees and its dependency tree have; ``None``: there is none.
Size = tuple[int | None, int | None]


@dataclass(frozen=True, slots=True)
class Shape:
    """A line's parses without their words.

    Attributes:
        words: a hash of the line's words.
        trees: of each tree the first word and the end of each bracket, one after another.
        labels: of the brackets of all trees.
        categories: of the constituents above each word.
        heads: as :class:`DependencyTree` has them.
        deprel: likewise.
        sentences: likewise.
    """

    words: int
    trees: list[array[int]] | None
    labels: list[str]
    categories: list[tuple[str, ...]]
    heads: array[int] | None
    deprel: list[str]
    sentences: int


class SentencePool:
    """The lines that parses are drawn from, at most :data:`MOST` of each length.

    If there are more, they are a random sample, which depends on nothing but the lines.
    """

    def __init__(self) -> None:
        self._by_size: dict[Size, list[tuple[int, int, Shape]]] = {}  # heaps

    def add(self, number: int, trees: list[Tree] | None, dependencies: DependencyTree | None) -> None:
        """Add line `number` of the split."""
        words = _words(trees, dependencies)
        if words:
            shape = Shape(
                words=_hash("".join(words).casefold()),
                trees=None if trees is None else [array("I", chain(*tree.brackets())) for tree in trees],
                labels=[sys.intern(label) for tree in trees or () for label in tree.brackets().values()],
                categories=[tuple(map(sys.intern, above)) for above in word_categories(trees or ())],
                heads=None if dependencies is None else array("I", dependencies.heads),
                deprel=[] if dependencies is None else [*map(sys.intern, dependencies.deprel)],
                sentences=0 if dependencies is None else dependencies.sentences,
            )
            self._add(_size(trees, dependencies), (_hash(f"{number} {words}"), number, shape))

    def update(self, other: SentencePool) -> None:
        """Add the lines of another pool."""
        for size, lines in other._by_size.items():
            for line in lines:
                self._add(size, line)

    def parses(
        self, trees: list[Tree] | None, dependencies: DependencyTree | None, seed: str
    ) -> tuple[list[Tree] | NoParse | None, DependencyTree | NoParse | None]:
        """Another line's parses over these words; :class:`NoParse` if there is none."""
        words = _words(trees, dependencies)
        if not words:
            return trees, dependencies
        own = _hash("".join(words).casefold())
        found = [shape for *_, shape in self._by_size.get(_size(trees, dependencies), ()) if shape.words != own]
        if not found:
            return NoParse(NO_OTHER), NoParse(NO_OTHER)
        shape = Random(seed).choice(found)
        if trees and shape.trees:
            rest, labels = iter(_words(trees, None)), iter(shape.labels)
            trees = []
            for bounds in shape.trees:  # the first bracket is the whole sentence
                brackets = {span: next(labels) for span in zip(bounds[::2], bounds[1::2], strict=True)}
                trees.append(Tree.from_brackets([next(rest) for _ in range(bounds[1])], brackets))
            trees = with_categories(trees, shape.categories)
        if dependencies and shape.heads:
            dependencies = dependencies.with_heads([*shape.heads], deprel=shape.deprel, sentences=shape.sentences)
        return trees, dependencies

    def _add(self, size: Size, line: tuple[int, int, Shape]) -> None:
        lines = self._by_size.setdefault(size, [])
        (heappush if len(lines) < MOST else heappushpop)(lines, line)


def _hash(text: str) -> int:
    return int.from_bytes(blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "big")


def _words(trees: list[Tree] | None, dependencies: DependencyTree | None) -> list[str]:
    return dependencies.tokens if dependencies else [word for tree in trees or () for word in tree.leaves()]


def _size(trees: list[Tree] | None, dependencies: DependencyTree | None) -> Size:
    return (
        None if trees is None else len(_words(trees, None)),
        None if dependencies is None else len(dependencies.tokens),
    )

"""Properties of parses, by which sentences are selected and sorted into bins."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from syntax_data.features.distance import greatest_distance, syntactic_distances
from syntax_data.trees.tree import DependencyTree, NoParse, Tree

#: The relations of Universal Dependencies by which a clause depends on something.
CLAUSAL = frozenset({"csubj", "ccomp", "xcomp", "advcl", "acl", "parataxis"})
_PREDICATES = frozenset({"VERB", "AUX"})


def height(trees: Sequence[Tree]) -> int:
    """Return the greatest height of a line's constituents (Hou 2024, §3.1).

    It is 1 of a word, and 1 + max over children of a constituent; unary chains count once.
    """
    return greatest_distance(syntactic_distances(trees)) + 1


def clauses(tree: DependencyTree) -> int:
    """Return the number of a line's clauses, by Universal Dependencies.

    One a sentence; one for each word whose relation, without its subtype, is in :data:`CLAUSAL`; and one for each
    conjunct (``conj``) that is a verb or an auxiliary.
    """
    count = tree.sentences if tree.tokens else 0
    for relation, tag in zip(tree.deprel, tree.upos, strict=True):
        relation = relation.partition(":")[0]
        count += relation in CLAUSAL or (relation == "conj" and tag in _PREDICATES)
    return count


def attachments(tree: DependencyTree) -> int:
    """Return the number of prepositional phrases: words with a preposition, but for roots."""
    relations = [relation.partition(":")[0] for relation in tree.deprel]
    words = zip(tree.heads, relations, tree.upos, strict=True)
    with_preposition = {head for head, relation, tag in words if relation == "case" and tag == "ADP"}
    return sum(i in with_preposition and r in ("nmod", "obl") for i, r in enumerate(relations, start=1))


#: By name the format of the parses, and the property; depth: words on the longest path from a root.
PROPERTIES: dict[str, tuple[str, Callable[[Any], int]]] = {
    "height": ("trees", height),
    "depth": ("conllu", lambda tree: tree.depth),
    "clauses": ("conllu", clauses),
    "attachments": ("conllu", attachments),
}


def values_of(name: str, parses: Sequence[Any]) -> list[int | None]:
    """Return a property of each line's parse; ``None`` where there is none."""
    return [None if isinstance(parse, NoParse) else PROPERTIES[name][1](parse) for parse in parses]

"""Properties of parses: height of constituency trees, and number of clauses."""

from __future__ import annotations

from collections.abc import Sequence

from syntax_data.features.distance import greatest_distance, syntactic_distances
from syntax_data.trees.tree import DependencyTree, Tree

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

"""Numbers of a source sentence by which lines are selected: its length, and how deep and how rich its parse is."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from syntax_data.trees.formats import FORMATS
from syntax_data.trees.tree import DependencyTree, NoParse, Tree
from syntax_experiments.plots import properties


def words(line: str, parses: Mapping[str, Any]) -> int:
    """The number of tokens."""
    return len(line.split())


def height(line: str, parses: Mapping[str, Any]) -> int | None:
    """The height of the constituency tree, 1 of a word; of the sentences of a line the greatest."""
    trees: Sequence[Tree] | NoParse | None = parses.get("trees")
    return None if trees is None or isinstance(trees, NoParse) else properties.height(trees)


def depth(line: str, parses: Mapping[str, Any]) -> int | None:
    """The depth of the dependency tree: the greatest number of words on the way from a root down."""
    tree = _dependencies(parses)
    return None if tree is None else tree.depth


def attachments(line: str, parses: Mapping[str, Any]) -> int | None:
    """The number of prepositional phrases: words that have a preposition, and hang on another word."""
    tree = _dependencies(parses)
    if tree is None:
        return None
    relations = [relation.partition(":")[0] for relation in tree.deprel]
    with_preposition = {
        head for head, relation, tag in zip(tree.heads, relations, tree.upos, strict=True)
        if relation == "case" and tag == "ADP"
    }  # fmt: skip
    return sum(i in with_preposition and r in ("nmod", "obl") for i, r in enumerate(relations, start=1))


def clauses(line: str, parses: Mapping[str, Any]) -> int | None:
    """The number of clauses, by Universal Dependencies."""
    tree = _dependencies(parses)
    return None if tree is None else properties.clauses(tree)


def _dependencies(parses: Mapping[str, Any]) -> DependencyTree | None:
    tree = parses.get("conllu")
    return tree if isinstance(tree, DependencyTree) else None


#: By the name that recipes know them by.
MEASURES: dict[str, Callable[[str, Mapping[str, Any]], int | None]] = {
    "words": words,
    "height": height,
    "depth": depth,
    "attachments": attachments,
    "clauses": clauses,
}


def measure(names: Sequence[str], text: Path, parses: Path | None) -> list[dict[str, int | None]]:
    """Measures of each line of a text.

    Args:
        names: of :data:`MEASURES`.
        parses: prefix of its files of parses.
    """
    lines = text.read_text(encoding="utf-8").splitlines()
    read: dict[str, list[Any]] = {}
    for kind, form in FORMATS.items():
        if parses is not None and Path(form.path(str(parses))).exists():
            read[kind] = [unit for _, unit in form.read(form.path(str(parses)))]
            if len(read[kind]) != len(lines):
                raise ValueError(f"{form.path(str(parses))}: expected {len(lines)} parses, found {len(read[kind])}")
    return [
        {name: MEASURES[name](line, {kind: units[i] for kind, units in read.items()}) for name in names}
        for i, line in enumerate(lines)
    ]

"""Measures of a source sentence by which lines are selected: its length, and the size of its parse."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from syntax_data.trees.formats import FORMATS
from syntax_data.trees.tree import DependencyTree, NoParse, Tree
from syntax_experiments.plots import properties


def attachments(tree: DependencyTree) -> int:
    """Count prepositional phrases: words that have a preposition, and depend on another word."""
    relations = [relation.partition(":")[0] for relation in tree.deprel]
    with_preposition = {
        head for head, relation, tag in zip(tree.heads, relations, tree.upos, strict=True)
        if relation == "case" and tag == "ADP"
    }  # fmt: skip
    return sum(i in with_preposition and r in ("nmod", "obl") for i, r in enumerate(relations, start=1))


_OF_TREES: dict[str, Callable[[Sequence[Tree]], int]] = {"height": properties.height}
_OF_DEPENDENCIES: dict[str, Callable[[DependencyTree], int]] = {
    "depth": lambda tree: tree.depth,
    "attachments": attachments,
    "clauses": properties.clauses,
}


def measure(names: Sequence[str], text: Path, parses: Path | None) -> list[dict[str, int | None]]:
    """Return measures of each line of a text; ``None`` where a line has no parse.

    Args:
        names: ``words`` (the number of tokens), ``height`` of the constituency trees (1 of a word; the greatest of the
            line), ``depth`` of the dependency tree (words on the longest path from a root), ``attachments``
            (prepositional phrases), ``clauses``.
        parses: prefix of the files of parses.
    """
    lines = text.read_text(encoding="utf-8").splitlines()
    read: dict[str, list[Any]] = {}
    for kind, form in FORMATS.items():
        path = form.path(str(parses))
        if parses is not None and Path(path).exists():
            read[kind] = [entry for _, entry in form.read(path)]
            if len(read[kind]) != len(lines):
                raise ValueError(f"{path}: expected {len(lines)} parses, found {len(read[kind])}")

    def of_line(name: str, i: int) -> int | None:
        if name == "words":
            return len(lines[i].split())
        kind, measures = ("trees", _OF_TREES) if name in _OF_TREES else ("conllu", _OF_DEPENDENCIES)
        parse = read[kind][i] if kind in read else None
        return None if parse is None or isinstance(parse, NoParse) else measures[name](parse)

    return [{name: of_line(name, i) for name in names} for i in range(len(lines))]

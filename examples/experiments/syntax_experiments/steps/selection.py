"""Lines of a split by measures of their parses: to train on, or to score apart."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from typing import Any

from syntax_data.trees.formats import FORMATS
from syntax_data.trees.tree import DependencyTree, NoParse, Tree
from syntax_experiments.make import Step, files_in, read_lines, write_lines
from syntax_experiments.plots import properties
from syntax_experiments.recipe import Range, Selection


def choose(step: Step) -> None:
    """Write ``SPLIT.json``, the numbers (from 0) of the selected lines."""
    for split, wanted in step.settings["select"].items():
        (step.folder / f"{split}.json").write_text(json.dumps(_lines(step, split, Selection(**wanted))))


def subsets(step: Step) -> None:
    """Write ``TEST.json``: the line numbers of each subset of a test set."""
    for test in step.settings["tests"]:
        found = {name: _lines(step, test, Selection(**wanted)) for name, wanted in step.settings["subsets"].items()}
        (step.folder / f"{test}.json").write_text(json.dumps(found))


def select(step: Step) -> None:
    """Write the selected lines of the text, or of a split's parses."""
    settings = step.settings
    lang = settings["source"]
    if settings["what"] == "parses":
        numbers = _selected(step, settings["split"])
        for kind, form in FORMATS.items():
            path = step.inputs["parses"] / f"{settings['split']}.{lang}.{kind}"
            if path.exists():
                entries = [entry for _, entry in form.read(str(path))]
                kept = entries if numbers is None else [entries[i] for i in numbers]
                (step.folder / path.name).write_text("".join(map(form.write, kept)), encoding="utf-8")
        return
    for path in files_in(step.inputs["text"]):
        numbers = _selected(step, path.name.partition(".")[0])
        if numbers is None or path.suffix == ".json":
            shutil.copy(path, step.folder)
        else:
            lines = read_lines(path)
            write_lines(step.folder / path.name, (lines[i] for i in numbers))


def _selected(step: Step, split: str) -> list[int] | None:
    path = step.inputs["lines"] / f"{split}.json"
    return json.loads(path.read_text()) if path.exists() else None


def _lines(step: Step, split: str, wanted: Selection) -> list[int]:
    ranges, number = wanted.ranges, wanted.lines
    file = f"{split}.{step.settings['source']}"
    parses = step.inputs.get(f"parses of {split}")
    measured = measure(list(ranges), step.inputs["text"] / file, parses and parses / file)
    found = [i for i, values in enumerate(measured) if all(_within(values[name], r) for name, r in ranges.items())]
    random = Random(f"{wanted.seed} {split}")
    if wanted.per_length is not None and wanted.words is not None:
        least, most = wanted.words
        within, found = found, []
        for length in range(least or 0, (most or 0) + 1):
            lines = [i for i in within if measured[i]["words"] == length]
            if len(lines) < wanted.per_length:
                raise ValueError(f"{split}: expected {wanted.per_length} lines of {length} words, found {len(lines)}")
            found += random.sample(lines, wanted.per_length)
    if not found or (number is not None and len(found) < number):
        expected = "at least one line" if number is None else f"{number} lines"
        raise ValueError(f"{split}: expected {expected} with {ranges or 'no range'}, found {len(found)}")
    if number is not None:
        found = random.sample(found, number)
    print(f"{split}: {len(found)} of {len(measured)} lines with {ranges}")
    return sorted(found)


def _within(value: int | None, bounds: Range) -> bool:
    least, most = bounds
    return value is not None and (least is None or value >= least) and (most is None or value <= most)


def attachments(tree: DependencyTree) -> int:
    """Count prepositional phrases: words with a preposition, but for roots."""
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
    """Return measures of each line of text; ``None`` where a line has no parse.

    Args:
        names: ``words`` (the number of tokens), ``height`` of the constituency trees (1 of a word; the greatest of the
            line), ``depth`` of the dependency tree (words on the longest path from a root), ``attachments``
            (prepositional phrases), ``clauses``.
        parses: prefix of the files of parses.
    """
    lines = read_lines(text)
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

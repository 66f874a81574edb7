"""Lines of a split by measures of them and their parses: to train on, or to score apart."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from random import Random
from typing import Any

from syntax_data.trees.formats import FORMATS
from syntax_experiments.line_measures import measure
from syntax_experiments.make import Step, files_in
from syntax_experiments.recipe import Range, Selection


def choose(step: Step) -> None:
    """Write ``SPLIT.json``, the numbers (from 0) of the selected lines, of splits with a selection."""
    for split, wanted in step.settings["select"].items():
        _write(step, split, _lines(step, split, Selection(**wanted)))


def subsets(step: Step) -> None:
    """Write ``TEST.json``: the line numbers of each subset of a test set."""
    for test in step.settings["tests"]:
        found = {name: _lines(step, test, Selection(**wanted)) for name, wanted in step.settings["subsets"].items()}
        _write(step, test, found)


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
            lines = path.read_text(encoding="utf-8").splitlines()
            (step.folder / path.name).write_text("".join(f"{lines[i]}\n" for i in numbers), encoding="utf-8")


def _selected(step: Step, split: str) -> list[int] | None:
    path = step.inputs["lines"] / f"{split}.json"
    return json.loads(path.read_text()) if path.exists() else None


def _lines(step: Step, split: str, wanted: Selection) -> list[int]:
    lang = step.settings["source"]
    ranges = wanted.ranges
    text = step.inputs["text"] / f"{split}.{lang}"
    parses = step.inputs.get(f"parses of {split}")
    prefix = None if parses is None else Path(parses, f"{split}.{lang}")
    measured = measure(list(ranges), text, prefix)
    found = [i for i, values in enumerate(measured) if all(_within(values[name], r) for name, r in ranges.items())]
    if wanted.per_length is not None:
        found = _per_length(split, wanted, {i: measured[i]["words"] or 0 for i in found})
    number = wanted.lines
    if not found or (number is not None and len(found) < number):
        expected = "at least one line" if number is None else f"{number} lines"
        raise ValueError(f"{split}: expected {expected} with {ranges or 'no range'}, found {len(found)}")
    if number is not None:
        found = sorted(Random(f"{wanted.seed} {split}").sample(found, number))
    print(f"{split}: {len(found)} of {len(measured)} lines with {ranges}")
    return found


def _per_length(split: str, wanted: Selection, words: dict[int, int]) -> list[int]:
    least, most = wanted.words or (None, None)
    random, number = Random(f"{wanted.seed} {split}"), wanted.per_length or 0
    found: list[int] = []
    for length in range(least or 0, (most or 0) + 1):
        of_length = [i for i, count in words.items() if count == length]
        if len(of_length) < number:
            raise ValueError(f"{split}: expected {number} lines of {length} words, found {len(of_length)}")
        found += random.sample(of_length, number)
    return sorted(found)


def _within(value: int | None, bounds: Range) -> bool:
    least, most = bounds
    return value is not None and (least is None or value >= least) and (most is None or value <= most)


def _write(step: Step, name: str, value: Any) -> None:
    (step.folder / f"{name}.json").write_text(json.dumps(value))

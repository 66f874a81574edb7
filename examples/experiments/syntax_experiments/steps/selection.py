"""Lines of a split by measures of them and their parses: to train on, or to score apart."""

from __future__ import annotations

import json
import shutil
from random import Random

from syntax_data.trees.formats import FORMATS
from syntax_experiments.line_measures import measure
from syntax_experiments.make import Step, files_in, read_lines, write_lines
from syntax_experiments.recipe import Range, Selection


def choose(step: Step) -> None:
    """Write ``SPLIT.json``, the numbers (from 0) of the selected lines, of splits with a selection."""
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

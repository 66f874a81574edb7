"""Lines of a split by measures of their parses: to train on, or to score apart."""

from __future__ import annotations

import itertools
import json
import math
import shutil
from collections.abc import Iterable
from pathlib import Path
from random import Random
from typing import Any

import pandas as pd

from syntax_data.trees.formats import FORMATS
from syntax_data.trees.tree import NoParse
from syntax_experiments.make import Step, files_in, read_lines, write_lines
from syntax_experiments.plots.properties import PROPERTIES, values_of
from syntax_experiments.recipe import Selection
from syntax_experiments.texts import parsed_texts


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
    if settings["what"] == "parses":
        numbers = _selected(step, settings["split"])
        for text, (kind, form) in itertools.product(parsed_texts(settings), FORMATS.items()):
            path = step.inputs["parses"] / f"{settings['split']}.{text}.{kind}"
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
    ranges, number, each = wanted.ranges, wanted.lines, wanted.per_length
    file = f"{split}.{parsed_texts(step.settings)[0]}"
    parses = step.inputs.get(f"parses of {split}")
    measured = measure(ranges, step.inputs["text"] / file, parses and parses / file)
    within = measured
    for name, (least, most) in ranges.items():  # a line without a parse is in no range
        within = within[within[name].between(least or 0, math.inf if most is None else most)]
    found, random = within.index.tolist(), Random(f"{wanted.seed} {split}")
    if each is not None and wanted.words is not None:
        least, most = wanted.words
        found = []
        for length in range(least or 0, (most or 0) + 1):
            lines = within.index[within["words"] == length].tolist()
            if len(lines) < each:
                raise ValueError(f"{split}: expected {each} lines of {length} words, found {len(lines)}")
            found += random.sample(lines, each)
    if not found or (number is not None and len(found) < number):
        expected = "at least one line" if number is None else f"{number} lines"
        raise ValueError(f"{split}: expected {expected} with {ranges or 'no range'}, found {len(found)}")
    if number is not None:
        found = random.sample(found, number)
    found = sorted(found)
    if wanted.keep_every is not None:
        found = found[wanted.keep_every - 1 :: wanted.keep_every]
    if wanted.drop_every is not None:
        del found[wanted.drop_every - 1 :: wanted.drop_every]
    print(f"{split}: {len(found)} of {len(measured)} lines with {ranges}")
    return found


def measure(names: Iterable[str], text: Path, parses: Path | None) -> pd.DataFrame:
    """Return measures of sentences, a row a line; NaN where a line has no parse.

    Args:
        names: ``words``, the number of tokens, or one of :data:`~syntax_experiments.plots.properties.PROPERTIES`.
        parses: prefix of the files of parses.
    """
    lines = read_lines(text)
    read: dict[str, list[Any]] = dict.fromkeys(FORMATS, [NoParse("none")] * len(lines))
    for kind, form in FORMATS.items():
        path = form.path(str(parses))
        if parses is not None and Path(path).exists():
            read[kind] = [entry for _, entry in form.read(path)]
            if len(read[kind]) != len(lines):
                raise ValueError(f"{path}: expected {len(lines)} parses, found {len(read[kind])}")
    words = {"words": [len(line.split()) for line in lines]}
    more = {name: values_of(name, read[PROPERTIES[name][0]]) for name in names if name != "words"}
    return pd.DataFrame(words | more, dtype=float)

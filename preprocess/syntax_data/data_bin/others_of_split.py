"""The lines of a split that ``--control shuffled`` draws from, gathered before its features are made."""

from __future__ import annotations

import pickle
import tempfile
from collections.abc import Mapping
from functools import lru_cache, partial

from syntax_data.controls import Others
from syntax_data.features.aligned import Settings
from syntax_data.io.workers import Workers
from syntax_data.text.ranges import Range
from syntax_data.trees.bad_parses import BadParses
from syntax_data.trees.formats import CONLLU, FORMATS, TREES
from syntax_data.trees.parallel_files import parallel_ranges
from syntax_data.trees.tree import NoParse


def write_others(
    folder: str, text: str, parses: Mapping[str, str], *, settings: Settings, units: int, workers: Workers
) -> str:
    """Reads all parses of a split, writes what is drawn from to a new file, where each worker finds it, and returns its
    path.

    Args:
        folder: of the new file.
        text: path of the split's text.
        parses: of its parses, by kind.
        settings: say what becomes of bad parses.
        units: how many lines a worker gets at a time.
    """
    others = Others()
    gather = partial(_gather, parses=parses, bad=BadParses(settings.on_bad_parse))
    for some in workers.map_ordered(gather, parallel_ranges(text, parses, units)):
        others.update(some)
    with tempfile.NamedTemporaryFile(dir=folder, prefix="others.", delete=False) as file:
        pickle.dump(others, file, pickle.HIGHEST_PROTOCOL)
    return file.name


@lru_cache(maxsize=1)
def read_others(path: str) -> Others:
    """What :func:`write_others` wrote; a process reads it once."""
    with open(path, "rb") as file:
        others: Others = pickle.load(file)
    return others


def _gather(ranges: Mapping[str, Range], *, parses: Mapping[str, str], bad: BadParses) -> Others:
    others = Others()
    rows = {kind: FORMATS[kind].units(ranges[kind].lines()) for kind in parses}
    for (number, _), *row in zip(ranges["text"].lines(), *rows.values(), strict=False):
        found = {}
        for kind, (line, unit) in zip(rows, row, strict=True):
            parse = bad.read(FORMATS[kind].parse, unit, path=parses[kind], line=line)
            found[kind] = None if isinstance(parse, NoParse) else parse
        others.add(number, found.get(TREES.name), found.get(CONLLU.name))
    return others

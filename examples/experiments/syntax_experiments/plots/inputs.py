"""The files that the command was given, read and grouped by system."""

from __future__ import annotations

import argparse
import os
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from syntax_data.errors import InputError
from syntax_data.scoring.translations import read_references, read_translations, restore
from syntax_data.text.lines import read_lines, tokenize_line
from syntax_data.trees.bad_parses import BadParses
from syntax_data.trees.formats import CONLLU, FORMATS, TREES
from syntax_data.trees.tree import DependencyTree, NoParse, Tree
from syntax_experiments.plots.dumps import Dump
from syntax_experiments.plots.picture_data import Point, Texts
from syntax_experiments.plots.style import printable
from syntax_experiments.training_log import Gates, read_validations

#: Options, and those of which each needs one.
_NEEDED = (
    ("hypotheses", ["references"]),
    ("sweep", ["references"]),
    ("hypotheses", ["source", "parses"]),
    ("references", ["hypotheses", "sweep"]),
    ("sentence", ["dump", "parses"]),
)


@dataclass
class Inputs:
    """All that was read: of each system an item a seed; trees of source sentences."""

    references: list[Texts]
    dumps: dict[str, list[Dump]] = field(default_factory=dict)
    logged: dict[str, list[Gates]] = field(default_factory=dict)  # of the last validations
    hypotheses: dict[str, list[Texts]] = field(default_factory=dict)
    sweeps: dict[str, list[Point]] = field(default_factory=dict)  # by axis
    trees: list[list[Tree] | NoParse] = field(default_factory=list)
    dependencies: list[DependencyTree | NoParse] = field(default_factory=list)
    lengths: list[int | NoParse] = field(default_factory=list)
    sources: list[str] = field(default_factory=list)  # names of what was read, for people

    @property
    def systems(self) -> list[str]:
        """All systems, in the order in which they were given."""
        of_sweeps = (point.system for points in self.sweeps.values() for point in points)
        return list(dict.fromkeys([*self.hypotheses, *self.logged, *self.dumps, *of_sweeps]))


def read_inputs(args: argparse.Namespace) -> Inputs:
    """Read all files.

    Raises:
        ValueError: a file is broken, of another number of sentences than the references, or given twice; or an option
            lacks another one that it needs.
    """
    _check(args)
    found = Inputs([read_references(path) for path in args.references or ()])
    count = len(found.references[0]) if found.references else None

    def whole(path: str, read: Sequence[Any], what: str, of: str = "") -> Any:
        if count is not None and len(read) != count:
            raise InputError(path, None, f"expected {count} {what} as in {args.references[0]}, found {len(read)}")
        found.sources.append(f"{what}{of}: {path}")
        return read

    def translations(path: str, of: str) -> Texts:
        raw = whole(path, read_translations(path, count or 0), "translations", f" of {of}")
        texts = restore(path, raw, remove_bpe=args.remove_bpe, detokenize=args.detokenize)
        if (apart := sum(text.endswith(" .") for text in texts)) >= 100:  # sacreBLEU's sign of tokenised text
            print(f"{path}: {apart} translations end in ' .' (--detokenize LANG?)", file=sys.stderr)
        return texts

    def parses(kind: Any) -> Any:
        path = kind.path(args.parses or "")
        if not args.parses or not os.path.exists(path):
            return []
        bad = BadParses(args.on_bad_parse, lambda error: print(f"skipped ({error.reason}): {error}", file=sys.stderr))
        read = [bad.read(kind.parse, entry, path=path, line=n) for n, entry in kind.entries(read_lines(path))]
        if missing := sum(isinstance(parse, NoParse) for parse in read):
            print(f"{path}: {missing} of {len(read)} sentences have no parse", file=sys.stderr)
        return whole(path, read, "parses")

    for path, reference in zip(args.references or (), found.references, strict=True):
        whole(path, reference, "references")
    for system, path in args.log:
        found.logged.setdefault(printable(system), []).append(read_validations(path)[-1].gates)
    for system, path in args.dump:
        found.dumps.setdefault(printable(system), []).append(Dump(path))
    found.sources += [f"{system}: {path}" for system, path in [*args.log, *args.dump]]
    for system, path in args.hypotheses:
        found.hypotheses.setdefault(printable(system), []).append(translations(path, system))
    for *names, path in args.sweep:
        axis, system, value = map(printable, names)
        texts = translations(path, f"{system}, {axis} = {value}")
        found.sweeps.setdefault(axis, []).append(Point(system, value, texts))
    found.trees, found.dependencies = parses(TREES), parses(CONLLU)
    if args.parses and not (found.trees or found.dependencies):
        names = " or ".join(f"{args.parses}.{name}" for name in FORMATS)
        raise InputError(args.parses, None, f"expected {names}, found neither")
    if args.source:
        lengths = [len(tokenize_line(line)) for _, line in read_lines(args.source)]
        found.lengths = whole(args.source, lengths, "source sentences")
    else:
        kind: Any = CONLLU if found.dependencies else TREES
        found.lengths = [
            p if isinstance(p, NoParse) else len(kind.tokens(p)) for p in found.dependencies or found.trees
        ]
    return found


def _check(args: argparse.Namespace) -> None:
    for option, needed in _NEEDED:
        if getattr(args, option) and not any(getattr(args, other) for other in needed):
            names = " or ".join(f"--{other}" for other in needed)
            raise ValueError(f"--{option}: expected {names} with it, found none")
    for option in ("log", "hypotheses", "dump", "sweep"):
        for one, times in Counter(map(tuple, getattr(args, option))).items():
            if times > 1:
                raise ValueError(f"--{option}: expected each seed once, found {' '.join(one)} again")

"""What the command was given, read and grouped by system."""

from __future__ import annotations

import argparse
import os
import sys
from typing import Any

from syntax_data.errors import InputError
from syntax_data.scoring.translations import read_references, read_translations, restore
from syntax_data.text.lines import read_lines, tokenize_line
from syntax_data.trees.bad_parses import BadParses
from syntax_data.trees.formats import CONLLU, FORMATS, TREES
from syntax_data.trees.tree import DependencyTree, NoParse, Tree
from syntax_experiments.plots.dumps import Dump
from syntax_experiments.plots.history import History, RunRecord, read_log, read_run
from syntax_experiments.plots.scores import Point, Texts

#: So many translations with a full stop apart are tokenised, as sacreBLEU sees it.
_TOKENIZED = 100


class Inputs:
    """All that was read; what was not given is empty.

    Attributes:
        histories: of each system the validations of its runs.
        dumps: of each system its dumps.
        references: of the test set, each of all its sentences.
        hypotheses: of each system its translations, a list a run.
        sweeps: of each axis its points.
        lengths: of each source sentence how many words it has: of the source, or else of a parse.
        trees: of each source sentence its constituency trees.
        dependencies: of each source sentence its dependency tree.
        sources: what was read, for people.
    """

    def __init__(self, args: argparse.Namespace):
        self.histories: dict[str, list[History]] = {}
        self.hypotheses: dict[str, list[Texts]] = {}
        self.sweeps: dict[str, list[Point]] = {}
        self.dumps: dict[str, list[Dump]] = {}
        self.sources: list[str] = []
        self._args = args
        self._read: dict[str, Texts] = {}
        self._check(args)
        self.references: list[Texts] = [read_references(path) for path in args.references or ()]
        for path, reference in zip(args.references or (), self.references, strict=True):
            self._check_length(path, len(reference), "references")
        records = [read_run(folder) for folder in args.run]
        for record in records:
            self._add(self.histories, record.system, record.history, f"run record {record.folder} (seed {record.seed})")
        for system, path in args.log:
            self._add(self.histories, system, read_log(path, subset=args.valid_subset), f"log {path}")
        for system, path in args.dump:
            self._add(self.dumps, system, Dump(path), f"dump {path}")
        if self.references:
            for record in records:
                if not record.tests:
                    print(f"{record.folder}: has no translations", file=sys.stderr)
                    continue
                self._add(self.hypotheses, record.system, self._of_record(record), f"translations of {record.folder}")
        for system, path in args.hypotheses:
            self._add(self.hypotheses, system, self._texts(path), f"translations {path}")
        for axis, system, value, path in args.sweep:
            texts = self._of_record(read_run(path)) if os.path.isdir(path) else self._texts(path)
            self.sweeps.setdefault(axis, []).append(Point(system, value, texts))
            self.sources.append(f"{system} at {axis} = {value}: translations {path}")
        self.trees: list[list[Tree] | NoParse] = self._parses(TREES.name)
        self.dependencies: list[DependencyTree | NoParse] = self._parses(CONLLU.name)
        if args.parses and not (self.trees or self.dependencies):
            names = " or ".join(f"{args.parses}.{name}" for name in FORMATS)
            raise InputError(args.parses, None, f"expected {names}, found neither")
        self.lengths: list[int | NoParse] = self._lengths()

    @property
    def systems(self) -> list[str]:
        """All systems, in the order in which they were given."""
        of_sweeps = (point.system for points in self.sweeps.values() for point in points)
        return list(dict.fromkeys([*self.histories, *self.hypotheses, *self.dumps, *of_sweeps]))

    def _check(self, args: argparse.Namespace) -> None:
        """Raises :class:`ValueError` for what cannot be used without something else, and for what is there twice."""
        scored = args.hypotheses or args.sweep or args.run
        used = args.source or args.parses or args.sweep
        for option, given, needed, others in (
            ("--hypotheses", args.hypotheses, "--references", args.references),
            ("--sweep", args.sweep, "--references", args.references),
            ("--hypotheses", args.hypotheses, "--source or --parses", args.source or args.parses),
            ("--references", args.references, "--hypotheses, --sweep or --run", scored),
            ("--references", args.references, "--source, --parses or --sweep", used),
            ("--sentence", args.sentence, "--dump or --parses", args.dump or args.parses),
            ("--test", args.test, "--references", args.references),
        ):
            if given and not others:
                raise ValueError(f"{option}: expected {needed} with it, found none")
        for option, given in (
            ("--log", args.log),
            ("--run", args.run),
            ("--hypotheses", args.hypotheses),
            ("--dump", args.dump),
            ("--sweep", args.sweep),
        ):
            if twice := next((one for i, one in enumerate(given) if one in given[:i]), None):
                shown = twice if isinstance(twice, str) else " ".join(twice)
                raise ValueError(f"{option}: expected each seed once, found {shown} again")

    def _add(self, to: dict[str, list[Any]], system: str, read: Any, what: str) -> None:
        to.setdefault(system, []).append(read)
        self.sources.append(f"{system}: {what}")

    def _check_length(self, path: str, found: int, what: str) -> None:
        if found != len(self.references[0]):
            expected = f"{len(self.references[0])} {what} as in {self._args.references[0]}"
            raise InputError(path, None, f"expected {expected}, found {found}")

    def _texts(self, path: str) -> Texts:
        if path in self._read:
            return self._read[path]
        args = self._args
        found = read_translations(path, len(self.references[0]))
        self._check_length(path, len(found), "translations")
        texts = restore(path, found, remove_bpe=args.remove_bpe, detokenize=args.detokenize)
        if (apart := sum(text.endswith(" .") for text in texts)) >= _TOKENIZED:
            print(f"{path}: {apart} translations end in ' .' (--detokenize LANG?)", file=sys.stderr)
        self._read[path] = texts
        return texts

    def _of_record(self, record: RunRecord) -> Texts:
        """The translations of the test set that is asked for, which are text as people read it."""
        test, found = self._args.test, ", ".join(record.tests) or "none"
        if test is None:
            if len(record.tests) != 1:
                raise InputError(record.folder, None, f"expected one test set, or --test, found {found}")
            [test] = record.tests
        elif test not in record.tests:
            raise InputError(record.folder, None, f"expected the test set {test!r}, found {found}")
        path = record.translations(test)
        texts = [line for _, line in read_lines(path)]
        self._check_length(path, len(texts), "translations")
        return texts

    def _parses(self, name: str) -> list[Any]:
        prefix = self._args.parses
        path = FORMATS[name].path(prefix) if prefix else None
        if path is None or not os.path.exists(path):
            return []
        bad = BadParses(
            self._args.on_bad_parse, lambda error: print(f"skipped ({error.reason}): {error}", file=sys.stderr)
        )
        units = FORMATS[name].entries(read_lines(path))
        found = [bad.read(FORMATS[name].parse, unit, path=path, line=line) for line, unit in units]
        if self.references:
            self._check_length(path, len(found), "parses")
        if missing := sum(isinstance(parse, NoParse) for parse in found):
            print(f"{path}: {missing} of {len(found)} sentences have no parse", file=sys.stderr)
        self.sources.append(f"parses {path}")
        return found

    def _lengths(self) -> list[int | NoParse]:
        if path := self._args.source:
            found: list[int | NoParse] = [len(tokenize_line(line)) for _, line in read_lines(path)]
            if self.references:
                self._check_length(path, len(found), "source sentences")
            self.sources.append(f"source {path}")
            return found
        kind = CONLLU if self.dependencies else TREES
        parses: list[Any] = self.dependencies or self.trees
        return [p if isinstance(p, NoParse) else len(kind.tokens(p)) for p in parses]

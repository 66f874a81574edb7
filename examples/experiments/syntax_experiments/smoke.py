"""A recipe made small: every step on made-up text and tiny models, offline, without a parser's model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from syntax_experiments.made_up import make_up
from syntax_experiments.recipe import Parser, Pictures, Recipe, Selection, System, TableOf, Threads

#: Systems, unless the command line says another number.
SYSTEMS = 4
_TRAIN: dict[str, Any] = {
    **{f"{side}-{size}": value for side in ("encoder", "decoder")
       for size, value in (("embed-dim", 32), ("ffn-embed-dim", 32), ("layers", 1), ("attention-heads", 8))},
    "max-tokens": 1000,
    "max-epoch": 2,
    "max-update": 10,
    "warmup-updates": 5,
    "update-freq": 1,
    "num-workers": 0,
}  # fmt: skip
#: Options of training that a CPU does not know, or that are bounds of long trainings.
_DROPPED = {"fp16", "bf16", "memory-efficient-fp16", "batch-size", "save-interval-updates", "validate-interval-updates"}


def small(recipe: Recipe, work: Path, *, systems: int = SYSTEMS) -> Recipe:
    """The recipe with few made-up sentences, few systems and small numbers; its files are made in `work`.

    Every file that it names is made anew, in its format and archive, and every parser of text is replaced by random
    trees. A command that makes a corpus runs, smaller if the recipe says how.

    Args:
        systems: how many at most; the first one, the first with parses and the first with a control of them come first.
    """
    kept = _systems(recipe, systems)
    baselines = [name for name in recipe.baselines if name in kept]
    train = {**{k: v for k, v in recipe.train.items() if k not in _DROPPED}, **_TRAIN}
    if "total-num-update" in train:
        train["total-num-update"] = _TRAIN["max-update"]
    return replace(
        recipe,
        about="A smoke test: made-up text and tiny models. The numbers mean nothing.",
        corpus=make_up(recipe, (work / "sources" / recipe.name).resolve()),
        systems=kept,
        parsers={name: _parser(parser) for name, parser in recipe.parsers.items()},
        select={name: _selection(of, 150 if name == "train" else 10) for name, of in recipe.select.items()},
        subsets={name: _selection(of, 5) for name, of in recipe.subsets.items()},
        subwords=replace(recipe.subwords, size=min(recipe.subwords.size, 200)),
        train=train,
        average=min(recipe.average, _TRAIN["max-epoch"]) if recipe.average else None,
        generate={**recipe.generate, "beam": 2, "max-len-a": 0, "max-len-b": 20},
        score=replace(recipe.score, metrics={}, bootstrap=10, randomisation=10),
        baselines=baselines,
        tables=_tables(recipe.tables, kept),
        pictures=None if recipe.pictures is None else _pictures(recipe.pictures, kept),
        threads=Threads(text=1, parse=1, train=1),
    )


def _systems(recipe: Recipe, number: int) -> dict[str, System]:
    """So many systems, of as many kinds as may be; the first two with two seeds."""
    kinds: dict[Any, str] = {}
    for name, system in recipe.systems.items():
        kinds.setdefault((system.architecture, system.control, system.parser, system.options.get("user-dir")), name)
    parsed = [name for name in kinds.values() if recipe.systems[name].parser != "none"]
    controlled = [name for name in parsed if recipe.systems[name].control]
    first = [*list(kinds.values())[:1], *parsed[:1], *controlled[:1]]
    chosen = list(dict.fromkeys([*first, *kinds.values(), *recipe.systems]))[:number]
    return {
        name: replace(
            system,
            seeds=[1, 2] if number > 2 and name in chosen[:2] else [1],
            train=_without_sizes(system.train),
            options=_without_sizes(system.options),
        )
        for name, system in recipe.systems.items()
        if name in chosen
    }


def _without_sizes(options: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in options.items() if name not in _TRAIN and name not in _DROPPED}


def _parser(parser: Parser) -> Parser:
    if parser.name == "files":
        return parser
    return replace(parser, name="control", options={"control": "random"}, shards=min(parser.shards, 2))


def _selection(asked: Selection, lines: int) -> Selection:
    """A few lines, of whatever size they are; they are measured all the same."""
    anything: Any = {name: [None, None] for name in asked.ranges}
    return replace(asked, **anything, each_length=None, lines=min(asked.lines or lines, lines))


def _pictures(asked: Pictures, systems: Mapping[str, System]) -> Pictures:
    """Of the systems that are kept, and of the first sentence."""
    sweeps = {
        axis: {
            label: points
            for label, of in series.items()
            if (points := {value: name for value, name in of.items() if name in systems})
        }
        for axis, series in asked.sweeps.items()
    }
    return replace(
        asked,
        systems=[name for name in asked.systems if name in systems],
        of=[name for name in asked.of if name in systems],
        sentences=asked.sentences[:1] and [1],
        sweeps={axis: series for axis, series in sweeps.items() if series},
    )


def _tables(tables: Mapping[str, TableOf], systems: Mapping[str, System]) -> dict[str, TableOf]:
    found = {}
    for title, table in tables.items():
        names = [name for name in table.systems or systems if name in systems]
        baselines = [name for name in table.baselines if name in names]
        if len(names) > 1 and baselines:
            found[title] = replace(table, systems=names, baselines=baselines)
    if tables and not {name for table in found.values() for name in table.systems} >= systems.keys():
        found["All"] = TableOf(baselines=[next(iter(systems))])
    return found

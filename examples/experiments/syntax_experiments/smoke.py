"""A recipe made small: every step on a made-up corpus and tiny models, offline."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from syntax_experiments.recipe import Corpus, Pictures, Recipe, Selection, SplitFiles, Subwords, System, Threads

#: Systems, unless the command line has another number.
SYSTEMS = 4
_GRAMMAR = Path(__file__).resolve().parent / "corpora/grammar.py"
_ATTACHMENT = _GRAMMAR.with_name("attachment.py")
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


def small(recipe: Recipe, *, systems: int = SYSTEMS) -> Recipe:
    """Return the recipe with a small corpus, few systems and small numbers.

    The quickstart's grammar, or the task of attachment, replaces the text, and its trees, or random ones, the parses.
    Of the recipe remain its systems with their options, text processing, subwords that are learned, scores and
    measurements, in one table.

    Args:
        systems: at most; the first one, the first with parses and the first with a control of them come first.
    """
    kept = _systems(recipe, systems)
    train = _without_sizes(recipe.train) | _TRAIN
    if recipe.classifies:
        dropped = ("decoder-", "markers", *(["pooling"] if recipe.subwords.markers else []))
        train = {name: value for name, value in train.items() if not name.startswith(dropped)}
        train |= {} if recipe.predicts in ("answer", "pair") else {"num-classes": 2}
    if "total-num-update" in train:
        train["total-num-update"] = _TRAIN["max-update"]
    corpus, parses = _corpus(recipe)
    return replace(
        recipe,
        about="A smoke test: a made-up corpus and tiny models. The numbers mean nothing.",
        corpus=corpus,
        text=replace(recipe.text, words=None, ratio=None),
        systems=kept,
        parsers={
            name: replace(of, files=parses) if of.files else replace(of, name="control", options={"control": "random"})
            for name, of in recipe.parsers.items()
        },
        select={name: _selection(of, 150 if name == "train" else 10) for name, of in recipe.select.items()},
        subsets={name: _selection(of, 5) for name, of in recipe.subsets.items()},
        subwords=_subwords(recipe.subwords),
        train=train,
        pretrained=None,
        average=min(recipe.average, _TRAIN["max-epoch"]) if recipe.average else None,
        generate={} if recipe.classifies else {**recipe.generate, "beam": 2, "max-len-a": 0, "max-len-b": 20},
        score=replace(recipe.score, metrics={}, bootstrap=10, randomisation=10, ignored_label=None),
        baselines=[*kept][:1],
        tables={},
        primary=None,
        pictures=recipe.pictures and Pictures(sentences=[1], of=[*kept][-1:]),
        threads=Threads(text=1, parse=1, train=1),
    )


def _corpus(recipe: Recipe) -> tuple[Corpus, dict[str, str]]:
    """Return a made-up corpus, and the prefixes of its parses by split."""
    # It has train, valid and test; a valid split that is a part of the training text stays one.
    splits, part = recipe.corpus.splits, {"train": "train", "valid": "valid"}
    if splits["valid"].files == splits["train"].files:
        part["valid"] = "train"
    files = {name: part.get(name, "test") for name in splits}
    if recipe.classifies:
        kind = {"option": "ranking", "answer": "spans"}.get(recipe.predicts, "label")
        texts = ["input0", "input1", "input2"] if kind == "ranking" else recipe.texts["inputs"]
        segments = len(texts) if kind == "label" else 1
        texts = texts if recipe.predicts == "pair" else [*texts, "label"]
        options = f"--kind {kind} --segments {segments} --train {300 // segments} --held-out 5"
        of_texts = {name: {text: [f"{file}.{text}"] for text in texts} for name, file in files.items()}
        if kind == "spans":
            of_texts = {name: {"questions": [f"{file}.json"]} for name, file in files.items()}
        made = {name: SplitFiles(**of_split) for name, of_split in of_texts.items()}  # type: ignore[arg-type]
        return Corpus(made, command=f"python {shlex.quote(str(_ATTACHMENT))} {options} {{output}}"), files
    command = f"python {shlex.quote(str(_GRAMMAR))} --train 300 --held-out 5 --seed 1 {{output}}"
    made = {
        name: replace(
            of, source=[f"true/{files[name]}.src"], target=[f"true/{files[name]}.tgt"], reference=None, format="lines"
        )
        for name, of in splits.items()
    }
    return Corpus(made, command=command), {name: f"true/{file}.src" for name, file in files.items()}


def _subwords(asked: Subwords) -> Subwords:
    """Return few subwords; of a pre-trained model's kind, words instead, without markers."""
    if asked.files:
        return Subwords("none", joint=asked.joint)
    most = 50 if asked.kind == "sentencepiece" else 80  # it refuses more than the text has
    return replace(asked, size=min(asked.size, most), markers="")


def _systems(recipe: Recipe, number: int) -> dict[str, System]:
    """N systems, of as many kinds as possible; the first two with two seeds."""
    kinds: dict[Any, str] = {}
    for name, system in recipe.systems.items():
        controls = system.control, system.test_control
        kinds.setdefault((system.architecture, *controls, system.parser, system.options.get("user-dir")), name)
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


def _selection(asked: Selection, lines: int) -> Selection:
    """A few lines of any size."""
    unbounded: Any = {name: [None, None] for name in asked.ranges}
    return replace(asked, **unbounded, per_length=None, lines=min(asked.lines or lines, lines))

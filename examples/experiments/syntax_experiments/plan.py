"""What a recipe makes: artefacts, each in a folder named by all that it depends on.

An artefact's key is a hash of its kind, its settings and the keys of what it is made of. So a changed option makes
anew what it concerns and nothing else, and two recipes share what they have in common. Test sets are no part of what a
training depends on, nor other splits of what a split's parses depend on. Nor is this program's and its packages' code:
run records tell their versions and hash.
"""

from __future__ import annotations

import copy
import dataclasses
import glob
import gzip
import hashlib
import json
import os
import shlex
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from syntax_data.errors import InputError
from syntax_data.parsers.record import file_hash
from syntax_experiments.code import module_hashes
from syntax_experiments.recipe import Download, Parser, Recipe, System, folder_of, with_here
from syntax_experiments.tables import table_settings

#: Is part of every key: another number, where the steps change what they make.
VERSION = 1


@dataclass(frozen=True)
class Artefact:
    """What one step makes.

    Attributes:
        kind: name of the step.
        settings: all that it depends on beside `inputs`; JSON.
        inputs: what it is made of, by name.
        label: for people.
        places: where things lie here; they do not change what comes out.
        threads: cores that making it takes.
        gpus: that it takes, if there are some.
        priority: what is greater is made first.
        identity: what stands for `inputs` in the key, where it depends on less than they are.
    """

    kind: str
    settings: Mapping[str, Any]
    inputs: Mapping[str, Artefact] = field(default_factory=dict)
    label: str = ""
    places: Mapping[str, Any] = field(default_factory=dict)
    threads: int = 1
    gpus: int = 0
    priority: int = 1_000_000  # what trainings wait for comes before them
    identity: Mapping[str, Artefact] | None = None
    key: str = field(init=False)

    def __post_init__(self) -> None:
        made_of = self.inputs if self.identity is None else self.identity
        parts = [VERSION, self.kind, self.settings, {name: a.key for name, a in made_of.items()}]
        text = json.dumps(parts, sort_keys=True, ensure_ascii=False)
        object.__setattr__(self, "key", hashlib.sha256(text.encode()).hexdigest()[:16])

    @property
    def path(self) -> str:
        """Its folder, in the folder of all work."""
        return f"{self.kind}/{self.key}"

    @property
    def spec(self) -> dict[str, Any]:
        """What the step is told."""
        return {
            "kind": self.kind,
            "key": self.key,
            "label": self.label,
            "settings": self.settings,
            "inputs": {name: a.path for name, a in self.inputs.items()},
            "places": self.places,
            "threads": self.threads,
            "gpus": self.gpus,
            "priority": self.priority,
        }


@dataclass
class Plan:
    """The artefacts of a recipe.

    Attributes:
        runs: by system and seed.
        scores: of them.
        measurements: by system, seed and name.
        comparisons: by system, baseline and seed.
        so_far: it has only what is there already.
    """

    recipe: Recipe
    runs: dict[tuple[str, int], Artefact]
    scores: dict[tuple[str, int], Artefact]
    measurements: dict[tuple[str, int, str], Artefact]
    comparisons: dict[tuple[str, str, int], Artefact]
    table: Artefact
    pictures: Artefact | None
    so_far: bool = False

    @property
    def targets(self) -> list[Artefact]:
        """What is to be there at the end."""
        return [self.table, *([self.pictures] if self.pictures else [])]

    @property
    def artefacts(self) -> list[Artefact]:
        """All, each once, what they are made of before them."""
        return self.needed()

    def needed(self, there: Set[str] = frozenset()) -> list[Artefact]:
        """What is to be made where the paths `there` are made, each once, what they are made of before them.

        What a thing that is there was made of is not needed.
        """
        found: dict[str, Artefact] = {}

        def add(artefact: Artefact) -> None:
            if artefact.path not in there and artefact.path not in found:
                for source in artefact.inputs.values():
                    add(source)
                found[artefact.path] = artefact

        for target in self.targets:
            add(target)
        return list(found.values())


def make_plan(recipe: Recipe, *, only: set[tuple[str, int]] | None = None) -> Plan:
    """Plans a recipe.

    Args:
        only: the runs, by system and seed, that the table is to have; ``None``: all.

    Raises:
        InputError: a file that is to be read is not there.
    """
    prepared = _prepared(recipe)
    text, parses = prepared.text, prepared.parses
    of_training = _prepared(_of_splits(recipe, ("train", "valid")))
    measured = Artefact("subsets", _subsets(recipe), {"text": text, **_first(parses)}, "subsets of the test sets")
    runs = {}
    for name, system in recipe.systems.items():
        for seed in system.seeds or recipe.seeds:
            if only is None or (name, seed) in only:
                data, trained_on = prepared.data(system, seed), of_training.data(system, seed)
                runs[name, seed] = _run(recipe, name, system, seed, data, trained_on, text)
    scoring, commands = _scoring(recipe)
    with_parts = {"text": text, "subsets": measured}
    scores = {
        at: Artefact("scores", scoring, {"run": run, **with_parts}, f"scores of {run.label}", commands)
        for at, run in runs.items()
    }
    asked = {name: _command(recipe, told, f"measurements.{name}") for name, told in recipe.measurements.items()}
    measurements = {
        (*at, name): _measurement(name, *told, run, measured)
        for at, run in runs.items()
        for name, told in asked.items()
    }
    if only is not None:  # a model that was measured elsewhere is not here
        there = existing(list(measurements.values()), ".")
        measurements = {at: found for at, found in measurements.items() if found.path in there}
    comparisons = {
        (name, baseline, seed): Artefact(
            "comparisons",
            scoring,
            {"system": runs[name, seed], "baseline": runs[baseline, seed], "text": text},
            f"{name} beside {baseline}, seed {seed}",
        )
        for name, baseline in _compared(recipe)
        for seed in (seed for of, seed in runs if of == name)
        if (baseline, seed) in runs
    }
    inputs = {
        **{f"run {name} {seed}": run for (name, seed), run in runs.items()},
        **{f"scores {name} {seed}": found for (name, seed), found in scores.items()},
        **{f"measurement {name} {seed} {of}": found for (name, seed, of), found in measurements.items()},
        **{f"comparison {a} {b} {seed}": c for (a, b, seed), c in comparisons.items()},
        "text": text,
        "subsets": measured,
    }
    table = Artefact("tables", table_settings(recipe), inputs, f"table of {recipe.name}")
    pictures = _pictures(recipe, runs, text, _first(parses), so_far=only is not None) if recipe.pictures else None
    return Plan(recipe, runs, scores, measurements, comparisons, table, pictures, so_far=only is not None)


@dataclass(frozen=True)
class _Prepared:
    """Text, and what is made of it for fairseq."""

    recipe: Recipe
    text: Artefact
    parses: Mapping[str, Mapping[str, Artefact]]
    subwords: Artefact
    tokens: Artefact

    def data(self, system: System, seed: int) -> Artefact:
        """The data-bin of a system; controls may differ from seed to seed."""
        name = system.parser or next(iter(self.parses), "none")
        if name == "none":
            return self.tokens
        control = system.control and system.control.replace("{seed}", str(seed))
        settings = {"control": control, "subwords": self.recipe.subwords.kind, "tests": self.recipe.tests}
        inputs = {"tokens": self.tokens, "subwords": self.subwords}
        inputs |= {f"parses of {split}": artefact for split, artefact in self.parses[name].items()}
        parses = f"parses {name}" if len(self.parses) > 1 else "the parses"
        label = f"data-bin, {control or parses}"
        return Artefact("data", settings | _languages(self.recipe), inputs, label, threads=self.recipe.threads.text)


def _prepared(recipe: Recipe) -> _Prepared:
    base = _text(recipe)
    parses = {name: _parses(recipe, name, base) for name in _parsers_in_use(recipe)}
    text, parses = _selected(recipe, base, parses)
    languages = _languages(recipe)
    subwords = Artefact("subwords", {"subwords": _told(recipe.subwords)} | languages, {"text": text}, "subwords")
    settings = {"tests": recipe.tests, "joint": recipe.subwords.joint} | languages
    tokens = Artefact("tokens", settings, {"subwords": subwords}, "data-bin without parses")
    return _Prepared(recipe, text, parses, subwords, tokens)


def _of_splits(recipe: Recipe, splits: Sequence[str]) -> Recipe:
    """The recipe of some of its splits alone, as what is made of these depends on it."""
    corpus = copy.copy(recipe.corpus)  # not dataclasses.replace, which would ask for test sets
    kept = {name: recipe.corpus.splits[name] for name in splits}
    object.__setattr__(corpus, "splits", kept)
    named = {file.partition("!")[0] for split in kept.values() for file in split.files}
    object.__setattr__(corpus, "downloads", {n: d for n, d in recipe.corpus.downloads.items() if n in named})
    reduced = copy.copy(recipe)
    object.__setattr__(reduced, "corpus", corpus)
    object.__setattr__(reduced, "select", {name: s for name, s in recipe.select.items() if name in splits})
    return reduced


def _pictures(
    recipe: Recipe,
    runs: Mapping[tuple[str, int], Artefact],
    text: Artefact,
    parses: Mapping[str, Artefact],
    *,
    so_far: bool,
) -> Artefact:
    assert recipe.pictures is not None
    inputs = {f"run {name} {seed}": run for (name, seed), run in runs.items()} | {"text": text, **parses}
    for name in recipe.pictures.of:
        first = next((run for (of, _), run in runs.items() if of == name), None)
        if first is not None and not (so_far and not existing([first.inputs["model"]], ".")):
            inputs |= {f"model {name}": first.inputs["model"], f"data {name}": first.inputs["data"]}
    settings = {
        "title": recipe.title or recipe.name,
        "labels": recipe.full_labels,
        "pictures": _told(recipe.pictures),
        "score": _told(recipe.score),
        "tests": recipe.tests,
    } | _languages(recipe)
    return Artefact("pictures", settings, inputs, f"pictures of {recipe.name}")


def _compared(recipe: Recipe) -> list[tuple[str, str]]:
    """The pairs of a system and its baseline in some table, each once."""
    return list(
        dict.fromkeys(
            (name, baseline)
            for table in recipe.of_tables.values()
            for baseline in table.baselines
            for name in table.systems or recipe.systems
            if name != baseline
        )
    )


def _told(value: Any) -> dict[str, Any]:
    """What a part of a recipe says, less what it leaves at the default: a new key does not change old artefacts."""
    fields = {f.name: f for f in dataclasses.fields(value)}
    told = dataclasses.asdict(value)
    return {name: v for name, v in told.items() if v != _default(fields[name])}


def _default(field: dataclasses.Field[Any]) -> Any:
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    return field.default


def _languages(recipe: Recipe) -> dict[str, Any]:
    return {"source": recipe.source, "target": recipe.target}


def _text(recipe: Recipe) -> Artefact:
    corpus = recipe.corpus
    downloads = {name: _download(name, asked) for name, asked in corpus.downloads.items()}
    folder = folder_of(recipe)
    inputs = dict(downloads)
    if corpus.command is not None:
        settings, places = _command(recipe, corpus.command, "corpus.command")
        inputs["generated"] = Artefact("generated", settings, label="corpus", places=places)
    local = {
        file: _hash_of(folder, file)
        for file in _files_of(recipe)
        if folder is not None and file.partition("!")[0] not in downloads
    }
    told = {name: _told(split) for name, split in corpus.splits.items()}
    every = {
        name: {k: split.pop(k) for k in ("every", "but_every", "limits") if k in split} for name, split in told.items()
    }
    settings = {"splits": told, "files": local}
    raw = Artefact("corpus", settings | _languages(recipe), inputs, "raw text", places={"folder": folder})
    settings = {"text": _told(recipe.text)} | _languages(recipe)
    if any(every.values()):
        settings["every"] = every
    return Artefact("text", settings, {"corpus": raw}, "tokenised text", threads=recipe.threads.text)


def _command(recipe: Recipe, command: str, key: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """What depends on a command that stands under a key of the recipe, its scripts included, and what it is here."""
    words = [(told, with_here(recipe, told, key)) for told in shlex.split(command)]
    scripts = {told: file_hash(word) for told, word in words if os.path.isfile(word)}
    here = " ".join(word if shlex.split(word) == [word] else shlex.quote(word) for _, word in words)
    return {"command": command, "scripts": scripts}, {"command": here}


def _download(name: str, asked: Download) -> Artefact:
    known = {"sha256": asked.sha256, "md5": asked.md5}
    # A file whose hash is known is the same wherever it lies.
    settings = {"name": asked.file_name, **known} if any(known.values()) else {"url": asked.url}
    return Artefact("downloads", settings, label=f"download of {name}", places={"download": _told(asked)})


def _files_of(recipe: Recipe) -> list[str]:
    return [file for split in recipe.corpus.splits.values() for file in split.files]


def _hash_of(folder: str, file: str) -> str:
    path = os.path.join(folder, file)
    if not os.path.isfile(path):
        raise InputError(path, None, "expected a file of the corpus, found none")
    return _content_hash(path, os.stat(path).st_mtime_ns)


@cache
def _content_hash(path: str, changed: int) -> str:
    """The hash of what is in a file, unpacked: how it was packed does not matter."""
    with gzip.open(path) if path.endswith(".gz") else open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()  # type: ignore[arg-type]


def _parsers_in_use(recipe: Recipe) -> list[str]:
    default = next(iter(recipe.parsers), None)
    used = {system.parser or default for system in recipe.systems.values()} - {"none", None}
    if default is not None and (recipe.subsets or recipe.select):
        used.add(default)
    return [name for name in recipe.parsers if name in used]


def _parses(recipe: Recipe, name: str, text: Artefact) -> dict[str, Artefact]:
    """The parses of each split."""
    parser = recipe.parsers[name]
    make = _parses_from_files if parser.name == "files" else _parses_by_parser
    return {split: make(recipe, parser, split, text) for split in recipe.corpus.splits}


def _parses_from_files(recipe: Recipe, parser: Parser, split: str, text: Artefact) -> Artefact:
    prefix = parser.files[split]
    settings: dict[str, Any] = {"split": split, "lang": recipe.source, "kinds": parser.kinds, "files": prefix}
    inputs = {"text": text}
    folder = folder_of(recipe)
    if recipe.corpus.command is not None:
        inputs["generated"] = text.inputs["corpus"].inputs["generated"]
    else:
        paths = {kind: _parse_file(folder, prefix, kind) for kind in parser.kinds}
        settings["hashes"] = {kind: _content_hash(path, os.stat(path).st_mtime_ns) for kind, path in paths.items()}
    identity = _identity_of_split(recipe, split)
    return Artefact("parses", settings, inputs, f"parses of {split}", {"folder": folder}, identity=identity)


def _stanza_version(recipe: Recipe) -> str:
    try:
        return version("stanza")
    except PackageNotFoundError as error:
        message = "the recipe parses by stanza, which is not installed: pip install 'fairseq-syntax[stanza]'"
        raise InputError(recipe.name, None, message) from error


def _parses_by_parser(recipe: Recipe, parser: Parser, split: str, text: Artefact) -> Artefact:
    places: dict[str, Any] = {}
    settings: dict[str, Any] = {"split": split, "lang": recipe.source, "kinds": parser.kinds, "parser": parser.name}
    settings["options"] = _expanded(parser.options, places)
    if parser.name == "stanza":
        settings["stanza"] = _stanza_version(recipe)  # another one has other models
    label, threads = f"parses of {split}", recipe.threads.parse
    identity = _identity_of_split(recipe, split)
    whole = Artefact("parses", settings, {"text": text}, label, places, threads, identity=identity)
    if parser.shards == 1:
        return whole
    shards = {
        f"shard {i}": Artefact(
            "shards",
            {**settings, "shard": i, "shards": parser.shards},
            {"text": text},
            f"{label}, shard {i}",
            {**places, "parses": whole.path},
            threads,
            identity=identity,
        )
        for i in range(parser.shards)
    }
    # In however many shards they were made, the parses are the same.
    places = {**places, "shards": parser.shards}
    return Artefact("parses", settings, {"text": text, **shards}, label, places, threads, identity=identity)


def _identity_of_split(recipe: Recipe, split: str) -> dict[str, Artefact]:
    return {"text": _text(_of_splits(recipe, (split,)))}


#: Options of parsers that do not change parses.
_OF_THIS_MACHINE = {"download", "stanza-dir", "device"}


def _expanded(options: Mapping[str, Any], places: dict[str, Any]) -> dict[str, Any]:
    """Options without those that say where things are done here, which go to `places`."""
    here = {
        name: os.path.expandvars(v) if isinstance(v, str) else v
        for name, v in options.items()
        if name in _OF_THIS_MACHINE
    }
    for name, value in here.items():
        if isinstance(value, str) and "$" in value:
            raise ValueError(f"parsers: expected the environment to say where {name} is: {value}")
    if here:
        places["options"] = here
    return {name: value for name, value in _given(options).items() if name not in here}


def _parse_file(folder: str | None, prefix: str, kind: str) -> str:
    path = os.path.join(folder or "", f"{prefix}.{kind}")
    for candidate in (path, f"{path}.gz"):
        if os.path.isfile(candidate):
            return candidate
    raise InputError(path, None, "expected a file of parses, found none")


def _selected(
    recipe: Recipe, text: Artefact, parses: dict[str, dict[str, Artefact]]
) -> tuple[Artefact, dict[str, dict[str, Artefact]]]:
    if not recipe.select:
        return text, parses
    settings = {"select": {name: _told(s) for name, s in recipe.select.items()}, "splits": list(recipe.corpus.splits)}
    settings |= _languages(recipe)
    lines = Artefact("selections", settings, {"text": text, **_first(parses)}, "selection of lines")

    def chosen(what: str, artefact: Artefact, **more: str) -> Artefact:
        inputs = {what: artefact, "lines": lines}
        return Artefact("selected", {"what": what, **more, **settings}, inputs, f"selected {artefact.label}")

    return chosen("text", text), {
        name: {split: chosen("parses", p, split=split) for split, p in of_parser.items()}
        for name, of_parser in parses.items()
    }


def _first(parses: Mapping[str, Mapping[str, Artefact]]) -> dict[str, Artefact]:
    """The parses of the first parser, by split."""
    of_first = next(iter(parses.values()), {})
    return {f"parses of {split}": artefact for split, artefact in of_first.items()}


def _subsets(recipe: Recipe) -> dict[str, Any]:
    settings = {"subsets": {name: _told(s) for name, s in recipe.subsets.items()}, "tests": recipe.tests}
    return settings | _languages(recipe)


def _run(
    recipe: Recipe, name: str, system: System, seed: int, data: Artefact, trained_on: Artefact, text: Artefact
) -> Artefact:
    given = {**recipe.train, **system.train, **system.options, "arch": system.architecture, "seed": seed}
    options = _given(given)
    seeds = system.seeds or recipe.seeds
    cost: dict[str, Any] = {"threads": recipe.threads.train, "gpus": recipe.threads.gpus}
    # Seed by seed, and systems as the recipe has them, so that what is there early can be compared.
    cost["priority"] = 1000 * (len(seeds) - seeds.index(seed)) - list(recipe.systems).index(name)
    code, places = _user_dir(recipe, name, options)
    kept = {"keep_epochs": True} if recipe.keep_epochs else {}
    training = Artefact(
        "models",
        {"options": options, "average": recipe.average} | code | kept | _languages(recipe),
        {"data": data},
        f"training of {name}, seed {seed}",
        places,
        identity={"data": trained_on},
        **cost,
    )
    settings = {
        "generate": _given(recipe.generate),
        "tests": recipe.tests,
        "subwords": recipe.subwords.kind,
        "detokenize": recipe.score.detokenize,
        **({"tokens": True} if recipe.score.tokenized else {}),
    } | _languages(recipe)
    return Artefact(
        "runs",
        settings,
        {"model": training, "data": data, "text": text},
        f"translations by {name}, seed {seed}",
        {"system": name, "seed": seed, **places},  # no part of the key: a system may be called otherwise elsewhere
        **{**cost, "priority": 100_000},
    )


def _given(options: Mapping[str, Any]) -> dict[str, Any]:
    """Options less those that were taken away."""
    return {name: value for name, value in options.items() if value is not None}


def _user_dir(recipe: Recipe, system: str, options: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The code in the folder that the option user-dir names, if there is one, and where it is here."""
    if "user-dir" not in options:
        return {}, {}
    keys = (*(f"systems.{system}.{part}.user-dir" for part in ("options", "train")), "train.user-dir")
    path = with_here(recipe, options["user-dir"], *keys)
    return {"code": module_hashes(path)}, {"options": {"user-dir": path}}


def _measurement(
    name: str, settings: Mapping[str, Any], places: Mapping[str, Any], run: Artefact, subsets: Artefact
) -> Artefact:
    inputs = {what: run.inputs[what] for what in ("model", "data")}
    if "{subsets}" in settings["command"]:  # others do not depend on them
        inputs["subsets"] = subsets
    return Artefact(
        "measurements",
        settings,
        inputs,
        f"{name} of {run.inputs['model'].label}",
        places,
        threads=run.threads,
        gpus=run.gpus,
        priority=run.priority,
    )


def _scoring(recipe: Recipe) -> tuple[dict[str, Any], dict[str, Any]]:
    """What scores and comparisons depend on, and the commands of the recipe's own metrics as they are here."""
    settings = {"score": _told(recipe.score), "tests": recipe.tests, "sacrebleu": version("sacrebleu")}
    own = {name: _command(recipe, told, f"score.metrics.{name}") for name, told in recipe.score.metrics.items()}
    if own:
        settings["own"] = {name: of for name, (of, _) in own.items()}
    return settings | _languages(recipe), {"metrics": {name: here["command"] for name, (_, here) in own.items()}}


def existing(artefacts: Sequence[Artefact], work: str) -> set[str]:
    """The paths of those that are made."""
    made = {os.path.relpath(os.path.dirname(p), work) for p in glob.glob(os.path.join(work, "*", "*", "made.json"))}
    return made & {artefact.path for artefact in artefacts}

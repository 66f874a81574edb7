"""The plan of a recipe: targets, each in a folder named by a hash.

A target's key is a hash of its kind, its settings and the keys of its inputs. So a changed option makes again what it
concerns and nothing else, and two recipes share what they have in common. A training does not depend on test sets, nor
a split's parses on other splits. Nor is the code of these packages part of a key: run records have its hash.
"""

from __future__ import annotations

import dataclasses
import glob
import gzip
import hashlib
import importlib.util
import json
import os
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from syntax_data.errors import InputError
from syntax_data.parsers.record import file_hash
from syntax_experiments.make import is_made
from syntax_experiments.recipe import OF_WORDS, Download, Recipe, System, expanded, folder_of, with_here
from syntax_experiments.texts import parse_prefixes, parsed_texts

#: Part of every key; count it up where a step changes its output.
VERSION = 2
#: Options of parsers that do not change parses.
_OF_THIS_MACHINE = {"download", "stanza-dir", "device"}
#: Targets by a name.
_Targets = dict[str, "Target"]


@dataclass(frozen=True)
class Target:
    """A folder that one step makes."""

    kind: str  # name of the step
    settings: Mapping[str, Any]  # all that it depends on beside `inputs`; JSON
    inputs: Mapping[str, Target] = field(default_factory=dict)  # targets that the step reads, by name
    label: str = ""  # for people
    local: Mapping[str, Any] = field(default_factory=dict)  # paths, commands and names as here; no part of the key
    threads: int = 1  # cores of the job
    gpus: int = 0  # of the job, where there are some
    priority: int = 1_000_000  # the greatest is made first; by default before all trainings
    identity: Mapping[str, Target] | None = None  # replaces `inputs` in the key, where the target depends on less
    key: str = field(init=False)

    def __post_init__(self) -> None:
        depends_on = self.inputs if self.identity is None else self.identity
        parts = [VERSION, self.kind, self.settings, {name: target.key for name, target in depends_on.items()}]
        text = json.dumps(parts, sort_keys=True, ensure_ascii=False)
        object.__setattr__(self, "key", hashlib.sha256(text.encode()).hexdigest()[:16])

    @property
    def path(self) -> str:
        """The folder, in the work directory."""
        return f"{self.kind}/{self.key}"

    @property
    def spec(self) -> dict[str, Any]:
        """The specification that Snakemake and the step read; JSON."""
        inputs = {name: target.path for name, target in self.inputs.items()}
        names = ("kind", "key", "label", "settings", "local", "threads", "gpus", "priority")
        return {"inputs": inputs, **{name: getattr(self, name) for name in names}}


@dataclass(frozen=True)
class Plan:
    """The targets of a recipe."""

    recipe: Recipe
    runs: Mapping[tuple[str, int], Target]  # by system and seed
    table: Target
    pictures: Target | None
    partial: bool  # only the runs that are made already

    @property
    def wanted(self) -> list[Target]:
        """The targets of the end: table and pictures."""
        return [self.table, *([self.pictures] if self.pictures else [])]

    @property
    def targets(self) -> list[Target]:
        """All targets, each once, inputs first."""
        found: _Targets = {}

        def add(target: Target) -> None:
            if target.path not in found:
                for source in target.inputs.values():
                    add(source)
                found[target.path] = target

        for target in self.wanted:
            add(target)
        return list(found.values())


def make_plan(recipe: Recipe, *, partial: bool = False) -> Plan:
    """Plan a recipe; `partial`: only with the runs and measurements that are made, in the current folder.

    Raises:
        InputError: a file that is to be read is not there.
    """
    from syntax_experiments.tables import table_settings  # pandas takes a second

    prepared = _Prepared(recipe, list(recipe.corpus.splits))
    for_training = _Prepared(recipe, ["train", "valid"])
    runs = {
        (name, seed): _run(recipe, name, seed, prepared, for_training)
        for name, system in recipe.systems.items()
        for seed in system.seeds or recipe.seeds
    }
    if partial:
        runs = {at: run for at, run in runs.items() if is_made(run.path)}
    settings = {"subsets": {name: changed(s) for name, s in recipe.subsets.items()}, "tests": recipe.tests}
    sources = {"text": prepared.text, **prepared.first_parses}
    subsets = Target("subsets", settings | recipe.texts, sources, "subsets of the test sets")
    inputs = {f"run {name} {seed}": run for (name, seed), run in runs.items()}
    inputs |= _scores(recipe, runs, prepared.text, subsets)
    shared = {"subsets": subsets, "text": prepared.text, "subwords": prepared.subwords}
    for name, measurement in _measurements(recipe, runs, shared).items():
        if not partial or is_made(measurement.path):  # its model may be gone
            inputs[name] = measurement
    inputs |= _comparisons(recipe, runs, prepared.text)
    inputs |= {"text": prepared.text, "subsets": subsets}
    table = Target("tables", table_settings(recipe), inputs, f"table of {recipe.name}")
    return Plan(recipe, runs, table, _pictures(recipe, runs, prepared, partial) if recipe.pictures else None, partial)


def changed(value: Any) -> dict[str, Any]:
    """Return the fields that differ from their defaults: a new key changes no hash."""
    defaults = {
        one.name: one.default if one.default_factory is dataclasses.MISSING else one.default_factory()
        for one in dataclasses.fields(value)
    }
    return {name: of for name, of in dataclasses.asdict(value).items() if of != defaults[name]}


class _Prepared:
    """Text, data-bins and parses (by parser and name as an input) of splits."""

    def __init__(self, recipe: Recipe, splits: Sequence[str]):
        self.recipe = recipe
        self.text = _text(recipe, splits)
        self.parses: dict[str, _Targets] = {}
        parsers = _parsers_in_use(recipe)
        # What is parsed here is selected first, as parsing takes longest, unless the parse decides.
        first = not any(of.of_parses for of in recipe.select.values()) and all(
            recipe.parsers[name].name != "files" for name in parsers
        )
        if recipe.select and first:
            self._select(splits)
        self.parses = {
            name: {f"parses of {split}": _parses(recipe, name, split, self.text) for split in splits}
            for name in parsers
        }
        if recipe.select and not first:
            self._select(splits)
        self.files = {
            key: expanded(recipe, path, f"subwords.{key}") for key, path in sorted(recipe.subwords.files.items())
        }
        given = changed(recipe.subwords)
        hashes = {key: _hash(Path(path)) for key, path in self.files.items()}
        settings: dict[str, Any] = {"subwords": {key: given[key] for key in given.keys() - hashes.keys()}}
        settings |= {"hashes": hashes} if hashes else {}
        local = {"files": self.files} if hashes else {}
        self.subwords = Target("subwords", settings | recipe.texts, {"text": self.text}, "subwords", local)
        self.tests = [name for name in recipe.tests if name in splits]
        settings = {"joint": recipe.subwords.joint, "tests": self.tests}
        inputs = {"subwords": self.subwords}
        if recipe.classifies:
            # As text: numbers, and those of options.
            settings["regression"] = bool(recipe.train.get("regression-target")) or recipe.task == "sentence_ranking"
            inputs["text"] = self.text
        self.tokens = Target("tokens", settings | recipe.texts, inputs, "data-bin without parses")

    @property
    def first_parses(self) -> _Targets:
        """Those of the first parser."""
        return next(iter(self.parses.values()), {})

    def data(self, system: System, seed: int) -> Target:
        """The data-bin of a system; controls may differ from seed to seed."""
        name = system.parser or next(iter(self.parses), "none")
        if name == "none":
            return self.tokens
        control = system.control and system.control.replace("{seed}", str(seed))
        subwords = self.recipe.subwords
        settings = {"control": control, "subwords": subwords.kind, "tests": self.tests}
        settings |= {"markers": subwords.markers} if subwords.markers else {}
        local = {"encoder": self.files["encoder"]} if "encoder" in self.files else {}
        inputs = {"tokens": self.tokens, "subwords": self.subwords}
        if name == OF_WORDS:
            settings |= {"features": "word,case,position"}
        else:
            inputs |= self.parses[name]
        what = name if name == OF_WORDS else f"parses {name}" if len(self.parses) > 1 else "the parses"
        label = f"data-bin, {control or what}"
        return Target("data", settings | self.recipe.texts, inputs, label, local, threads=self.recipe.threads.text)

    def _select(self, splits: Sequence[str]) -> None:
        """Replace text and parses by their selected lines."""
        select = {name: changed(of) for name, of in self.recipe.select.items() if name in splits}
        settings = {"select": select} | self.recipe.texts
        lines = Target("selections", settings, {"text": self.text, **self.first_parses}, "selection of lines")

        def selected(what: str, target: Target, **more: str) -> Target:
            inputs = {what: target, "lines": lines}
            return Target("selected", settings | {"what": what, **more}, inputs, f"selected {target.label}")

        self.text = selected("text", self.text)
        self.parses = {
            name: {at: selected("parses", target, split=target.settings["split"]) for at, target in of.items()}
            for name, of in self.parses.items()
        }


def _text(recipe: Recipe, splits: Sequence[str]) -> Target:
    corpus = recipe.corpus
    files = [file for split in splits for file in corpus.splits[split].files]
    archives = {file.partition("!")[0] for file in files}
    inputs = {name: _download(name, asked) for name, asked in corpus.downloads.items() if name in archives}
    folder = folder_of(recipe)
    local = {} if folder is None else {f: _hash(Path(folder, f)) for f in files if f.partition("!")[0] not in inputs}
    if corpus.command is not None:
        settings, here = _command(recipe, corpus.command, "corpus.command", expanded)
        inputs["generated"] = Target("generated", settings, label="corpus", local={"command": here})
    sources = {name: changed(corpus.splits[name]) for name in splits}
    chosen = {
        name: {key: of.pop(key) for key in ("keep_every", "drop_every", "limits") if key in of}
        for name, of in sources.items()
    }
    settings = {"splits": sources, "files": local} | recipe.texts
    raw = Target("corpus", settings, inputs, "raw text", {"folder": folder})
    if recipe.classifies:
        return raw
    settings = {"text": changed(recipe.text), "chosen": chosen} | recipe.texts
    return Target("text", settings, {"corpus": raw}, "tokenised text", threads=recipe.threads.text)


def _command(
    recipe: Recipe, command: str, key: str, filled: Callable[[Recipe, str, str], str] = with_here
) -> tuple[dict[str, Any], str]:
    """Return settings of a command, with hashes of its scripts; and the command as here, each word `filled`."""
    words = [(word, filled(recipe, word, key)) for word in shlex.split(command)]
    scripts = {word: file_hash(path) for word, path in words if os.path.isfile(path)}
    here = " ".join(path if shlex.split(path) == [path] else shlex.quote(path) for _, path in words)
    return {"command": command, "scripts": scripts}, here


def _download(name: str, asked: Download) -> Target:
    known = {"sha256": asked.sha256, "md5": asked.md5}
    # A file of a known hash is the same at every address.
    settings = {"name": asked.file_name, **known} if any(known.values()) else {"url": asked.url}
    return Target("downloads", settings, label=f"download of {name}", local={"download": changed(asked)})


@cache
def _hash(path: Path) -> str:
    """SHA-256 of a file's content, unpacked: how it is packed does not matter."""
    if not path.is_file():
        raise InputError(str(path), None, "expected a file of the corpus, found none")
    with gzip.open(path) if path.suffix == ".gz" else open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()  # type: ignore[arg-type]


def _parsers_in_use(recipe: Recipe) -> list[str]:
    default = next(iter(recipe.parsers), None)
    used = {system.parser or default for system in recipe.systems.values()}
    return [name for name in recipe.parsers if name in used or (name == default and (recipe.subsets or recipe.select))]


def _parses(recipe: Recipe, name: str, split: str, text: Target) -> Target:
    """Return the parses of a split, by a parser or from files."""
    parser, threads = recipe.parsers[name], 1
    settings: dict[str, Any] = {"split": split, "lang": recipe.source, "kinds": parser.kinds}
    settings |= recipe.texts if recipe.classifies else {}
    settings |= {"select": changed(recipe.select[split])} if text.kind == "selected" and split in recipe.select else {}
    local: dict[str, Any] = {}
    inputs = {"text": text}
    if parser.name != "files":
        options = _given(parser.options)
        local["options"] = {}
        for option in _OF_THIS_MACHINE & {*options}:
            value = expanded(recipe, options.pop(option), f"parsers.{name}.options.{option}")
            local["options"][option] = value
        settings |= {"parser": parser.name, "options": options}
        threads = recipe.threads.parse
        if parser.name == "stanza":
            settings["stanza"] = _stanza_version(recipe)  # another one has other models
    else:
        settings["files"] = prefix = parser.files[split]
        if recipe.corpus.command is not None:
            inputs["generated"] = (text if recipe.classifies else text.inputs["corpus"]).inputs["generated"]
        else:
            local["folder"] = folder_of(recipe) or ""
            settings["hashes"] = {
                ending: _hash(path if path.exists() else path.with_name(f"{path.name}.gz"))
                for ending, path in _parse_files(recipe, prefix, parser.kinds, local["folder"])
            }
    identity = {"text": _text(recipe, [split])}
    return Target("parses", settings, inputs, f"parses of {split}", local, threads, identity=identity)


def _parse_files(recipe: Recipe, files: str, kinds: Sequence[str], folder: str) -> Iterator[tuple[str, Path]]:
    """Yield the files of a split's parses, with the ending or name of each."""
    for text in parsed_texts(recipe.texts):
        for prefix in parse_prefixes(files, text, recipe.texts):
            for kind in kinds:
                yield kind if prefix == files else f"{prefix}.{kind}", Path(folder, f"{prefix}.{kind}")


def _stanza_version(recipe: Recipe) -> str:
    try:
        return version("stanza")
    except PackageNotFoundError as error:
        message = "the recipe parses by stanza, which is not installed: pip install 'fairseq-syntax[stanza]'"
        raise InputError(recipe.name, None, message) from error


def _run(recipe: Recipe, name: str, seed: int, prepared: _Prepared, for_training: _Prepared) -> Target:
    """Return the translations, or predictions, by a system under a seed; its input is the training."""
    system = recipe.systems[name]
    seeds = system.seeds or recipe.seeds
    options = _given({**recipe.train, **system.train, **system.options, "arch": system.architecture, "seed": seed})
    cost: dict[str, Any] = {"threads": recipe.threads.train, "gpus": recipe.threads.gpus}
    hashes, local = _user_dir(recipe, name, options)
    local = _with_subwords(local, options, prepared.subwords)
    if recipe.pretrained is not None:
        local["pretrained"] = expanded(recipe, recipe.pretrained, "pretrained")
        hashes["pretrained"] = _hash(Path(local["pretrained"]))
    data = prepared.data(system, seed)
    model = Target(
        "models",
        {"options": options, "average": recipe.average, "keep_epochs": recipe.keep_epochs} | hashes | recipe.texts,
        {"data": data},
        f"training of {name}, seed {seed}",
        local,
        identity={"data": for_training.data(system, seed)},
        # Seed by seed, and systems as the recipe has them, so that what is there early can be compared.
        priority=1000 * (len(seeds) - seeds.index(seed)) - list(recipe.systems).index(name),
        **cost,
    )
    tested = prepared.data(replace(system, control=system.test_control or system.control), seed)
    inputs = {"model": model, "data": tested}
    here = {"system": name, "seed": seed, **local}  # another recipe may call the system otherwise
    if recipe.classifies:
        settings = {"tests": recipe.tests, **recipe.texts}
        label = f"predictions of {name}, seed {seed}"
        return Target("predictions", settings, inputs, label, here, priority=100_000, **cost)
    settings = {
        "generate": _given(recipe.generate),
        "tests": recipe.scored,
        "subwords": recipe.subwords.kind,
        "detokenize": recipe.score.detokenize,
        "tokens": recipe.score.tokenized,
    } | recipe.texts
    label = f"translations by {name}, seed {seed}"
    return Target("runs", settings, inputs | {"text": prepared.text}, label, here, priority=100_000, **cost)


def _given(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return options without those that were taken away."""
    return {name: value for name, value in options.items() if value is not None}


def _user_dir(recipe: Recipe, system: str, options: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return hashes of the code in the option user-dir, if it is given; and its path here."""
    if "user-dir" not in options:
        return {}, {}
    keys = (*(f"systems.{system}.{part}.user-dir" for part in ("options", "train")), "train.user-dir")
    path = with_here(recipe, options["user-dir"], *keys)
    return {"code": module_hashes(path)}, {"options": {"user-dir": path}}


def _with_subwords(local: dict[str, Any], options: Mapping[str, Any], subwords: Target) -> dict[str, Any]:
    """Return `local` with the options that name ``{subwords}``, the folder of the subwords' model."""
    filled = {
        name: value.replace("{subwords}", subwords.path)
        for name, value in options.items()
        if isinstance(value, str) and "{subwords}" in value
    }
    return {**local, "options": {**local.get("options", {}), **filled}} if filled else local


def module_hashes(folder: str) -> dict[str, str]:
    """Return the hash of each Python file below a folder, by its path from there."""
    files = sorted(glob.glob("**/*.py", root_dir=folder, recursive=True))
    return {file: file_hash(os.path.join(folder, file)) for file in files}


def code_hash() -> str:
    """Return one hash of the modules of the installed packages that train."""
    specs = [importlib.util.find_spec(package) for package in ("fairseq_syntax", "syntax_data")]
    hashes = [json.dumps(module_hashes(os.path.dirname(str(spec and spec.origin)))) for spec in specs]
    return hashlib.sha256("".join(hashes).encode()).hexdigest()[:12]


def _scoring(recipe: Recipe) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the settings of scores; and own metrics as they are here."""
    if recipe.classifies:
        asked = {"ignored_label": recipe.score.ignored_label, "kind": recipe.predicts}
        return {"score": asked, "tests": recipe.tests, **recipe.texts}, {}
    own = {name: _command(recipe, asked, f"score.metrics.{name}") for name, asked in recipe.score.metrics.items()}
    settings = {"score": changed(recipe.score), "tests": recipe.scored, "sacrebleu": version("sacrebleu")}
    settings["own"] = {name: of for name, (of, _) in own.items()}
    return settings | recipe.texts, {name: here for name, (_, here) in own.items()}


def _scores(recipe: Recipe, runs: Mapping[tuple[str, int], Target], text: Target, subsets: Target) -> _Targets:
    settings, metrics = _scoring(recipe)
    found = {}
    kind = "predictions_scored" if recipe.classifies else "scores"
    for (name, seed), run in runs.items():
        inputs = {"run": run, "text": text, "subsets": subsets}
        label = f"scores of {run.label}"
        found[f"scores {name} {seed}"] = Target(kind, settings, inputs, label, {"metrics": metrics})
    return found


def _measurements(recipe: Recipe, runs: Mapping[tuple[str, int], Target], shared: _Targets) -> _Targets:
    found = {}
    for of, asked in recipe.measurements.items():
        settings, here = _command(recipe, asked, f"measurements.{of}")
        settings |= recipe.texts if recipe.task == "masked_lm" else {}  # its data-bin is that of its text
        for (name, seed), run in runs.items():
            inputs = {"model": run.inputs["model"], "data": run.inputs["data"]}
            inputs |= {what: target for what, target in {**shared, "run": run}.items() if f"{{{what}}}" in asked}
            cost: dict[str, Any] = {"threads": run.threads, "gpus": run.gpus, "priority": run.priority}
            label = f"{of} of {run.inputs['model'].label}"
            local = {**run.inputs["model"].local, "command": here}
            found[f"measurement {name} {seed} {of}"] = Target("measurements", settings, inputs, label, local, **cost)
    return found


def _comparisons(recipe: Recipe, runs: Mapping[tuple[str, int], Target], text: Target) -> _Targets:
    settings, _ = _scoring(recipe)
    found = {}
    kind = "predictions_compared" if recipe.classifies else "comparisons"
    for name, baseline in recipe.comparisons:
        for seed in [seed for of, seed in runs if of == name and (baseline, seed) in runs]:
            inputs = {"system": runs[name, seed], "baseline": runs[baseline, seed], "text": text}
            label = f"{name} beside {baseline}, seed {seed}"
            found[f"comparison {name} {baseline} {seed}"] = Target(kind, settings, inputs, label)
    return found


def _pictures(recipe: Recipe, runs: Mapping[tuple[str, int], Target], prepared: _Prepared, partial: bool) -> Target:
    inputs = {f"run {name} {seed}": run for (name, seed), run in runs.items()}
    inputs |= {"text": prepared.text, **prepared.first_parses}
    local: dict[str, Any] = {}
    for name in recipe.pictures.of if recipe.pictures else []:
        first = next((run for (of, _), run in runs.items() if of == name), None)
        if first is not None and (not partial or is_made(first.inputs["model"].path)):
            inputs |= {f"{what} {name}": first.inputs[what] for what in ("model", "data")}
            local[name] = first.local
    settings = {
        "title": recipe.title or recipe.name,
        "labels": recipe.full_labels,
        "pictures": changed(recipe.pictures),
        "score": changed(recipe.score),
        "tests": recipe.scored,
    } | recipe.texts
    return Target("pictures", settings, inputs, f"pictures of {recipe.name}", local)

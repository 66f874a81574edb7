"""What a recipe says: one YAML file, one comparison."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from syntax_data.controls import Control
from syntax_data.errors import InputError, short_repr
from syntax_data.parsers import parser_names
from syntax_data.scoring.metrics import ScoreSettings
from syntax_experiments.formats import READERS
from syntax_experiments.metric_names import EXACT_MATCH, LOSS, SACREBLEU, TOKENISED
from syntax_experiments.schema import build, lines_of, read_node, recipe_names, recipe_path

#: From, to, both included; nothing: no bound.
Range = list[int | None]
#: Of metrics that no command of a recipe's may have.
_OWN_NAMES = (*SACREBLEU, TOKENISED, EXACT_MATCH, LOSS)


@dataclass(frozen=True)
class Download:
    """A file that is fetched once, resumed where it was cut off, and checked by what is said of it.

    `size` is in bytes. `mirrors`: other addresses of the very same file.
    """

    url: str
    sha256: str | None = None
    md5: str | None = None
    size: int | None = None
    mirrors: list[str] = field(default_factory=list)

    @property
    def file_name(self) -> str:
        """What the file is called."""
        return os.path.basename(urlsplit(self.url).path)


@dataclass(frozen=True)
class SplitFiles:
    """Where a split's lines come from.

    A file is a path in the corpus' folder, or ``DOWNLOAD`` or ``DOWNLOAD!MEMBER`` of an archive. ``.gz`` is unpacked.
    Several files are joined. `format`: one of `syntax_experiments.formats.READERS`. `replace`: texts in raw lines by
    others. `limits`: whether the text's limits hold here, as they never do for a test set. `every`: only each k-th
    pair; `but_every`: all but these; both count the pairs that the limits leave.
    `reference`: what translations are scored against, by default the raw target.
    """

    source: list[str]
    target: list[str]
    reference: list[str] | None = None
    format: str = "lines"
    replace: dict[str, str] = field(default_factory=dict)
    limits: bool = True
    every: int | None = None
    but_every: int | None = None

    @property
    def files(self) -> list[str]:
        """All of them."""
        return [*self.source, *self.target, *(self.reference or ())]

    def __post_init__(self) -> None:
        _choice("format", self.format, tuple(READERS))
        for name, step in (("every", self.every), ("but_every", self.but_every)):
            if step is not None and step < 2:
                raise ValueError(f"{name}: expected a number of at least 2, found {step}")


@dataclass(frozen=True)
class Corpus:
    """Where text comes from: downloads, a local folder, or a command that writes it to ``{output}``.

    `smoke_command`: one that writes less, for a smoke test.
    """

    splits: dict[str, SplitFiles]
    downloads: dict[str, Download] = field(default_factory=dict)
    folder: str | None = None
    command: str | None = None
    smoke_command: str | None = None

    def __post_init__(self) -> None:
        if self.folder is not None and self.command is not None:
            raise ValueError("expected a folder or a command, found both")
        if not {"train", "valid"} < self.splits.keys():
            raise ValueError("expected the splits train, valid, and at least one more, which is a test set")


@dataclass(frozen=True)
class Text:
    """How raw text becomes words: by sacremoses, or not at all; parsers see them before they are lower-cased.

    `normalize`: punctuation. `lowercase_first`: before all else. `dashes`: split at hyphens. `words` (of a
    sentence) and `ratio` (of the longer to the shorter) are limits of pairs of train and valid.
    """

    tokenize: str = "moses"
    normalize: bool = True
    lowercase: bool = False
    lowercase_first: bool = False
    dashes: bool = False
    words: Range | None = None
    ratio: float | None = None

    def __post_init__(self) -> None:
        _choice("tokenize", self.tokenize, ("moses", "none"))
        if self.words is not None and len(self.words) != 2:
            raise ValueError(f"words: expected two numbers, the least and the greatest, found {len(self.words)}")
        if self.lowercase and self.lowercase_first:
            raise ValueError("expected lowercase or lowercase_first, found both")


@dataclass(frozen=True)
class Parser:
    """Who parses: a parser of fairseq-syntax-parse with its options, in shards.

    Or ``files``: by split the prefix of PREFIX.conllu[.gz] and PREFIX.trees[.gz] in the corpus' folder.
    """

    name: str = "stanza"
    kinds: list[str] = field(default_factory=lambda: ["conllu", "trees"])
    files: dict[str, str] = field(default_factory=dict)
    shards: int = 1
    options: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for kind in self.kinds:
            _choice("kinds", kind, ("conllu", "trees"))
        if (self.name == "files") != bool(self.files):
            raise ValueError("expected files if, and only if, the parser's name is files")


@dataclass(frozen=True)
class Selection:
    """Lines of a split: so many at random of those whose measures (`line_measures.py`) lie within ranges.

    `each_length`: so many of each number of words within the range `words`, so that selections are of like lengths.
    """

    words: Range | None = None
    height: Range | None = None
    depth: Range | None = None
    attachments: Range | None = None
    clauses: Range | None = None
    lines: int | None = None
    each_length: int | None = None
    seed: int = 1

    @property
    def ranges(self) -> dict[str, Range]:
        """The ranges that are asked for, by measure."""
        names = ("words", "height", "depth", "attachments", "clauses")
        return {name: getattr(self, name) for name in names if getattr(self, name) is not None}

    def __post_init__(self) -> None:
        for name, bounds in self.ranges.items():
            known = [bound for bound in bounds if bound is not None]
            if len(bounds) != 2 or known != sorted(known):
                raise ValueError(f"{name}: expected two numbers, the least and the greatest, found {bounds}")
        if self.each_length is not None and (self.lines is not None or self.words is None or None in self.words):
            raise ValueError("each_length: expected words with both bounds beside it, and no lines")


@dataclass(frozen=True)
class Subwords:
    """Subword units: of `kind` ``subword_nmt`` or ``sentencepiece``, so many merges or pieces, or ``none``.

    `joint`: one model and one dictionary for both languages.
    """

    kind: str = "subword_nmt"
    size: int = 10000
    joint: bool = True

    def __post_init__(self) -> None:
        _choice("kind", self.kind, ("subword_nmt", "sentencepiece", "none"))


@dataclass(frozen=True)
class System:
    """One row of the table: an architecture with its options, trained on parses or on a control of them.

    `parser` ``none``: the data have no features, as a system needs none. An option ``user-dir`` (``{here}`` in it is
    the folder of the file that says so) stands in the place of fairseq_syntax, which it is to import. ``{seed}`` in
    `control`, as in ``random@{seed}``: each seed has a control of its own.
    """

    architecture: str
    label: str = ""
    group: str = ""
    options: dict[str, Any] = field(default_factory=dict)
    train: dict[str, Any] = field(default_factory=dict)
    control: str | None = None
    parser: str | None = None
    seeds: list[int] | None = None
    published: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.control is not None:
            Control.read(self.control.replace("{seed}", "1"))
        if self.seeds is not None and not self.seeds:
            raise ValueError("seeds: expected at least one, found none")


@dataclass(frozen=True)
class Scoring:
    """How translations are scored (sacreBLEU's names), and by which further commands, by the name of their metric.

    `tokenized`: ``tokenised BLEU`` as well. It compares the translations, not detokenised, with the tokenised target,
    and splits neither further (sacreBLEU's ``none``). Most papers report this kind. It is lower-cased as BLEU is.
    Such a command is of a text, run for each test set and subset (`syntax_experiments.scores.own_score`); what is asked
    of the model itself is one of the recipe's `measurements`.
    """

    tokenize: str = "13a"
    lowercase: bool = False
    detokenize: bool = True
    exact_match: bool = False
    tokenized: bool = False
    metrics: dict[str, str] = field(default_factory=dict)
    bootstrap: int = 1000
    randomisation: int = 10000

    def __post_init__(self) -> None:
        ScoreSettings(tokenize=self.tokenize)
        for name, command in self.metrics.items():
            if name in _OWN_NAMES:
                raise ValueError(f"metrics.{name}: expected another name than one of {', '.join(_OWN_NAMES)}")
            if "{hypotheses}" not in command:
                raise ValueError(f"metrics.{name}: expected a command with {{hypotheses}}, found {short_repr(command)}")

    @property
    def names(self) -> tuple[str, ...]:
        """The metrics of a translation."""
        optional = ((TOKENISED, self.tokenized), (EXACT_MATCH, self.exact_match))
        return (*SACREBLEU, *(name for name, asked in optional if asked), *self.metrics)


@dataclass(frozen=True)
class TableOf:
    """One of several tables of a comparison: some of its systems (all, if none is named), beside some baselines."""

    baselines: list[str]
    systems: list[str] = field(default_factory=list)
    about: str = ""


@dataclass(frozen=True)
class Pictures:
    """A page of pictures by fairseq-syntax-analyze; see docs/analysis.md.

    `systems`: whose learning, scores and gates are drawn; all, if none is named. `sentences`: of the first test set,
    drawn with trees, masks and attention of the systems `of` (their first seed).
    `sweeps`: by axis and label, which system stands for which value: ``{noise (%): {slr: {0: slr, 20: slr_20}}}``.
    """

    systems: list[str] = field(default_factory=list)
    sentences: list[int] = field(default_factory=list)
    of: list[str] = field(default_factory=list)
    sweeps: dict[str, dict[str, dict[str, str]]] = field(default_factory=dict)


@dataclass(frozen=True)
class Threads:
    """How many cores a job of each kind has, and a training GPUs: 1, if there are some, or 0 on machines without."""

    text: int = 2
    parse: int = 2
    train: int = 1
    gpus: int = 1


@dataclass(frozen=True)
class Recipe:
    """A comparison; see the README of the experiments for every key.

    `measurements`: commands by name, each run once a trained model. ``{model}`` in it stands for a folder with
    ``checkpoint.pt``, ``{data}`` for the model's data-bin, ``{subsets}`` for a folder with a JSON object of each test
    set, TEST.json, that has of each of `subsets` the numbers (from 0) of its lines, ``{here}`` for the folder of the
    file that says so. It prints, as its last line, a number, which becomes a column of the name, or a JSON object of
    them, each a column of its own. A file among the command's words counts by what is in it. `keep_epochs`: models keep
    ``checkpoints/checkpointN.pt`` of every epoch N. `compared`: metrics whose differences the tables show, the most
    important first: names of scores or measurements, ``valid_loss``; by default BLEU and the validation loss.
    `published` and `bounds`: more rows by label, with what others report, and what is possible, by metric.
    """

    source: str
    target: str
    corpus: Corpus
    systems: dict[str, System]
    title: str = ""
    about: str = ""
    text: Text = field(default_factory=Text)
    parsers: dict[str, Parser] = field(default_factory=lambda: {"stanza": Parser()})
    select: dict[str, Selection] = field(default_factory=dict)
    subwords: Subwords = field(default_factory=Subwords)
    seeds: list[int] = field(default_factory=lambda: [1])
    train: dict[str, Any] = field(default_factory=dict)
    average: int | None = None
    keep_epochs: bool = False
    generate: dict[str, Any] = field(default_factory=dict)
    score: Scoring = field(default_factory=Scoring)
    measurements: dict[str, str] = field(default_factory=dict)
    subsets: dict[str, Selection] = field(default_factory=dict)
    baselines: list[str] = field(default_factory=list)
    tables: dict[str, TableOf] = field(default_factory=dict)
    compared: list[str] = field(default_factory=list)
    pictures: Pictures | None = None
    published: dict[str, dict[str, float]] = field(default_factory=dict)
    bounds: dict[str, dict[str, float]] = field(default_factory=dict)
    threads: Threads = field(default_factory=Threads)
    name: str = field(default="", metadata={"key": False})
    #: File and line of every key, by its path, such as ``systems.slr.options.slr-temperature``.
    lines: dict[str, tuple[str, int]] = field(default_factory=dict, metadata={"key": False})
    #: The folders of these files; what stands under a key may name its own as ``{here}``.
    folders: dict[str, str] = field(default_factory=dict, metadata={"key": False})

    @property
    def tests(self) -> list[str]:
        """The test sets: all splits but train and valid."""
        return [name for name in self.corpus.splits if name not in ("train", "valid")]

    @property
    def full_labels(self) -> dict[str, str]:
        """Of each system a label that can stand alone.

        One that begins with … goes on with that of the first system above it that differs in its parses alone, or of
        the last one above it that is whole.
        """
        labels: dict[str, str] = {}
        above: dict[str, str] = {}  # by all that makes a model but its parses
        whole = ""
        for name, system in self.systems.items():
            label, same = system.label or name, str((system.architecture, system.options, system.train))
            if label.startswith("…"):
                label = ", ".join(filter(None, [above.get(same, whole), label.lstrip("… ")]))
            else:
                label = whole = f"{system.group}: {label}" if system.group else label
            labels[name] = label
            above.setdefault(same, label)
        return labels

    @property
    def of_tables(self) -> dict[str, TableOf]:
        """The tables: those that the recipe names, or one of all systems."""
        return self.tables or {"": TableOf(self.baselines)}

    def __post_init__(self) -> None:
        if not self.seeds or len(set(self.seeds)) < len(self.seeds):
            raise ValueError(f"seeds: expected some, each once, found {self.seeds}")
        if self.average is not None and self.average < 1:
            raise ValueError(f"average: expected a number of epochs, found {self.average}")
        for picture in [self.pictures] if self.pictures else []:
            swept = [name for axis in picture.sweeps.values() for of in axis.values() for name in of.values()]
            for name in (*picture.systems, *picture.of, *swept):
                _choice("pictures", name, tuple(self.systems))
        for table in self.of_tables.values():
            for name in (*table.baselines, *table.systems):
                _choice("tables", name, tuple(self.systems))
            if missing := [name for name in table.baselines if table.systems and name not in table.systems]:
                raise ValueError(f"tables: expected the baselines among the table's systems, found {missing[0]} alone")
        for name, system in self.systems.items():
            if not re.fullmatch(r"[A-Za-z0-9_.+-]+", name):
                raise ValueError(f"systems: expected names of letters, digits and _ . + -, found {short_repr(name)}")
            if system.parser not in (None, "none", *self.parsers):
                raise ValueError(f"systems.{name}.parser: expected one of {', '.join(self.parsers)} or none")
        of_labels: dict[str, str] = {}
        for name, label in self.full_labels.items():
            if (other := of_labels.setdefault(label, name)) != name:
                raise ValueError(f"systems.{name}.label: expected another than that of {other}, {short_repr(label)}")
        for name, command in self.measurements.items():
            if "{model}" not in command:
                raise ValueError(f"measurements.{name}: expected a command with {{model}}, found {short_repr(command)}")
            if "{subsets}" in command and not self.subsets:
                raise ValueError(f"measurements.{name}: expected subsets, which {{subsets}} stands for, found none")
        for name in [] if self.measurements else self.compared:  # a measurement's columns are its own
            _choice("compared", name, (*self.score.names, LOSS))
        for name in self.select:
            _choice("select", name, tuple(self.corpus.splits))
        splits = set(self.corpus.splits)
        for name, parser in self.parsers.items():
            if parser.name != "files":
                _choice(f"parsers.{name}.name", parser.name, tuple(parser_names()))
            if parser.files and set(parser.files) != splits:
                raise ValueError(f"parsers.{name}.files: expected {', '.join(self.corpus.splits)}")
        downloads = self.corpus.downloads
        for split in self.corpus.splits.values():
            for file in split.files:
                if "!" in file and file.partition("!")[0] not in downloads:
                    raise ValueError(f"corpus: expected a download before the ! of {file!r}")


def read_recipe(name: str) -> Recipe:
    """The recipe of a name, or in the file of that path.

    Raises:
        InputError: there is none; or it says what cannot be meant, with file and line.
    """
    path = Path(recipe_path(name))
    if not path.is_file():
        known = ", ".join(recipe_names())
        raise InputError(str(path), None, f"expected a recipe, found none; there are {known}, or name a file")
    node = read_node(str(path))
    recipe: Recipe = build(Recipe, node, "the recipe")
    lines = lines_of(node)
    folders = {key: str(Path(file).resolve().parent) for key, (file, _) in lines.items()}
    return replace(recipe, name=path.stem, lines=lines, folders=folders)


def with_here(recipe: Recipe, text: str, *keys: str) -> str:
    """A text with the folder of the file in which it stands, under the first of `keys` that there is, as ``{here}``."""
    here = next((recipe.folders[key] for key in keys if key in recipe.folders), None)
    return text if here is None else text.replace("{here}", here)


def folder_of(recipe: Recipe) -> str | None:
    """The corpus' local folder, variables of the environment in its name replaced.

    Raises:
        InputError: a variable is not set, or there is no such folder.
    """
    if recipe.corpus.folder is None:
        return None
    folder = os.path.expandvars(with_here(recipe, recipe.corpus.folder, "corpus.folder"))
    if "$" in folder:
        raise InputError(recipe.name, None, f"expected the environment to say where the data is: {folder}")
    if not os.path.isdir(folder):
        raise InputError(recipe.name, None, f"expected the data in the folder {folder}, found none")
    return os.path.abspath(folder)


def _choice(name: str, value: str, known: tuple[str, ...]) -> None:
    if value not in known:
        raise ValueError(f"{name}: expected one of {', '.join(known)}, found {short_repr(value)}")

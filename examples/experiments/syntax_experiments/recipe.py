"""Recipes: one YAML file, one comparison."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

from syntax_data.controls import Control
from syntax_data.errors import InputError, short_repr
from syntax_data.parsers import parser_names
from syntax_data.scoring.metrics import ScoreSettings
from syntax_experiments.metric_names import EXACT_MATCH, LOSS, OF_LABELS, SACREBLEU, TOKENISED
from syntax_experiments.schema import Lines, build, place, read_mapping, recipe_names, recipe_path

#: From, to, both included; ``None``: no bound.
Range = list[int | None]

Task = Literal["translation", "sentence_prediction", "sentence_ranking", "span_prediction", "masked_lm"]
#: The texts of an example of classification or ranking.
_INPUTS = ("input0", "input1", "input2", "input3", "input4")
#: The `parser` of systems whose features come from the subwords alone.
OF_WORDS = "words"


@dataclass(frozen=True)
class Download:
    """A file that is fetched once, and checked by size and hash.

    `size` is in bytes. `mirrors`: other addresses of the same file.
    """

    url: str
    sha256: str | None = None
    md5: str | None = None
    size: int | None = None
    mirrors: list[str] = field(default_factory=list)

    @property
    def file_name(self) -> str:
        """The name of the file."""
        return os.path.basename(urlsplit(self.url).path)


@dataclass(frozen=True)
class SplitFiles:
    """Files of a split, joined: `source` and `target` of translation; `input0`, `input1` and `label` of classification,
    `input0` of a masked LM; `questions`, one file in SQuAD's format, of spans.

    A file is a path in the corpus' folder, or ``DOWNLOAD`` or ``DOWNLOAD!MEMBER`` of an archive. ``.gz`` is unpacked.
    `format`: see `corpus_formats`. `replace`: strings in raw lines and their replacements. `limits`: whether the text's
    limits hold; never for a test set. `keep_every`: only each k-th pair; `drop_every`: all but these; both count the
    pairs that the limits leave. `reference`: what translations are scored against, by default the raw target.
    """

    source: list[str] = field(default_factory=list)
    target: list[str] = field(default_factory=list)
    reference: list[str] | None = None
    input0: list[str] = field(default_factory=list)
    input1: list[str] = field(default_factory=list)
    input2: list[str] = field(default_factory=list)
    input3: list[str] = field(default_factory=list)
    input4: list[str] = field(default_factory=list)
    label: list[str] = field(default_factory=list)
    questions: list[str] = field(default_factory=list)
    format: Literal["lines", "iwslt", "seg", "tmx"] = "lines"
    replace: dict[str, str] = field(default_factory=dict)
    limits: bool = True
    keep_every: int | None = None
    drop_every: int | None = None

    @property
    def files(self) -> list[str]:
        """All of them."""
        names = ("source", "target", "reference", *_INPUTS, "label", "questions")
        return [file for name in names for file in getattr(self, name) or ()]

    def __post_init__(self) -> None:
        if min(self.keep_every or 2, self.drop_every or 2) < 2:
            raise ValueError("keep_every, drop_every: expected a number of at least 2")
        if len(self.questions) > 1:
            raise ValueError(f"questions: expected one file, found {len(self.questions)}")


@dataclass(frozen=True)
class Corpus:
    """Raw text: downloads, a local folder, or a command that writes to ``{output}``."""

    splits: dict[str, SplitFiles]
    downloads: dict[str, Download] = field(default_factory=dict)
    folder: str | None = None
    command: str | None = None

    def __post_init__(self) -> None:
        if self.folder is not None and self.command is not None:
            raise ValueError("expected a folder or a command, found both")
        if not {"train", "valid"} < self.splits.keys():
            raise ValueError("expected the splits train, valid, and at least one more, which is a test set")
        for split in self.splits.values():
            for file in split.files:
                if "!" in file and file.partition("!")[0] not in self.downloads:
                    raise ValueError(f"expected a download before the ! of {file!r}")


@dataclass(frozen=True)
class Text:
    """Words of raw text. Parsers see them before they are lower-cased.

    `tokenize`: by sacremoses. `normalize`: punctuation. `lowercase_first`: before all else. `dashes`: split at hyphens.
    `words` (of a sentence) and `ratio` (of the longer to the shorter) are limits of pairs of train and valid.
    """

    tokenize: Literal["moses", "none"] = "moses"
    normalize: bool = True
    lowercase: bool = False
    lowercase_first: bool = False
    dashes: bool = False
    words: Range | None = None
    ratio: float | None = None

    def __post_init__(self) -> None:
        _check_range("words", self.words or [None, None])


@dataclass(frozen=True)
class Parser:
    """A parser of fairseq-syntax-parse with its options, in ``threads.parse`` workers.

    Or ``files``: by split the prefix of PREFIX.conllu[.gz] and PREFIX.trees[.gz] in the corpus' folder; of
    classification, of PREFIX.input0.conllu[.gz] and so on. Several prefixes, with commas between them, are joined.
    """

    name: str = "stanza"
    kinds: list[Literal["conllu", "trees"]] = field(default_factory=lambda: ["conllu", "trees"])
    files: dict[str, str] = field(default_factory=dict)
    options: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        _choice("name", self.name, ("files", *parser_names()))
        if (self.name == "files") != bool(self.files):
            raise ValueError("expected files if, and only if, the parser's name is files")


@dataclass(frozen=True)
class Selection:
    """Lines whose measures (`steps.selection.measure`) are in ranges, or a sample.

    `lines`: how many, at random. `per_length`: as many of each number of words within the range `words`, so that
    selections have like lengths. `keep_every`: each k-th of these lines; `drop_every`: all but these.
    """

    words: Range | None = None
    height: Range | None = None
    depth: Range | None = None
    attachments: Range | None = None
    clauses: Range | None = None
    lines: int | None = None
    per_length: int | None = None
    keep_every: int | None = None
    drop_every: int | None = None
    seed: int = 1

    @property
    def ranges(self) -> dict[str, Range]:
        """The ranges that are given, by measure."""
        names = ("words", "height", "depth", "attachments", "clauses")
        return {name: getattr(self, name) for name in names if getattr(self, name) is not None}

    @property
    def of_parses(self) -> bool:
        """Whether a range is one of a parse's measures."""
        return bool(self.ranges.keys() - {"words"})

    def __post_init__(self) -> None:
        for name, bounds in self.ranges.items():
            _check_range(name, bounds)
        if self.per_length is not None and (self.lines is not None or self.words is None or None in self.words):
            raise ValueError("per_length: expected words with both bounds beside it, and no lines")


@dataclass(frozen=True)
class Subwords:
    """Subwords. `size`: merges or pieces. `joint`: one model and one dictionary for both languages.

    Those of a pre-trained model are not learned: BERT's ``wordpiece`` needs its `dictionary` (dict.txt of fairseq), and
    ``gpt2`` also `encoder` (encoder.json) and `merges` (vocab.bpe). `markers` of entities stay whole.
    """

    kind: Literal["subword_nmt", "sentencepiece", "none", "wordpiece", "gpt2"] = "subword_nmt"
    size: int = 10000
    joint: bool = True
    dictionary: str | None = None
    encoder: str | None = None
    merges: str | None = None
    markers: str = ""

    @property
    def files(self) -> dict[str, str]:
        """The files that are given, by key."""
        names = ("dictionary", "encoder", "merges")
        return {name: getattr(self, name) for name in names if getattr(self, name) is not None}

    def __post_init__(self) -> None:
        needed = {"wordpiece": {"dictionary"}, "gpt2": {"dictionary", "encoder", "merges"}}.get(self.kind, set())
        if missing := sorted(needed - self.files.keys()):
            raise ValueError(f"kind {self.kind}: expected {missing[0]} beside it, found none")
        if self.markers and self.kind not in ("none", "wordpiece"):
            raise ValueError(f"markers: expected kind wordpiece or none, which keep them whole, found {self.kind}")


@dataclass(frozen=True)
class System:
    """A row of the table: an architecture, trained on parses or a control of them.

    `test_control`: a control of the parses under which the trained model is tested. A system that differs from another
    one in it alone is that system's model, not trained again.

    `parser` ``none``: data without features; ``words``: with those that need no parse. An option ``user-dir``
    (``{here}`` in it is the folder of the recipe's file) replaces fairseq_syntax, which its code has to import.
    ``{seed}`` in a control, as in ``random@{seed}``: each seed has a control of its own.
    """

    architecture: str
    label: str = ""
    group: str = ""
    options: dict[str, Any] = field(default_factory=dict)
    train: dict[str, Any] = field(default_factory=dict)
    control: str | None = None
    test_control: str | None = None
    parser: str | None = None
    seeds: list[int] | None = None
    published: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for control in filter(None, (self.control, self.test_control)):
            Control.read(control.replace("{seed}", "1"))


@dataclass(frozen=True)
class Scoring:
    """Scores of translations by sacreBLEU, and commands of more `metrics` by name.

    `tokenized`: ``tokenised BLEU``, too. It compares the translations, not detokenised, with the tokenised target, and
    splits neither further (sacreBLEU's ``none``). Most papers report this kind. It is lower-cased as BLEU is. A
    command is run for each test set and subset (`syntax_experiments.steps.scores.score`).

    `tests`: the first test sets, which are translated and scored; all by default. `measurements` read the others, too.

    Classification has scores of its own, ``F1`` without the `ignored_label`.
    """

    tokenize: str = "13a"
    lowercase: bool = False
    detokenize: bool = True
    exact_match: bool = False
    tokenized: bool = False
    metrics: dict[str, str] = field(default_factory=dict)
    bootstrap: int = 1000
    randomisation: int = 10000
    ignored_label: str | None = None
    tests: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        ScoreSettings(tokenize=self.tokenize)
        if self.bootstrap < 1 or self.randomisation < 1:
            raise ValueError("bootstrap, randomisation: expected at least 1 sample")
        for name, command in self.metrics.items():
            if name in (*SACREBLEU, TOKENISED, EXACT_MATCH, LOSS):
                raise ValueError(f"metrics.{name}: expected another name than one of ours")
            if "{hypotheses}" not in command:
                raise ValueError(f"metrics.{name}: expected a command with {{hypotheses}}, found {short_repr(command)}")

    @property
    def names(self) -> tuple[str, ...]:
        """The metrics of a translation."""
        optional = ((TOKENISED, self.tokenized), (EXACT_MATCH, self.exact_match))
        return (*SACREBLEU, *(name for name, asked in optional if asked), *self.metrics)


@dataclass(frozen=True)
class TableOf:
    """One of several tables: systems (all, if none is named) beside baselines."""

    baselines: list[str]
    systems: list[str] = field(default_factory=list)
    about: str = ""

    def __post_init__(self) -> None:
        if missing := [name for name in self.baselines if self.systems and name not in self.systems]:
            raise ValueError(f"expected the baselines among the table's systems, found {missing[0]} alone")


@dataclass(frozen=True)
class Primary:
    """The comparisons that decide, to be named before anything is trained: by system the baselines, in one metric.

    p is adjusted for these alone, by Holm's method. All others are exploratory.
    """

    metric: str
    comparisons: dict[str, list[str]]

    @property
    def pairs(self) -> list[tuple[str, str]]:
        """Systems and their baselines."""
        return [(system, baseline) for system, of in self.comparisons.items() for baseline in of]

    def __post_init__(self) -> None:
        if not self.pairs or any(system == baseline for system, baseline in self.pairs):
            raise ValueError(f"comparisons: expected systems with other ones as baselines, found {self.comparisons}")


@dataclass(frozen=True)
class Pictures:
    """A page of pictures by fairseq-syntax-analyze.

    `systems`: whose scores are drawn; all, if none is named. `sentences`: of the first test set,
    drawn with trees, biases and attention of the systems `of` (their first seed). `sweeps`: by axis and label, the
    system of each value: ``{noise (%): {slr: {0: slr, 20: slr_20}}}``.
    """

    systems: list[str] = field(default_factory=list)
    sentences: list[int] = field(default_factory=list)
    of: list[str] = field(default_factory=list)
    sweeps: dict[str, dict[str, dict[str, str]]] = field(default_factory=dict)

    @property
    def names(self) -> list[str]:
        """All systems that are named."""
        swept = [name for axis in self.sweeps.values() for of in axis.values() for name in of.values()]
        return [*self.systems, *self.of, *swept]


@dataclass(frozen=True)
class Threads:
    """Cores of a job of each kind, and GPUs of a training, where there are some."""

    text: int = 2
    parse: int = 2
    train: int = 1
    gpus: int = 1


@dataclass(frozen=True)
class Recipe:
    """A comparison; the README of the experiments has an example.

    `task`: what is learned. ``sentence_prediction``: a label of each line of text, or pair of lines; `source` is its
    language, and there is no `target`. ``sentence_ranking``: the right one of `input1` to `inputN`, a label from 0,
    after `input0`. ``span_prediction``: the answers in files of SQuAD, `questions`. ``masked_lm``: lines of `input0`;
    test sets are minimal pairs, a right line before its wrong one.
    `pretrained`: a checkpoint that every training begins from.
    `measurements`: commands by name, each run once a trained model. ``{model}`` in it is a folder with
    ``checkpoint.pt``, ``{data}`` the model's data-bin, ``{user_dir}`` its code (``fairseq_syntax``, or the system's
    ``user-dir``), ``{run}`` a folder with TEST.txt, its translations, ``{text}`` and ``{subwords}`` folders with
    SPLIT.LANGUAGE (and TEST.reference, and the merges or the model of subwords), ``{subsets}`` a folder with
    TEST.json, a JSON object of the line numbers (from 0) of each of `subsets`, and ``{here}`` the folder of the
    recipe's file. Its last line of output is a number, which becomes a column of that name, or a JSON object of
    them, each a column. The content of files among the command's words counts. `keep_epochs`: models keep
    ``checkpoints/checkpointN.pt`` of every epoch N.
    `compared`: metrics whose differences the tables show, the most important first: names of scores or measurements,
    ``valid_loss``; by default BLEU and the validation loss. `primary`: the comparisons that decide. `equivalence`:
    by metric the smallest difference that matters; where the 90% interval is within it, on both sides of 0, there is no
    difference. `published` and `bounds`: more rows by label, with what
    others report, and what is possible, by metric.
    """

    source: str
    corpus: Corpus
    systems: dict[str, System]
    task: Task = "translation"
    target: str = ""
    title: str = ""
    about: str = ""
    text: Text = field(default_factory=Text)
    parsers: dict[str, Parser] = field(default_factory=lambda: {"stanza": Parser()})
    select: dict[str, Selection] = field(default_factory=dict)
    subwords: Subwords = field(default_factory=Subwords)
    seeds: list[int] = field(default_factory=lambda: [1])
    train: dict[str, Any] = field(default_factory=dict)
    pretrained: str | None = None
    average: int | None = None
    keep_epochs: bool = False
    generate: dict[str, Any] = field(default_factory=dict)
    score: Scoring = field(default_factory=Scoring)
    measurements: dict[str, str] = field(default_factory=dict)
    subsets: dict[str, Selection] = field(default_factory=dict)
    baselines: list[str] = field(default_factory=list)
    tables: dict[str, TableOf] = field(default_factory=dict)
    compared: list[str] = field(default_factory=list)
    primary: Primary | None = None
    equivalence: dict[str, float] = field(default_factory=dict)
    pictures: Pictures | None = None
    published: dict[str, dict[str, float]] = field(default_factory=dict)
    bounds: dict[str, dict[str, float]] = field(default_factory=dict)
    threads: Threads = field(default_factory=Threads)
    name: str = field(default="", metadata={"key": False})
    #: File and line of every key, such as ``systems.slr.options.slr-temperature``.
    lines: Lines = field(default_factory=dict, metadata={"key": False})

    @property
    def tests(self) -> list[str]:
        """The test sets: all splits but train and valid."""
        return [name for name in self.corpus.splits if name not in ("train", "valid")]

    @property
    def scored(self) -> list[str]:
        """The test sets that are translated and scored."""
        return self.score.tests or self.tests

    @property
    def classifies(self) -> bool:
        """The task is another than translation."""
        return self.task != "translation"

    @property
    def predicts(self) -> Literal["label", "label set", "number", "option", "answer", "pair"]:
        """What models of such a task predict of an example; ``pair``: which line of a pair."""
        if self.task == "masked_lm":
            return "pair"
        if self.task != "sentence_prediction":
            return "option" if self.task == "sentence_ranking" else "answer"
        if self.train.get("regression-target"):
            return "number"
        return "label set" if self.train.get("criterion") == "multi_label_prediction" else "label"

    @property
    def texts(self) -> dict[str, Any]:
        """What the names of text files end in, as settings of steps (:mod:`~syntax_experiments.texts`)."""
        if not self.classifies:
            return {"source": self.source, "target": self.target}
        if self.task == "span_prediction":
            return {"inputs": ["passage", "question"], "task": self.task}
        given = self.corpus.splits["train"]
        if self.task == "sentence_ranking":
            return {"inputs": [name for name in _INPUTS if getattr(given, name)], "task": self.task}
        if self.task == "masked_lm":
            return {"inputs": ["input0"], "task": self.task}
        return {"inputs": ["input0", *(["input1"] if given.input1 else [])]}

    @property
    def full_labels(self) -> dict[str, str]:
        """A label of each system that can stand alone.

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

    @property
    def comparisons(self) -> list[tuple[str, str]]:
        """The pairs of a system and its baseline in some table, each once."""
        tables = self.of_tables.values()
        pairs = [(name, of) for table in tables for of in table.baselines for name in table.systems or self.systems]
        return [(name, baseline) for name, baseline in dict.fromkeys(pairs) if name != baseline]

    def __post_init__(self) -> None:
        if not self.seeds or len(set(self.seeds)) < len(self.seeds):
            raise ValueError(f"seeds: expected some, each once, found {self.seeds}")
        for metric, bound in self.equivalence.items():
            if bound <= 0:
                raise ValueError(f"equivalence.{metric}: expected a difference above 0, found {bound}")
        if self.average is not None and self.average < 1:
            raise ValueError(f"average: expected a number of epochs, found {self.average}")
        of_labels: dict[str, str] = {}
        for name, label in self.full_labels.items():
            if not re.fullmatch(r"[A-Za-z0-9_.+-]+", name):
                raise ValueError(f"systems: expected names of letters, digits and _ . + -, found {short_repr(name)}")
            _choice(f"systems.{name}.parser", self.systems[name].parser or "none", ("none", OF_WORDS, *self.parsers))
            if (other := of_labels.setdefault(label, name)) != name:
                raise ValueError(f"systems.{name}.label: expected another than that of {other}, {short_repr(label)}")
        self._check_task()
        self._check_names()
        for name, command in self.measurements.items():
            if "{model}" not in command and "{run}" not in command:
                expected = "expected a command with {model} or {run}"
                raise ValueError(f"measurements.{name}: {expected}, found {short_repr(command)}")
            if "{subsets}" in command and not self.subsets:
                raise ValueError(f"measurements.{name}: expected subsets, which {{subsets}} stands for, found none")
        for name, parser in self.parsers.items():
            if parser.files and parser.files.keys() != self.corpus.splits.keys():
                raise ValueError(f"parsers.{name}.files: expected {', '.join(self.corpus.splits)}")

    def _check_task(self) -> None:
        """Raise :class:`ValueError` for a key that the task does not have, or needs."""
        of_labels, of_pairs = (*_INPUTS, "label", "questions"), ("source", "target")
        needed = [*self.texts.get("inputs", ()), "label"] if self.classifies else of_pairs
        if self.task == "span_prediction":
            needed = ["questions"]
        if self.task == "masked_lm":
            needed = ["input0"]
        if self.task == "sentence_ranking":
            options = len(needed) - 2
            if options < 2 or needed[:-1] != [*_INPUTS[: options + 1]]:
                expected = "expected input0, and at least the options input1 and input2"
                raise ValueError(f"corpus.splits.train: {expected}, found {', '.join(needed[:-1])}")
            if self.train.get("num-classes") != options:
                expected = f"expected {options}, as there are options"
                raise ValueError(f"train.num-classes: {expected}, found {self.train.get('num-classes')}")
        for name, split in self.corpus.splits.items():
            given = [key for key in (*of_pairs, *of_labels) if getattr(split, key)]
            if sorted(given) != sorted(needed):
                expected = f"expected {', '.join(needed)} for {self.task}"
                raise ValueError(f"corpus.splits.{name}: {expected}, found {', '.join(given) or 'none of them'}")
        if not self.classifies and not self.target:
            raise ValueError("expected target in the recipe, found none")
        if self.classifies:
            _unused(self.task, "", self, target="", text=Text(), generate={}, pictures=None)
            _unused(self.task, "score.", self.score, tests=[])
            if self.task in ("span_prediction", "masked_lm"):
                _unused(self.task, "", self, select={}, subsets={})
                _unused(self.task, "score.", self.score, ignored_label=None)
            if self.task == "span_prediction":
                _choice("subwords.kind", self.subwords.kind, ("none", "wordpiece", "gpt2"))
            for name, split in self.corpus.splits.items():  # `select` chooses lines, and their parses
                at = f"corpus.splits.{name}."
                _unused(
                    self.task, at, split, format="lines", limits=True, keep_every=None, drop_every=None, reference=None
                )
                if self.task == "span_prediction":
                    _unused(self.task, at, split, replace={})
            if self.task != "sentence_prediction" and self.train.get("regression-target"):
                raise ValueError(f"train.regression-target: expected none for {self.task}")
        if self.subwords.files and not self.classifies:
            raise ValueError(f"subwords.kind: expected one that is learned, found {self.subwords.kind}")
        parsers = [name for name, parser in self.parsers.items() if parser.name != "files"]
        if self.subwords.markers and parsers:
            expected = "expected files, of text without the markers of subwords.markers"
            raise ValueError(f"parsers.{parsers[0]}: {expected}, found the parser {self.parsers[parsers[0]].name}")

    def _check_names(self) -> None:
        """Raise :class:`ValueError` for a name of a system, metric or split that there is not."""
        if self.score.tests != self.tests[: len(self.score.tests)]:
            first = f"expected the first of {', '.join(self.tests)}"
            raise ValueError(f"score.tests: {first}, found {', '.join(self.score.tests)}")
        of_tables = [name for table in self.of_tables.values() for name in (*table.baselines, *table.systems)]
        metrics = self.score.names
        if self.classifies:
            of_options = ("accuracy", *(("precision", "recall", "F1") if self.score.ignored_label else ()))
            known_of = {"answer": (EXACT_MATCH, "F1"), "option": of_options, "pair": of_options}
            metrics = known_of.get(self.predicts, OF_LABELS)
        of_primary = [name for pair in self.primary.pairs for name in pair] if self.primary else []
        decided = {"compared": self.compared, "equivalence": self.equivalence}
        decided |= {"primary.metric": [self.primary.metric]} if self.primary else {}
        known: dict[str, tuple[Iterable[str], Iterable[str]]] = {
            "pictures": (self.pictures.names if self.pictures else [], self.systems),
            "tables": (of_tables, self.systems),
            "primary.comparisons": (of_primary, self.systems),
            # A measurement's columns are its own.
            **({} if self.measurements else {key: (names, (*metrics, LOSS)) for key, names in decided.items()}),
            "select": (self.select, self.corpus.splits),
        }
        for key, (names, among) in known.items():
            for name in names:
                _choice(key, name, among)


def read_recipe(name: str) -> Recipe:
    """Return the recipe of a name, or in the file of that path.

    Raises:
        InputError: there is none, or it is invalid; with file and line.
    """
    path = Path(recipe_path(name)).absolute()
    if not path.is_file():
        known = ", ".join(recipe_names())
        raise InputError(str(path), None, f"expected a recipe, found none; there are {known}, or name a file")
    if path.stem.startswith("."):  # a folder is named by it
        raise InputError(str(path), None, "expected a recipe's file name that begins with no dot; rename it")
    found, lines = read_mapping(str(path))
    recipe: Recipe = build(Recipe, found, lines)
    return replace(recipe, name=path.stem, lines=lines)


def with_here(recipe: Recipe, text: str, *keys: str) -> str:
    """Replace ``{here}`` by the folder of the file that has the first of `keys`."""
    key = next((key for key in keys if key in recipe.lines), None)
    return text if key is None else text.replace("{here}", str(Path(recipe.lines[key][0]).resolve().parent))


def expanded(recipe: Recipe, value: Any, key: str) -> Any:
    """Replace ``{here}`` and variables of the environment in the value of a key; one that is not set is an error."""
    if not isinstance(value, str):
        return value
    text = os.path.expandvars(with_here(recipe, value, key))
    if "$" in text:
        expected = "expected a variable of the environment that is set"
        raise InputError(*place(recipe.lines, key), f"{key}: {expected}, found {text}")
    return text


def folder_of(recipe: Recipe) -> str | None:
    """Return the corpus' local folder, if it has one; :class:`InputError` if there is no such folder."""
    if recipe.corpus.folder is None:
        return None
    folder = expanded(recipe, recipe.corpus.folder, "corpus.folder")
    if not os.path.isdir(folder):
        raise InputError(recipe.name, None, f"expected the data in the folder {folder}, found none")
    return os.path.abspath(folder)


def _check_range(name: str, bounds: Range) -> None:
    known = [bound for bound in bounds if bound is not None]
    if len(bounds) != 2 or known != sorted(known):
        raise ValueError(f"{name}: expected two numbers, the least and the greatest, found {bounds}")


def _unused(task: str, at: str, of: Any, **defaults: Any) -> None:
    """Raise :class:`ValueError` for a key `at` a place that the task does not have, unless it is its default."""
    for key, default in defaults.items():
        if (found := getattr(of, key)) != default:
            raise ValueError(f"{at}{key}: expected none for {task}, found {short_repr(found)}")


def _choice(name: str, value: str, known: Any) -> None:
    if value not in known:
        raise ValueError(f"{name}: expected one of {', '.join(known)}, found {short_repr(value)}")

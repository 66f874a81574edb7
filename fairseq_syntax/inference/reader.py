"""Parses of new sentences, for translating them: from the parser that the training data had, or from files."""

from __future__ import annotations

import logging
import os
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from fairseq_syntax.nn.masks import UNKNOWN
from syntax_preprocess.alignment import SUBWORDS, AlignmentError, Subwords, plain_words
from syntax_preprocess.data_bin.places import signature_path
from syntax_preprocess.data_bin.signature import Signature, SplitSignature
from syntax_preprocess.errors import InputError
from syntax_preprocess.features import FEATURES, parse_kinds
from syntax_preprocess.features.aligned import AlignedSentence, Settings, align_sentence
from syntax_preprocess.formats import FORMATS
from syntax_preprocess.lines import tokenize_line
from syntax_preprocess.lockstep import in_lockstep
from syntax_preprocess.parsers import (
    MAX_INITIAL_FAILURES,
    MAX_TOKENS,
    Line,
    Parse,
    Parser,
    default_characters,
    parse_lines,
    parser_class,
    parser_names,
)
from syntax_preprocess.trees import NoParse

logger = logging.getLogger(__name__)

#: The task's options that say where parses of new text come from.
NEW_TEXT_OPTIONS = ("parser", "stanza_dir", "parser_device", "input_parses")

#: The parses of a line by kind, ``trees`` and ``conllu``, as far as they are wanted.
Parses = dict[str, Any]


@dataclass(frozen=True)
class SourceLine:
    """A line to be translated.

    Attributes:
        number: of the line in all of the input, from 1.
        text: as it was given, but for marks of subwords.
        subwords: what the model reads, `marked` the same with marks.
    """

    number: int
    text: str
    marked: list[str]
    subwords: Subwords


class SourceTokens(list[Tensor]):
    """Token ids of sentences, as fairseq's inference takes them (each ``(n,)``, ``</s>`` the last), and more.

    Attributes:
        numbers: of the sentences' lines.
        sentences: their words and parses.
        syntax: for each feature one tensor a sentence, ``(n,)``, or ``(0,)`` without the parse it is made of.
    """

    def __init__(
        self,
        tokens: Iterable[Tensor],
        numbers: list[int],
        sentences: list[AlignedSentence],
        syntax: dict[str, list[Tensor]],
    ):
        super().__init__(tokens)
        self.numbers = numbers
        self.sentences = sentences
        self.syntax = syntax

    @property
    def without_parse(self) -> Counter[str]:
        """How many sentences have no parse, by the reason; those without words are not counted."""
        return Counter(reason for sentence in self.sentences for reason in reasons_without_parse(sentence))


def reasons_without_parse(sentence: AlignedSentence) -> set[str]:
    """Why a sentence with words has no parse; nothing where it has all that are wanted."""
    parses = (sentence.trees, sentence.dependencies) if sentence.words else ()
    return {parse.reason for parse in parses if isinstance(parse, NoParse)}


class ParseSource(ABC):
    """Where parses of the input come from.

    Attributes:
        failures: the reasons for which a line has no parse because something went wrong here.
    """

    failures: ClassVar[Sequence[str]] = ()

    @abstractmethod
    def parse(self, lines: Sequence[SourceLine]) -> list[Parses]:
        """The parses of the next lines of the input."""

    @abstractmethod
    def mismatched(self, line: SourceLine, kind: str, error: AlignmentError) -> None:
        """Called where a parse is of another text than its line's; raises, or says that the line has none."""

    def end(self) -> None:
        """Called after the last line. Raises :class:`InputError` if there are more parses."""


class NoParses(ParseSource):
    """``--parser none``: no line has a parse, so that the model is a plain Transformer."""

    def __init__(self) -> None:
        logger.warning("--parser none: the model translates without syntax, as a plain Transformer")

    def parse(self, lines: Sequence[SourceLine]) -> list[Parses]:
        return [{} for _ in lines]

    def mismatched(self, line: SourceLine, kind: str, error: AlignmentError) -> None:
        raise AssertionError("there is no parse")


class LiveParses(ParseSource):
    """Parsers that run here. A line that one cannot parse is translated without that parse, and a message says so.

    A parser that has failed on :data:`~syntax_preprocess.parsers.MAX_INITIAL_FAILURES` lines and parsed none is an
    error, and gets no further line.

    Args:
        parsers: each with the kinds of parse that are taken from it, and the limits of
            :func:`~syntax_preprocess.parsers.parse_lines`, ``max_tokens`` and perhaps ``max_characters``.
    """

    failures = ("failed", "mismatch")

    def __init__(self, parsers: Sequence[tuple[Parser, Sequence[str], Mapping[str, int]]]):
        self.parsers = parsers
        self._outcomes: list[Counter[str]] = [Counter() for _ in parsers]

    def parse(self, lines: Sequence[SourceLine]) -> list[Parses]:
        found: list[Parses] = [{} for _ in lines]
        for (parser, kinds, limits), outcomes in zip(self.parsers, self._outcomes, strict=True):

            def failed(line: Line, error: Exception, kinds: Sequence[str] = kinds) -> None:
                _warn(line, kinds, error)

            given = [Line(x.number, " ".join(x.subwords.words) if parser.pretokenized else x.text) for x in lines]
            parses: list[Parse | NoParse] = []
            while len(parses) < len(given):
                # As long as it has parsed nothing, no more lines than it may still fail on.
                may_fail = max(1, MAX_INITIAL_FAILURES - outcomes["failed"])
                end = len(given) if outcomes["parsed"] else len(parses) + may_fail
                some = parse_lines(parser, given[len(parses) : end], failed=failed, **limits)
                outcomes.update(parse.reason if isinstance(parse, NoParse) else "parsed" for parse in some)
                if outcomes["failed"] >= MAX_INITIAL_FAILURES and not outcomes["parsed"]:
                    raise RuntimeError(
                        f"the parser {parser.describe()['name']} failed on {outcomes['failed']} lines and parsed none, "
                        "and said what is above"
                    )
                parses += some
            for line, parse, by_kind in zip(lines, parses, found, strict=True):
                if isinstance(parse, NoParse):
                    by_kind.update(dict.fromkeys(kinds, parse))
                    if parse.reason == "too_long":
                        _warn(line, kinds, f"more than {_spelled(limits)} are not parsed")
                    elif parse.reason not in ("empty", "failed"):
                        _warn(line, kinds, parse.reason)
                else:
                    by_kind.update({kind: getattr(parse, FORMATS[kind].attribute) for kind in kinds})
        return found

    def mismatched(self, line: SourceLine, kind: str, error: AlignmentError) -> None:
        _warn(line, [kind], error)


def _warn(line: Line | SourceLine, kinds: Sequence[str], why: object) -> None:
    logger.warning("line %d has no parse (%s): %s", line.number, ", ".join(kinds), why)


class SideFiles(ParseSource):
    """Files PREFIX.trees and PREFIX.conllu with one parse for each line of the input, empty ones included.

    Raises :class:`InputError` for a file that is not there, or ends before the input does, or goes on after it: at
    the start where the input is a file, at its end where it is a pipe.

    Args:
        prefix: of the files.
        kinds: which of them to read.
        on_mismatch: ``fail`` or ``neutral``, see fairseq-syntax-binarize.
        text: path of the input, or whatever fairseq has in its place.
    """

    def __init__(self, prefix: str, kinds: Sequence[str], on_mismatch: str, text: str):
        self.paths = {kind: FORMATS[kind].path(prefix) for kind in kinds}
        self.on_mismatch = on_mismatch
        for path in self.paths.values():
            if not os.path.isfile(path):
                raise InputError(path, None, "expected the parses of the input (--input-parses), found no file")
        if os.path.isfile(text):
            for _ in in_lockstep(text, self.paths, units=1 << 20):
                pass
        self._units = {kind: FORMATS[kind].read(path) for kind, path in self.paths.items()}
        self._places: dict[tuple[str, int], int] = {}
        self._read = 0

    def parse(self, lines: Sequence[SourceLine]) -> list[Parses]:
        self._places.clear()
        return [{kind: self._next(kind, line) for kind in self.paths} for line in lines]

    def _next(self, kind: str, line: SourceLine) -> Any:
        place, parse = next(self._units[kind], (0, None))
        if parse is None:
            message = f"expected a parse for every line of the input, found none for line {line.number}"
            raise InputError(self.paths[kind], None, message)
        self._read = line.number
        self._places[kind, line.number] = place
        return parse

    def mismatched(self, line: SourceLine, kind: str, error: AlignmentError) -> None:
        if self.on_mismatch == "fail":
            place = self._places[kind, line.number]
            raise InputError(self.paths[kind], place, f"line {line.number} of the input: {error}") from None
        _warn(line, [kind], error)

    def end(self) -> None:
        for kind, units in self._units.items():
            place, _ = next(units, (0, None))
            if place:
                message = f"expected the end, after a parse for each of the {self._read} lines of the input, found more"
                raise InputError(self.paths[kind], place, message)


class SourceReader:
    """Makes :class:`SourceTokens` of lines, in the order of the input.

    Args:
        source: of the parses.
        settings: those of the training data's features.
        features: names of those that are wanted.
        labels: for features that are labels, what their values number.
    """

    def __init__(
        self, source: ParseSource, settings: Settings, features: Sequence[str], labels: Mapping[str, Sequence[str]]
    ):
        self.source = source
        self.settings = settings
        self.features = features
        self._numbers = {name: {label: i for i, label in enumerate(known)} for name, known in labels.items()}
        self._lines = 0

    def restart(self) -> None:
        """The next line is the first again, where messages number lines."""
        self._lines = 0

    def read(self, lines: Sequence[str], encoded: Sequence[str], dictionary: Any) -> SourceTokens:
        """Parses lines.

        Args:
            lines: as they were given.
            encoded: the same as subwords with spaces between them.
            dictionary: fairseq's, of the source language.
        """
        given = [self._line(self._lines + i, *line) for i, line in enumerate(zip(lines, encoded, strict=True), start=1)]
        self._lines += len(given)
        sentences = [self._align(line, parses) for line, parses in zip(given, self.source.parse(given), strict=True)]
        syntax = {
            name: [torch.tensor(FEATURES[name].values(s, self._numberer(name))).long() for s in sentences]
            for name in self.features
        }
        return SourceTokens(
            (self._ids(line, dictionary) for line in given), [line.number for line in given], sentences, syntax
        )

    def _line(self, number: int, text: str, encoded: str) -> SourceLine:
        marked = tokenize_line(encoded)
        try:
            subwords = SUBWORDS[self.settings.subwords](marked)
        except AlignmentError as error:
            logger.warning("line %d: %s", number, error)
            subwords = plain_words(marked)
        # Text that nothing was done to may have been subwords before.
        return SourceLine(number, " ".join(subwords.words) if encoded == text else text, marked, subwords)

    def _align(self, line: SourceLine, parses: Parses) -> AlignedSentence:
        sentence = align_sentence(" ".join(line.marked), line.subwords, parses, settings=self.settings)
        for kind, error in sentence.mismatches.items():
            self.source.mismatched(line, kind, error)
        return sentence

    def _numberer(self, feature: str) -> Callable[[str], int]:
        numbers = self._numbers.get(feature, {})
        return lambda label: numbers.get(label, UNKNOWN)

    def _ids(self, line: SourceLine, dictionary: Any) -> Tensor:
        special = [symbol for symbol in line.marked if symbol in (dictionary.pad_word, dictionary.eos_word)]
        if special:
            logger.warning("line %d: %s is taken for an unknown word", line.number, ", ".join(special))
        text = " ".join(dictionary.unk_word if symbol in special else symbol for symbol in line.marked)
        return dictionary.encode_line(text, add_if_not_exist=False).long()


def source_reader(cfg: Any, features: Iterable[str]) -> SourceReader:
    """The reader that a task's configuration describes, together with the signature in its data-bin.

    Args:
        cfg: :class:`~fairseq_syntax.tasks.syntax_translation.SyntaxTranslationConfig`.
        features: names of the features that the models need.

    Raises:
        ValueError: neither the configuration nor a signature says where parses come from, or it cannot be had.
    """
    signature, split = _recorded(cfg)
    settings = Settings(**split.settings) if split else Settings()
    if split is None:
        logger.warning(
            "%s has no signature of syntax features: subwords are taken for those of %s", cfg.data, settings.subwords
        )
    wanted = sorted(features)
    kinds = parse_kinds(wanted)
    source: ParseSource
    if cfg.input_parses is not None:
        if cfg.parser is not None:
            raise ValueError("expected --input-parses or --parser, found both")
        source = SideFiles(cfg.input_parses, kinds, settings.on_mismatch, str(cfg.interactive_input))
    elif cfg.parser == "none":
        source = NoParses()
    else:
        source = LiveParses(_parsers(cfg, kinds, split))
    return SourceReader(source, settings, wanted, signature.labels)


def _recorded(cfg: Any) -> tuple[Signature, SplitSignature | None]:
    """The signature of the source side, and of it the training data's."""
    for data in str(cfg.data).split(os.pathsep):
        for pair in ((cfg.source_lang, cfg.target_lang), (cfg.target_lang, cfg.source_lang)):
            path = signature_path(data, pair, cfg.source_lang)
            if os.path.exists(path):
                signature = Signature.read(path)
                splits = signature.splits
                return signature, splits.get("train") or next(iter(splits.values()), None)
    return Signature(), None


def _parsers(
    cfg: Any, kinds: Sequence[str], split: SplitSignature | None
) -> list[tuple[Parser, Sequence[str], Mapping[str, int]]]:
    recorded = split.parser if split else {}
    by_parser: list[tuple[dict[str, Any], list[str]]] = []
    for kind in kinds:
        description = dict(recorded.get(kind, {}))
        if cfg.parser is not None and description.get("name") != cfg.parser:
            description = {"name": cfg.parser}
        description.setdefault("lang", cfg.source_lang)
        if (name := description.get("name")) not in (startable := _startable()):
            raise ValueError(
                f"{kind}: expected a parser that can be run here ({', '.join(startable)}) in the signature of the "
                f"training data, found {repr(name) if name else 'none'}; --parser names another one, --input-parses "
                "PREFIX takes parses that were made before, --parser none translates without syntax"
            )
        description = {key: value for key, value in description.items() if key not in ("text", "sha256")}
        same = next((k for d, k in by_parser if d == description), None)
        if same is None:
            by_parser.append((description, [kind]))
        else:
            same.append(kind)
    return [(_start(cfg, d, k), k, _limits(d.get("settings", {}))) for d, k in by_parser]


def _limits(settings: Mapping[str, Any]) -> dict[str, int]:
    """Those that the training data was parsed with."""
    return {"max_tokens": MAX_TOKENS} | {k: settings[k] for k in ("max_tokens", "max_characters") if k in settings}


def _spelled(limits: Mapping[str, int]) -> str:
    characters = limits.get("max_characters", default_characters(limits["max_tokens"]))
    return f"{limits['max_tokens']} tokens or {characters} characters"


def _startable() -> list[str]:
    """The parsers that can be started from a description."""
    own = Parser.from_description.__func__  # type: ignore[attr-defined]
    return [name for name in parser_names() if parser_class(name).from_description.__func__ is not own]  # type: ignore[attr-defined]


def _start(cfg: Any, description: dict[str, Any], kinds: Sequence[str]) -> Parser:
    parser = parser_class(description["name"]).from_description(
        description, kinds=kinds, models=cfg.stanza_dir, device=cfg.parser_device
    )
    missing = [kind for kind in kinds if kind not in parser.kinds]
    if missing:
        raise ValueError(f"the parser {description['name']} makes no {', '.join(missing)}, which the model needs")
    for key, found in parser.describe().items():
        if key in description and key != "processors" and not _agrees(description[key], found):
            logger.warning(
                "the parser's %s differs from the training data's: expected %s, found %s", key, description[key], found
            )
    return parser


def _agrees(recorded: Any, found: Any) -> bool:
    """Equal; of two tables, as far as both have the same keys."""
    if isinstance(recorded, dict) and isinstance(found, dict):
        return all(recorded[key] == found[key] for key in recorded.keys() & found.keys())
    return bool(recorded == found)

"""Reader of new text: from lines to subwords, parses and features."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from fairseq_syntax.data.training_record import DataBins, label_vocabulary
from fairseq_syntax.inference.parse_sources import (
    ParsesFromFiles,
    ParsesFromParser,
    ParseSource,
    SourceLine,
    WithoutParses,
)
from fairseq_syntax.inference.parsed_batch import ParsedBatch
from fairseq_syntax.inference.recorded_parser import start_parsers
from fairseq_syntax.modules.biases import UNKNOWN
from syntax_data.controls import Control
from syntax_data.errors import InputError
from syntax_data.features import FEATURES, parse_kinds
from syntax_data.features.aligned import Settings, align_sentence
from syntax_data.parsers.record import file_hash
from syntax_data.text.alignment import AlignmentError, plain_words
from syntax_data.text.lines import tokenize_line
from syntax_data.text.subwords import SENTENCEPIECE_HINT, first_marked_line, read_markers, subword_kind, subword_reader
from syntax_data.text.symbols import symbol_pattern
from syntax_data.trees.bad_parses import BadParses

logger = logging.getLogger(__name__)

#: The task's options about parses of new text.
NEW_TEXT_OPTIONS = ("parser", "parser_models", "parser_device", "input_parses", "on_bad_parse")


class SourceReader:
    """Makes parsed batches of lines, in the order of the input.

    Args:
        source: of the parses.
        settings: of the training data's features.
        features: names of the wanted features.
        labels: for features that number labels, these, from number 0.
        vocabulary: the file of subwords that need one.
    """

    def __init__(
        self,
        source: ParseSource,
        settings: Settings,
        features: Sequence[str],
        labels: Mapping[str, Sequence[str]],
        vocabulary: str | None = None,
    ):
        self.source = source
        self.settings = settings
        self.features = features
        self._numbers = {name: {label: i for i, label in enumerate(known)} for name, known in labels.items()}
        self._read_subwords = subword_reader(settings.subwords, vocabulary, settings.markers)
        self._markers = read_markers(settings.markers)
        self._lines = 0
        self._unknown: set[tuple[str, str]] = set()

    def restart(self, first: int = 1) -> None:
        """Counts lines from a first number again, for messages."""
        self._lines = first - 1

    def read(self, lines: Sequence[str], encoded: Sequence[str], dictionary: Any) -> ParsedBatch:
        """Parse lines, `encoded` as subwords of fairseq's source `dictionary`."""
        given = [self._line(self._lines + i, *line) for i, line in enumerate(zip(lines, encoded, strict=True), start=1)]
        self._lines += len(given)
        rest = symbol_pattern(self.settings.symbols).rest
        if marked := first_marked_line(((line.number, rest(line.marked)) for line in given), self.settings.subwords):
            logger.warning("line %d: %s", marked, SENTENCEPIECE_HINT)
        sentences = []
        for line, parses in zip(given, self.source.parse(given), strict=True):
            sentences.append(align_sentence(" ".join(line.marked), line.subwords, parses, settings=self.settings))
            for kind, error in sentences[-1].mismatches.items():
                self.source.mismatched(line, kind, error)
        features = {
            name: [torch.tensor(FEATURES[name].of(s, self._numberer(name))).long() for s in sentences]
            for name in self.features
        }
        tokens = [self._ids(line, dictionary) for line in given]
        return ParsedBatch(tokens, [line.number for line in given], sentences, features)

    def _line(self, number: int, text: str, encoded: str) -> SourceLine:
        marked = tokenize_line(encoded)
        try:
            subwords = self._read_subwords(marked)
        except AlignmentError as error:
            logger.warning("line %d: %s", number, error)
            subwords = plain_words(marked)
        except ValueError as error:
            raise ValueError(f"line {number}: {error}") from None
        # Text that was not changed may have been subwords before.
        text = " ".join(subwords.words) if encoded == text else text
        if self._markers.intersection(text.split()):
            text = " ".join(word for word in text.split() if word not in self._markers)
        symbols = symbol_pattern(self.settings.symbols)
        return SourceLine(number, symbols.without(text), marked, subwords, symbols.take_out(subwords)[0].words)

    def _numberer(self, feature: str) -> Callable[[str], int]:
        numbers = self._numbers.get(feature, {})  # none for features that are no labels, or without any parse

        def number(label: str) -> int:
            found = numbers.get(label, UNKNOWN)
            if found == UNKNOWN and numbers and (feature, label) not in self._unknown:
                self._unknown.add((feature, label))
                logger.warning("%s %s: not in the data-bin; its words have an unknown label", feature, label)
            return found

        return number

    def _ids(self, line: SourceLine, dictionary: Any) -> Tensor:
        special = [symbol for symbol in line.marked if symbol in (dictionary.pad_word, dictionary.eos_word)]
        if special:
            logger.warning("line %d: %s is taken for an unknown word", line.number, ", ".join(special))
        text = " ".join(dictionary.unk_word if symbol in special else symbol for symbol in line.marked)
        return dictionary.encode_line(text, add_if_not_exist=False).long()


@dataclass(frozen=True)
class NewTextOptions:
    """Options about new text, as :class:`~fairseq_syntax.tasks.translation_options.SyntaxTranslationConfig` has them.

    Those here have no files of parses.
    """

    data: str
    parser: str | None = None
    parser_models: str | None = None
    parser_device: str | None = None
    gpt2_encoder_json: str | None = None
    source_lang: str | None = None
    input_parses: None = None
    on_bad_parse: None = None


def source_reader(cfg: Any, features: Iterable[str], texts: Sequence[DataBins] = ()) -> SourceReader:
    """Return the reader that a task's options and its data-bin's signature describe.

    Args:
        cfg: :class:`~fairseq_syntax.tasks.translation_options.SyntaxTranslationConfig`, or :class:`NewTextOptions`.
        features: names of the features that the models need.
        texts: data-bins of the texts whose lines make an example, made by the same parser with the same settings; none:
            that of the translation task.

    Raises:
        InputError: there is no signature, and the options name no source of the parses that are needed.
        ValueError: neither options nor signature name a source of parses, or it is not there; or the signature lacks
            the labels of a feature.
    """
    texts = texts or [DataBins.of_translation(cfg)]
    path, split = texts[0].recorded_split()
    settings = Settings(**split.settings) if split else Settings()
    wanted = sorted(features)
    kinds = parse_kinds(wanted)
    if split is None:
        message = "expected the signature of the training data, which records its parser and its subwords, found none"
        if kinds and cfg.parser is None and cfg.input_parses is None:
            raise InputError(path, None, f"{message}: give the folder of the training data, or --parser NAME")
        logger.warning("%s: %s: subwords are taken for %s's", path, message, settings.subwords)
    control = Control.read(settings.control) if settings.control else None
    if control and control.kind == "shuffled" and cfg.parser != "none":
        raise ValueError(
            f"{path}: the training data has the parses of other sentences of its split (--control {control}), of which "
            "new text has none: binarize it as a test split with this control, for fairseq-generate "
            "or fairseq-syntax-predict; --parser none leaves parses out"
        )
    unparsed = cfg.parser == "none" and cfg.input_parses is None
    labels = {} if unparsed else label_vocabulary(texts, wanted, needed=True)
    source: ParseSource
    if cfg.input_parses is not None:
        if cfg.parser is not None:
            raise ValueError("expected --input-parses or --parser, found both")
        bad = BadParses(cfg.on_bad_parse or settings.on_bad_parse)
        source = ParsesFromFiles(cfg.input_parses, kinds, bad, str(cfg.interactive_input))
    elif cfg.parser == "none" or (control and control.kind == "no-parse"):
        source = WithoutParses("--parser none" if cfg.parser == "none" else f"--control {control} of the training data")
    else:
        options = {"name": cfg.parser, "models": cfg.parser_models, "device": cfg.parser_device}
        recorded = split.parser if split else {}
        parsers = start_parsers(recorded, wanted, lang=cfg.source_lang, **options)
        made = {name for handle in parsers for name in handle.parser.word_labels}
        if missing := [name for name in wanted if name not in FEATURES and name not in made]:
            message = f"expected a parser that makes the word labels {', '.join(missing)}, which the model needs"
            raise ValueError(f"{message}, found none; --input-parses reads CoNLL-U with them in MISC")
        source = ParsesFromParser(parsers)
    return SourceReader(source, settings, wanted, labels, _find_vocabulary(cfg, settings))


def _find_vocabulary(cfg: Any, settings: Settings) -> str | None:
    """Return the file of subwords that need one, which must be the training data's."""
    kind, _ = subword_kind(settings.subwords)
    if kind.vocabulary_option is None:
        return None
    path = kind.vocabulary_in(cfg)
    if path is None or not os.path.isfile(path):  # a checkpoint has fairseq's default, a URL
        found = "none" if path is None else f"no file {path}"
        raise ValueError(f"expected {kind.vocabulary_option} FILE, as the training data was binarized, found {found}")
    if (found := file_hash(path)) != settings.vocabulary:
        expected = f"the file by which the training data was binarized (SHA-256 {settings.vocabulary})"
        raise InputError(path, None, f"expected {expected}, found another one ({found})")
    return path

"""Features of a split: subword text and its parses, encoded many lines at a time."""

from __future__ import annotations

import os
import pickle
import sys
import time
from array import array
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import Any

import numpy as np
from tqdm import tqdm

from syntax_data.controls import Control, SentencePool
from syntax_data.data_bin.dictionary import EOS, UNKNOWN, read_dictionary
from syntax_data.data_bin.mmap import MmapValues, MmapWriter
from syntax_data.data_bin.paths import TokenFiles
from syntax_data.data_bin.split_counts import SplitCounts
from syntax_data.errors import BadParse, InputError, short_repr
from syntax_data.features import FEATURES, INFINITE, MOST_LABELS
from syntax_data.features.aligned import Settings, align_sentence
from syntax_data.features.sentence import AlignedSentence
from syntax_data.io.workers import Workers
from syntax_data.text.alignment import AlignmentError, Subwords, plain_words
from syntax_data.text.lines import read_lines, tokenize_line
from syntax_data.text.ranges import Range
from syntax_data.text.subwords import SENTENCEPIECE_HINT, first_marked_line, read_markers, subword_reader
from syntax_data.text.symbols import advice, symbol_pattern
from syntax_data.trees.bad_parses import BadParses
from syntax_data.trees.counts import ParseCounts
from syntax_data.trees.formats import CONLLU, FORMATS, TREES
from syntax_data.trees.parallel_files import parallel_entries, parallel_ranges
from syntax_data.trees.tree import NoParse

#: Lines that a worker gets at a time.
LINES_AT_ONCE = 1000


@dataclass(frozen=True)
class Split:
    """A split's subword text, its parses by format, its tokens, and its features.

    `vocabulary` is the file of subwords that need one; `words`, the tokens of the text's words, if the features are
    beside these.
    """

    text: str
    parse_prefix: str
    parses: dict[str, str]
    features: list[str]
    tokens: TokenFiles
    vocabulary: str | None = None
    words: TokenFiles | None = None

    @property
    def name(self) -> str:
        """``train``, ``valid1`` …"""
        return self.tokens.split

    @property
    def inputs(self) -> list[str]:
        """Paths of the text, its vocabulary, its parses and its tokens."""
        vocabulary = [self.vocabulary] if self.vocabulary else []
        of_words = [self.words.dictionary, *self.words.tokens, self.words.signature] if self.words else []
        tokens = [self.tokens.dictionary, *self.tokens.tokens]
        return [self.text, *vocabulary, *self.parses.values(), *tokens, *of_words]


class EncodedLines:
    """Features of consecutive sentences.

    Attributes:
        lengths: for each feature, the number of values of each sentence.
        values: for each feature, the values of all sentences.
        labels: for features that are labels, the number of each label here, from 1, and the line of the parse file at
            which the first sentence with it begins.
        counts: of the sentences.
        bad: the first bad parse of each file and reason that was skipped.
    """

    def __init__(self, split: Split):
        self.lengths = {name: array("i") for name in split.features}
        self.values = {name: array("I") for name in split.features}
        self.labels: dict[str, dict[str, tuple[int, int]]] = {n: {} for n in split.features if FEATURES[n].labels == ()}
        self.counts = SplitCounts({kind: ParseCounts() for kind in split.parses})
        self.bad: list[BadParse] = []

    def add(self, sentence: AlignedSentence, lines: Mapping[str | None, int]) -> None:
        """Add a sentence; `lines` has the line at which each parse begins, by kind."""
        self.counts.add(sentence)
        for name, lengths in self.lengths.items():
            feature = FEATURES[name]
            values = feature.of(sentence, partial(self._number, name, lines.get(feature.source, 0)))
            lengths.append(len(values))
            self.values[name].extend(values)

    def _number(self, feature: str, line: int, label: str) -> int:
        numbers = self.labels[feature]
        return numbers.setdefault(label, (len(numbers) + 1, line))[0]


def encode_lines(
    ranges: Mapping[str, Range], *, split: Split, settings: Settings, pool: str | None, run: int
) -> EncodedLines:
    """Compare lines with their tokens; read, check, align and encode their parses.

    `pool` is a path of :func:`_write_pool`; `run`, a number that no other run in this process has.
    """
    _check_tokens(ranges["text"], split.tokens, run)
    found = EncodedLines(split)
    bad = BadParses(settings.on_bad_parse, found.bad.append)
    others = _read_pool(pool, run) if pool else None
    markers = read_markers(settings.markers)
    read = _subword_reader(settings.subwords, split.vocabulary, settings.markers, run)
    for number, text, entries in parallel_entries(ranges):
        tokens = tokenize_line(text)
        found.counts.totals["markers"] += sum(token in markers for token in tokens)
        subwords = _subwords(tokens, read, split.text, number, bad)
        if split.words:
            _check_sentence(subwords.words, split.text, number, split.words, run, "make both data-bins from one text")
        sentence = align_sentence(text, subwords, _parses(entries, split, bad), settings=settings, pool=others)
        for kind, mismatch in sentence.mismatches.items():
            message = (
                f"{split.text}:{number}: {mismatch} (--subwords says how words were cut"
                f"{advice(subwords.words, settings.symbols)}; if normalize-punctuation or another program changed the "
                "text after parsing, parse the text that it wrote)"
            )
            bad.no_parse(BadParse(split.parses[kind], entries[kind][0], message, "mismatch"))
        found.add(sentence, {kind: line for kind, (line, _) in entries.items()})
    return found


def _subwords(
    tokens: list[str], read: Callable[[Sequence[str]], Subwords], path: str, line: int, bad: BadParses
) -> Subwords:
    try:
        return read(tokens)
    except AlignmentError as error:
        bad.no_parse(BadParse(path, line, str(error), "mismatch"))
        return plain_words(tokens)  # no parse has these words
    except ValueError as error:
        raise InputError(path, line, str(error)) from None


def _parses(entries: Mapping[str, tuple[int, Any]], split: Split, bad: BadParses) -> dict[str, Any]:
    return {
        kind: bad.read(FORMATS[kind].parse, entry, path=split.parses[kind], line=line)
        for kind, (line, entry) in entries.items()
    }


def _check_tokens(text: Range, files: TokenFiles, run: int) -> None:
    """Raise :class:`InputError` for a line that is not the sentence of the data-bin."""
    for number, line in text.lines():
        words = tokenize_line(line)
        if len(words) >= INFINITE:
            raise InputError(text.path, number, f"expected fewer than {INFINITE} subwords, found {len(words)}")
        for symbol in ("<pad>", "</s>"):
            if symbol in words:
                raise InputError(text.path, number, f"expected text, found {symbol}, which is a symbol of fairseq's")
        _check_sentence(words, text.path, number, files, run, "run fairseq-preprocess on this text first")


def _check_sentence(words: Sequence[str], path: str, line: int, files: TokenFiles, run: int, remedy: str) -> None:
    """Raise :class:`InputError` unless a line's words are the tokens of its sentence; of ``<unk>`` any word is."""
    ids, tokens = _read_tokens(files, run)
    sentence = tokens.between(line - 1, line).tolist()
    if sentence != [*(ids.get(word, UNKNOWN) for word in words), EOS]:
        symbols = {i: symbol for symbol, i in ids.items()}
        expected = short_repr(" ".join(symbols.get(i, f"<{i}>") for i in sentence if i != EOS))
        message = f"expected {expected}, sentence {line - 1} (counted from 0) of {files.prefix}, found another text"
        raise InputError(path, line, f"{message}: {remedy}")


@lru_cache(maxsize=1)
def _subword_reader(kind: str, vocabulary: str | None, markers: str, _run: int) -> Callable[[Sequence[str]], Subwords]:
    """The reader of subwords; a process reads their vocabulary once in a run."""
    return subword_reader(kind, vocabulary, markers)


@lru_cache(maxsize=2)
def _read_tokens(files: TokenFiles, _run: int) -> tuple[dict[str, int], MmapValues]:
    """The dictionary's ids and a split's tokens; a process reads them once in a run."""
    return read_dictionary(files.dictionary), MmapValues(files.prefix)


def write_split(
    split: Split, folder: str, *, settings: Settings, labels: dict[str, list[str]], workers: Workers
) -> SplitCounts:
    """Write a split's features to a folder.

    `workers` read byte ranges of the files, a bounded number at a time, whose features are written in order: memory
    does not grow with the text, nor does the output depend on the number of workers. New labels are added to `labels`.
    """
    with open(split.text, "rb") as file:
        lines = sum(1 for _ in file)
    for prefix in (files.prefix for files in (split.tokens, split.words) if files):
        if lines != (sentences := len(MmapValues(prefix).lengths)):
            message = f"expected {sentences} lines, as {prefix} has sentences, found {lines}"
            raise InputError(split.text, None, f"{message}: run fairseq-preprocess on this text first")
    if unknown := read_markers(settings.markers) - read_dictionary(split.tokens.dictionary).keys():
        message = (
            f"expected the symbols of --markers, found no {short_repr(min(unknown))}: it would be <unk> to a model"
        )
        raise InputError(split.tokens.dictionary, None, message)
    rest = symbol_pattern(settings.symbols).rest
    numbered = ((number, rest(tokenize_line(line))) for number, line in read_lines(split.text))
    if marked := first_marked_line(numbered, settings.subwords):
        raise InputError(split.text, marked, SENTENCEPIECE_HINT)
    counts = SplitCounts({kind: ParseCounts() for kind in split.parses})
    writers = {
        name: MmapWriter(os.path.join(folder, os.path.basename(split.tokens.feature(name))), FEATURES[name].dtype)
        for name in split.features
    }
    pool = None
    if settings.control and Control.read(settings.control).kind == "shuffled":
        pool = os.path.join(folder, f"{split.name}.pool")
        _write_pool(pool, split, replace(settings, control=None), workers)
    absent = {name for name in split.features if name not in FEATURES}  # word labels without a value so far
    encode = partial(encode_lines, split=split, settings=settings, pool=pool, run=time.monotonic_ns())
    with tqdm(desc=split.name, total=lines, unit=" sentences", unit_scale=True, disable=None) as progress:
        shown_once = BadParses("skip", lambda error: progress.write(f"skipped ({error.reason}): {error}", sys.stderr))
        for encoded in workers.map_ordered(encode, parallel_ranges(split.text, split.parses, LINES_AT_ONCE)):
            for error in encoded.bad:
                shown_once.show(error)
            absent -= {name for name in absent if encoded.labels[name].keys() - {"_"}}
            for name, found in encoded.values.items():
                values = np.asarray(found)
                if name in encoded.labels:
                    values = _numbers(name, encoded.labels[name], labels[name], split)[values]
                writers[name].write(np.asarray(encoded.lengths[name]), values)
            counts.update(encoded.counts)
            progress.update(encoded.counts.totals["sentences"])
    for writer in writers.values():
        writer.close()
    if absent:
        message = f"expected {min(absent)}=… in MISC of some word (--word-labels), found none"
        raise InputError(split.parses[CONLLU.name], None, message)
    return counts


def _numbers(feature: str, here: Mapping[str, tuple[int, int]], labels: list[str], split: Split) -> np.ndarray:
    """The data-bin's number of each label `here`; new ones are added to `labels`."""
    labels += [label for label in here if label not in labels]
    if len(labels) > MOST_LABELS + 1:
        one_more = labels[MOST_LABELS + 1]
        others = ",".join(name for name in split.features if name != feature) or "word"
        message = f"{feature}: expected at most {MOST_LABELS} different labels, found one more in this sentence: "
        message += f"{short_repr(one_more)} (--features {others} leaves {feature} out)"
        raise InputError(split.parses[FEATURES[feature].source or ""], here[one_more][1], message)
    return np.array([0, *map(labels.index, here)])


def _write_pool(path: str, split: Split, settings: Settings, workers: Workers) -> None:
    """Write the sentences that ``--control shuffled`` draws from, for all workers."""
    pool = SentencePool()
    gather = partial(_gather, split=split, settings=settings, run=time.monotonic_ns())
    for sentences in workers.map_ordered(gather, parallel_ranges(split.text, split.parses, LINES_AT_ONCE)):
        pool.update(sentences)
    with open(path, "wb") as file:
        pickle.dump(pool, file, pickle.HIGHEST_PROTOCOL)


@lru_cache(maxsize=1)
def _read_pool(path: str, _run: int) -> SentencePool:
    with open(path, "rb") as file:
        pool: SentencePool = pickle.load(file)
    return pool


def _gather(ranges: Mapping[str, Range], *, split: Split, settings: Settings, run: int) -> SentencePool:
    pool = SentencePool()
    bad = BadParses(settings.on_bad_parse)
    read = _subword_reader(settings.subwords, split.vocabulary, settings.markers, run)
    for number, text, entries in parallel_entries(ranges):
        parses = {k: p for k, p in _parses(entries, split, bad).items() if not isinstance(p, NoParse)}
        if any(FORMATS[kind].over_words(parse) for kind, parse in parses.items()):  # the text says which it is
            subwords = _subwords(tokenize_line(text), read, split.text, number, bad)
            aligned = align_sentence(text, subwords, parses, settings=settings)
            parses = {k: p for k, p in aligned.parses.items() if not isinstance(p, NoParse)}
        pool.add(number, parses.get(TREES.name), parses.get(CONLLU.name))
    return pool

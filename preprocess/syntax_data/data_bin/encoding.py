"""Subword text and its parses to features, many lines at a time."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from tqdm import tqdm

from syntax_data.controls import Control, Others
from syntax_data.data_bin.mmap import MmapWriter
from syntax_data.data_bin.others_of_split import read_others, write_others
from syntax_data.data_bin.places import TokenFiles
from syntax_data.data_bin.split_counts import SplitCounts
from syntax_data.data_bin.text_hashes import HASH, text_hashes, word_hash
from syntax_data.errors import BadParse, InputError, short_repr
from syntax_data.features import FEATURES, INFINITE, MOST_LABELS
from syntax_data.features.aligned import Settings, align_sentence
from syntax_data.io.workers import Workers
from syntax_data.parsers.record import record_path
from syntax_data.text.alignment import (
    SENTENCEPIECE_HINT,
    SUBWORDS,
    AlignmentError,
    Subwords,
    first_marked_line,
    plain_words,
)
from syntax_data.text.lines import read_lines, tokenize_line
from syntax_data.text.ranges import Range
from syntax_data.text.symbols import advice, symbol_pattern
from syntax_data.trees.bad_parses import BadParses
from syntax_data.trees.formats import FORMATS
from syntax_data.trees.parallel_files import parallel_ranges

#: How many lines a worker gets at a time.
LINES_AT_ONCE = 1000


@dataclass(frozen=True)
class Split:
    """One split's input files, and what is to be made of them.

    Attributes:
        parses: the parse files by the names of their formats.
        features: names of :data:`syntax_data.features.FEATURES`.
    """

    name: str
    text: str
    parse_prefix: str
    parses: dict[str, str]
    features: list[str]

    @property
    def record(self) -> str:
        """Path of the record that fairseq-syntax-parse writes beside its parses."""
        return record_path(self.parse_prefix)

    @property
    def files(self) -> list[str]:
        """The text and its parses."""
        return [self.text, *self.parses.values()]


@dataclass
class EncodedLines:
    """Features of some consecutive sentences.

    Attributes:
        lengths: for each feature, how many values each sentence has.
        values: for each feature, all values in a row.
        labels: for features that are labels, the labels that the values number here, from 1, and the line of the parse
            file at which the first sentence with each begins.
        text_hashes: of the sentences' subwords, ``(sentences,)``.
        counts: of the sentences.
        bad: the first bad parse of each file and reason that was skipped.
    """

    lengths: dict[str, np.ndarray]
    values: dict[str, np.ndarray]
    labels: dict[str, dict[str, int]]
    text_hashes: np.ndarray
    counts: SplitCounts
    bad: list[BadParse]


class SplitEncoder:
    """Encodes lines of a split one by one, and counts them."""

    def __init__(self, split: Split, settings: Settings, others: Others | None = None):
        self.split = split
        self.settings = settings
        self.others = others
        self.bad: list[BadParse] = []
        self._bad = BadParses(settings.on_bad_parse, self.bad.append)
        self.rows: dict[str, list[list[int]]] = {name: [] for name in split.features}
        self.labels: dict[str, dict[str, tuple[int, int]]] = {n: {} for n in split.features if FEATURES[n].labels == ()}
        self.word_hashes: list[int] = []
        self.lengths: list[int] = []
        self.counts = SplitCounts.of_kinds(list(split.parses))

    def add(self, number: int, text: str, parses: dict[str, tuple[int, Any]]) -> None:
        """Reads, checks and aligns the parses of line `number`, given unread with their own line numbers."""
        tokens = self._tokens(number, text)
        subwords = self._subwords(number, tokens)
        found = {
            kind: self._bad.read(FORMATS[kind].parse, unit, path=self.split.parses[kind], line=place)
            for kind, (place, unit) in parses.items()
        }
        sentence = align_sentence(text, subwords, found, settings=self.settings, others=self.others)
        for kind, error in sentence.mismatches.items():
            hint = f"--subwords says how words were cut{advice(subwords.words, self.settings.symbols)}"
            message = (
                f"{self.split.text}:{number}: {error} ({hint}; if normalize-punctuation or another program changed the "
                "text after parsing, parse the text that it wrote)"
            )
            self._bad.no_parse(BadParse(self.split.parses[kind], parses[kind][0], message, "mismatch"))
        self.counts.add(sentence)
        for name in self.split.features:
            place, _ = parses.get(FEATURES[name].source or "", (0, None))
            self.rows[name].append(FEATURES[name].of(sentence, partial(self._number, name, place)))

    def _tokens(self, number: int, text: str) -> list[str]:
        """A line's subwords, split as fairseq splits them."""
        tokens = tokenize_line(text)
        if len(tokens) >= INFINITE:
            raise InputError(self.split.text, number, f"expected fewer than {INFINITE} subwords, found {len(tokens)}")
        for symbol in ("<pad>", "</s>"):
            if symbol in tokens:
                raise InputError(
                    self.split.text, number, f"expected text, found {symbol}, which fairseq takes for its own symbol"
                )
        self.word_hashes += map(word_hash, tokens)
        self.lengths.append(len(tokens))
        return tokens

    def _subwords(self, number: int, tokens: list[str]) -> Subwords:
        try:
            return SUBWORDS[self.settings.subwords](tokens)
        except AlignmentError as error:
            self._bad.no_parse(BadParse(self.split.text, number, str(error), "mismatch"))
            return plain_words(tokens)  # no parse has these words

    def _number(self, feature: str, place: int, label: str) -> int:
        numbers = self.labels[feature]
        return numbers.setdefault(label, (len(numbers) + 1, place))[0]

    def encoded(self) -> EncodedLines:
        """All that was added."""
        return EncodedLines(
            lengths={name: np.array([len(row) for row in rows], np.int32) for name, rows in self.rows.items()},
            values={
                name: np.fromiter(itertools.chain.from_iterable(rows), dtype=np.uint32)
                for name, rows in self.rows.items()
            },
            labels={
                name: {label: place for label, (_, place) in numbers.items()} for name, numbers in self.labels.items()
            },
            text_hashes=text_hashes(np.array(self.word_hashes, np.uint64), np.array(self.lengths)),
            counts=self.counts,
            bad=self.bad,
        )


def encode_lines(
    ranges: Mapping[str, Range], *, split: Split, settings: Settings, others: str | None = None
) -> EncodedLines:
    """Reads, checks and aligns the parses of some lines of a split, which lie at `ranges`; `others` is a path of
    :func:`~syntax_data.data_bin.others_of_split.write_others`."""
    encoder = SplitEncoder(split, settings, read_others(others) if others else None)
    parses = {kind: FORMATS[kind].units(ranges[kind].lines()) for kind in split.parses}
    for (number, text), *row in zip(ranges["text"].lines(), *parses.values(), strict=False):
        encoder.add(number, text, dict(zip(parses, row, strict=True)))
    return encoder.encoded()


def write_split(
    split: Split,
    files: TokenFiles,
    *,
    settings: Settings,
    labels: dict[str, list[str]],
    workers: Workers,
) -> SplitCounts:
    """Writes a split's features and the hashes of its text to `files`.

    Byte ranges of the files are worked on by `workers`, a bounded number at a time, and written in order: memory does
    not grow with the text, nor does the output depend on the number of workers. `labels` is added to.
    """
    symbols = symbol_pattern(settings.symbols)
    lines_of_text = ((number, symbols.rest(tokenize_line(line))) for number, line in read_lines(split.text))
    if marked := first_marked_line(lines_of_text, settings.subwords):
        raise InputError(split.text, marked, SENTENCEPIECE_HINT)
    counts = SplitCounts.of_kinds(list(split.parses))
    writers = {name: MmapWriter(files.feature(name), FEATURES[name].dtype) for name in split.features}
    others = None
    if settings.control and Control.read(settings.control).kind == "shuffled":
        others = write_others(
            files.data, split.text, split.parses, settings=settings, units=LINES_AT_ONCE, workers=workers
        )
    work = partial(encode_lines, split=split, settings=settings, others=others)
    ranges = parallel_ranges(split.text, split.parses, LINES_AT_ONCE)
    with open(split.text, "rb") as file:
        sentences = sum(1 for _ in file)
    with (
        open(files.text_hashes, "wb") as hashes,
        tqdm(desc=split.name, total=sentences, unit=" sentences", unit_scale=True, disable=None) as progress,
    ):
        shown_once = BadParses("skip", lambda error: progress.write(f"skipped ({error.reason}): {error}", sys.stderr))
        for lines in workers.map_ordered(work, ranges):
            for error in lines.bad:
                shown_once.show(error)
            for name, values in lines.values.items():
                if name in lines.labels:
                    values = _renumber(values, name, lines.labels[name], labels[name], split)
                writers[name].write(lines.lengths[name], values)
            counts.update(lines.counts)
            hashes.write(lines.text_hashes.astype(HASH).tobytes())
            progress.update(lines.counts.sentences)
    for writer in writers.values():
        writer.close()
    return counts


def _renumber(
    values: np.ndarray, feature: str, here: Mapping[str, int], everywhere: list[str], split: Split
) -> np.ndarray:
    """Numbers of some lines' labels as numbers of all labels, to which new ones are added at the end."""
    everywhere += [label for label in here if label not in everywhere]
    if len(everywhere) > MOST_LABELS + 1:
        one_more = everywhere[MOST_LABELS + 1]
        others = ",".join(name for name in split.features if name != feature) or "word"
        raise InputError(
            split.parses[FEATURES[feature].source or ""],
            here[one_more],
            f"{feature}: expected at most {MOST_LABELS} different labels, found one more in this sentence: "
            f"{short_repr(one_more)} (--features {others} leaves {feature} out)",
        )
    return np.array([0, *map(everywhere.index, here)])[values]

"""``fairseq-syntax-binarize --verify``: whether a data-bin's features are what was written, and what they can be."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from fairseq.data import Dictionary, indexed_dataset

from syntax_preprocess.data_bin.feature_files import (
    Signature,
    check_files,
    check_lengths,
    existing_pair,
    feature_prefix,
    file_paths,
    signature_path,
    split_prefix,
    text_hashes_path,
)
from syntax_preprocess.data_bin.text_hashes import compare_texts
from syntax_preprocess.data_bin.values import MmapValues, Tokens, ranges
from syntax_preprocess.errors import InputError
from syntax_preprocess.features import FEATURES, INFINITE


def verify(data: str, source_lang: str, target_lang: str) -> None:
    """Checks the features of all splits of a data-bin, in constant memory, and prints a line for each split, also for
    those of train, valid and test that have none.

    Every file's size and hash, against the signature; each sentence's length and text, against the tokens; every value,
    against what it can be (:mod:`syntax_preprocess.features`).

    Args:
        data: a data-bin.
        source_lang: the language that has features.
        target_lang: the other one.

    Raises:
        InputError: no signature lists any split, or, after all splits, the first fault with its file and, where it is
            in one, sentence.
    """
    pairs = [(source_lang, target_lang), (target_lang, source_lang)]
    signed = [pair for pair in pairs if os.path.exists(signature_path(data, pair, source_lang))]
    signatures = {pair: Signature.read(signature_path(data, pair, source_lang)) for pair in signed}
    listed = {split: pair for pair, signature in signatures.items() for split in signature.splits}
    if not listed:
        path = signature_path(data, (signed or pairs)[0], source_lang)
        raise InputError(path, None, f"expected a signature with splits, found {'none in it' if signed else 'no file'}")
    faults = []
    for split, pair in listed.items():
        try:
            print(f"{split}: {_verify_split(data, split, pair, source_lang, signatures[pair])}")
        except InputError as fault:
            print(f"{split}: wrong: {fault}")
            faults.append(fault)
    for split in ("train", "valid", "test"):
        if split not in listed and existing_pair(data, split, source_lang, target_lang, None):
            print(f"{split}: tokens without features")
    if faults:
        raise faults[0]


def _verify_split(data: str, split: str, pair: tuple[str, str], lang: str, signature: Signature) -> str:
    names = signature.splits[split].features
    paths = file_paths(data, split, pair, lang, names)
    check_files(paths, signature.splits[split].files, hashes=True)
    prefix, dictionary = split_prefix(data, split, pair, lang), os.path.join(data, f"dict.{lang}.txt")
    if indexed_dataset.infer_dataset_impl(prefix) is None or not os.path.isfile(dictionary):
        raise InputError(prefix, None, f"expected tokens to compare with and {dictionary}, found that one is missing")
    symbols = Dictionary.load(dictionary)
    tokens = Tokens(prefix, symbols, None)
    prefixes = {name: feature_prefix(data, split, pair, lang, name) for name in names}
    features = {name: MmapValues(prefixes[name], FEATURES[name].dtype) for name in names}
    for name, feature in features.items():
        check_lengths(prefixes[name], feature.lengths, tokens.lengths, name)
    hashes = text_hashes_path(data, split, pair, lang)
    compared = compare_texts(signature_path(data, pair, lang), hashes, split, tokens, symbols)
    for first, last in ranges(tokens.lengths):
        rows = {name: Rows.of(feature, first, last) for name, feature in features.items()}
        for name in names:
            for wrong, expected in _wrong_values(name, rows, signature.labels):
                if wrong.any():
                    at = int(wrong.argmax())
                    sentence, position = rows[name].place(at)
                    raise InputError(
                        indexed_dataset.data_file_path(prefixes[name]),
                        None,
                        f"expected {expected}, found {rows[name].values[at]} in sentence {first + sentence}, position "
                        f"{position} (both counted from 0)",
                    )
    return f"{len(paths)} files as they were written; {compared}; {', '.join(names)} in order"


@dataclass
class Rows:
    """A feature's values of some consecutive sentences, ``(values,)``, and for each value where it stands.

    Attributes:
        values: in a row.
        lengths: of the sentences, ``(sentences,)``.
        first: whether it is the first of its sentence.
        last: whether it is the last.
    """

    values: np.ndarray
    lengths: np.ndarray
    first: np.ndarray
    last: np.ndarray

    @classmethod
    def of(cls, feature: MmapValues, first: int, last: int) -> Rows:
        """Those of sentences `first` to `last` - 1."""
        values, lengths = feature.between(first, last).astype(np.int64), feature.lengths[first:last]
        ends = np.cumsum(lengths, dtype=np.int64)[lengths > 0]
        is_last = np.zeros(len(values) + 1, bool)  # the one before the first value, too
        is_last[ends] = is_last[0] = True
        return cls(values, lengths, is_last[:-1], is_last[1:])

    def place(self, at: int) -> tuple[int, int]:
        """Sentence, from 0 here, and position in it of a value."""
        ends = np.cumsum(self.lengths, dtype=np.int64)
        sentence = int(np.searchsorted(ends, at, side="right"))
        return sentence, at - int(ends[sentence] - self.lengths[sentence])


def _wrong_values(
    name: str, rows: Mapping[str, Rows], labels: Mapping[str, list[str]]
) -> Iterator[tuple[np.ndarray, str]]:
    """Which values of a feature cannot be, and what they should; one thing after another."""
    row = rows[name]
    if name == "word":
        step = np.diff(row.values, prepend=0)
        yield row.first & (row.values != 0), "the first word to be number 0"
        yield ~row.first & ((step < 0) | (step > 1)), "the same word as before or the next"
        yield row.last & ~row.first & (step != 1), "a word of its own for </s>"
    elif name == "distance":
        before_last = np.append(row.last[1:], False)
        yield (row.last | before_last) & (row.values != INFINITE), f"{INFINITE} before and after </s>"
    elif name == "head":
        yield row.last & (row.values != 0), "no head for </s>"
        if "word" in rows:
            yield from _wrong_heads(row, rows["word"])
    else:
        symbols = labels[name] if FEATURES[name].labels == () else FEATURES[name].labels or ()
        yield row.last & (row.values != 0), "0 for </s>"
        yield ~row.last & ((row.values < 1) | (row.values >= len(symbols))), f"a number from 1 to {len(symbols) - 1}"


def _wrong_heads(head: Rows, words: Rows) -> Iterator[tuple[np.ndarray, str]]:
    parsed = head.lengths > 0
    word = words.values[np.repeat(parsed, words.lengths)]
    lengths = head.lengths[parsed]
    number_of_words = word[head.last]
    yield head.values > np.repeat(number_of_words, lengths), "a head among the sentence's words"
    same_word = ~head.first & (np.diff(word, prepend=-1) == 0)
    yield same_word & (np.diff(head.values, prepend=0) != 0), "one head for all subwords of a word"
    # All sentences' words are nodes, </s> too, and before them, for each sentence, number 0, above the roots.
    nodes = number_of_words + 2
    above = np.repeat(np.cumsum(nodes) - nodes, lengths)
    node = above + word + 1
    ancestor = np.arange(nodes.sum())
    ancestor[node] = above + head.values
    for _ in range(int(nodes.max(initial=1)).bit_length()):
        ancestor = ancestor[ancestor]
    yield ancestor[node] != above, "a head from which heads lead to a root, not into a cycle"

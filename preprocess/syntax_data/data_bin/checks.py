"""Checks of a data-bin's features: at load, and in full by ``--verify``."""

from __future__ import annotations

import os
from collections.abc import Iterable

import numpy as np
from tqdm import tqdm

from syntax_data.data_bin import mmap
from syntax_data.data_bin.mmap import MmapValues
from syntax_data.data_bin.paths import TokenFiles, possible_pairs, signature_path
from syntax_data.data_bin.signature import Signature, check_files
from syntax_data.errors import InputError
from syntax_data.features import FEATURES
from syntax_data.features.feature import Rows


def open_features(
    files: TokenFiles, names: Iterable[str], signature: Signature, *, hashes: bool = True
) -> dict[str, MmapValues]:
    """Features of a split that the signature has, by name; of its words, if they are stored so.

    Size and hash of the token files are compared with the signature, and the size of the feature files; their hashes,
    if `hashes`. Raises :class:`InputError` with the file for another one; or with the first sentence of which a feature
    has not as many values as there are tokens.
    """
    split = signature.splits[files.split]
    check_files(files.tokens, split.files)
    if split.words:
        check_files(files.features(split.stored), split.files)
        _open_feature(files, "word", MmapValues(files.prefix).lengths)
    files = files.of_words(split.words)
    check_files(files.features(names), split.files, split.words, hashes=hashes)
    lengths = MmapValues(files.prefix).lengths
    return {name: _open_feature(files, name, lengths) for name in names}


def _open_feature(files: TokenFiles, name: str, expected: np.ndarray) -> MmapValues:
    feature = MmapValues(files.feature(name), FEATURES[name].dtype)
    found = feature.lengths
    if len(found) != len(expected):
        message = f"expected the features of {len(expected)} sentences, as there are tokens of, found {len(found)}"
        raise InputError(feature.prefix, None, message)
    no_parse = (found == 0) & (FEATURES[name].source is not None)
    wrong = np.flatnonzero((found != expected) & ~no_parse)
    if len(wrong):
        first = wrong[0]
        message = f"expected {expected[first]} values for sentence {first} (counted from 0), one for each token, found "
        raise InputError(feature.prefix, None, f"{message}{found[first]}; {len(wrong)} sentences differ")
    return feature


def verify(data: str, source_lang: str | None = None, target_lang: str | None = None) -> None:
    """Check a data-bin's features, in `source_lang`; print a line for each split.

    In constant memory: size and hash of every file, against the signature; each sentence's length, against the tokens;
    every value, against :mod:`syntax_data.features`. Raises :class:`InputError` if no signature lists any split; or,
    after all splits, for the first fault with its file and sentence.
    """
    pairs = possible_pairs(source_lang, target_lang)
    signatures = {pair: Signature.read(signature_path(data, pair, source_lang)) for pair in pairs}
    listed = {split: pair for pair in pairs for split in signatures[pair].splits}
    if not listed:
        path = signature_path(data, pairs[0], source_lang)
        found = "none in it" if os.path.exists(path) else "no file"
        raise InputError(path, None, f"expected a signature with splits, found {found}")
    faults = []
    for split, pair in listed.items():
        try:
            print(f"{split}: {_verify_split(TokenFiles(data, split, pair, source_lang), signatures[pair])}")
        except InputError as fault:
            print(f"{split}: wrong: {fault}")
            faults.append(fault)
    for split in ("train", "valid", "test"):
        if split not in listed and TokenFiles.find(data, split, source_lang, target_lang):
            print(f"{split}: tokens without features")
    if faults:
        raise faults[0]


def _verify_split(files: TokenFiles, signature: Signature) -> str:
    split = signature.splits[files.split]
    opened = open_features(files, split.features, signature)
    names = split.stored
    features = {name: MmapValues(files.feature(name)) for name in names} if split.words else opened
    lengths = MmapValues(files.prefix).lengths
    with tqdm(desc=files.split, total=len(lengths), unit=" sentences", leave=False, disable=None) as progress:
        for first in range(0, len(lengths), mmap.AT_ONCE):
            last = min(first + mmap.AT_ONCE, len(lengths))
            rows = {name: Rows.of(f.between(first, last), f.lengths[first:last]) for name, f in features.items()}
            for name in names:
                labels = signature.labels[name] if FEATURES[name].labels == () else FEATURES[name].labels or ()
                for wrong, expected in FEATURES[name].wrong(rows[name], rows, labels):
                    if wrong.any():
                        at = int(wrong.argmax())
                        sentence, position = rows[name].place(at)
                        place = f"sentence {first + sentence}, position {position} (both counted from 0)"
                        message = f"expected {expected}, found {rows[name].values[at]} in {place}"
                        raise InputError(f"{features[name].prefix}.bin", None, message)
            progress.update(last - first)
    report = f"{len(split.files)} files as in the signature; {len(lengths)} sentences with valid {', '.join(names)}"
    return f"{report}; {', '.join(split.features)} of words are in {split.words}" if split.words else report

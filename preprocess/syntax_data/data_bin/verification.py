"""``fairseq-syntax-binarize --verify``: whether a data-bin's features are what was written, and what they can be."""

from __future__ import annotations

import os

import numpy as np
from tqdm import tqdm

from syntax_data.data_bin.dictionary import Symbols
from syntax_data.data_bin.mmap import MmapValues, ranges
from syntax_data.data_bin.places import TokenFiles, signature_path
from syntax_data.data_bin.signature import Signature, check_files
from syntax_data.data_bin.text_hashes import compare_texts
from syntax_data.data_bin.tokens import Tokens, open_tokens, tokens_exist
from syntax_data.errors import InputError
from syntax_data.features import FEATURES
from syntax_data.features.feature import Rows


def verify(data: str, source_lang: str, target_lang: str) -> None:
    """Checks the features of all splits of a data-bin, in constant memory, and prints a line for each split, also for
    those of train, valid and test that have none.

    Every file's size and hash, against the signature; each sentence's length and text, against the tokens; every value,
    against what it can be (:mod:`syntax_data.features`).

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
    made = signature.splits[files.split]
    names, paths = made.features, files.of_features(made.features)
    check_files(paths, made.files, hashes=True)
    if not (tokens_exist(files.prefix, "raw") or tokens_exist(files.prefix)) or not os.path.isfile(files.dictionary):
        raise InputError(
            files.prefix,
            None,
            f"expected tokens to compare with and {files.dictionary}, found that one is missing",
        )
    symbols = Symbols.read(files.dictionary)
    tokens = open_tokens(files.prefix, symbols)
    features = {name: open_feature(files, name, tokens) for name in names}
    compared = compare_texts(files, tokens, symbols)
    with tqdm(desc=files.split, total=len(tokens.lengths), unit=" sentences", leave=False, disable=None) as progress:
        for first, last in ranges(tokens.lengths):
            rows = {name: Rows.of(f.between(first, last), f.lengths[first:last]) for name, f in features.items()}
            for name in names:
                kind = FEATURES[name]
                labels = (signature.labels[name] if kind.labels == () else kind.labels) or ()
                for wrong, expected in kind.wrong(rows[name], rows, labels):
                    if wrong.any():
                        at = int(wrong.argmax())
                        sentence, position = rows[name].place(at)
                        raise InputError(
                            f"{features[name].prefix}.bin",
                            None,
                            f"expected {expected}, found {rows[name].values[at]} in sentence {first + sentence}, "
                            f"position {position} (both counted from 0)",
                        )
            progress.update(last - first)
    return f"{len(paths)} files as they were written; {compared}; {', '.join(names)} in order"


def open_feature(files: TokenFiles, name: str, tokens: Tokens) -> MmapValues:
    """A feature of a split.

    Raises :class:`InputError` if a file is broken or of another type, or the feature has not as many values for each
    sentence as there are tokens; it names the first sentence that differs.
    """
    feature = MmapValues(files.feature(name), FEATURES[name].dtype)
    prefix, found, expected = feature.prefix, feature.lengths, tokens.lengths
    if len(found) != len(expected):
        raise InputError(
            prefix,
            None,
            f"expected the features of {len(expected)} sentences, as there are tokens of, found {len(found)}",
        )
    absent_is_fine = FEATURES[name].source is not None
    wrong = np.flatnonzero((found != expected) & ~((found == 0) & absent_is_fine))
    if len(wrong):
        first = wrong[0]
        raise InputError(
            prefix,
            None,
            f"expected {expected[first]} values for sentence {first} (counted from 0), as it has tokens, found "
            f"{found[first]}; {len(wrong)} sentences differ. Were features and tokens made from the same text?",
        )
    return feature

"""Features of a split, checked and read from a data-bin.

The token files must be those that the features were written for, by their hashes; the feature files must have the sizes
and types that they were written with, and a value for each token. Feature files of up to :data:`HASHED_AT_LOAD` bytes a
split are also compared with their hashes. ``fairseq-syntax-binarize --verify`` does that with all, and checks every
value (:mod:`syntax_data.data_bin.checks`).
"""

from __future__ import annotations

import logging
import os
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from fairseq.data import ConcatDataset
from fairseq.data.indexed_dataset import MMapIndexedDataset
from torch import Tensor
from torch.utils.data import Dataset

from fairseq_syntax.data.training_record import DataBins
from syntax_data.data_bin.checks import open_features
from syntax_data.data_bin.mmap import MmapValues
from syntax_data.data_bin.paths import TokenFiles
from syntax_data.data_bin.signature import Signature
from syntax_data.features import FEATURES, parse_kinds, resegment

logger = logging.getLogger(__name__)

#: Size in bytes up to which a split's files are compared with their hashes: about half a second's work.
HASHED_AT_LOAD = 512 << 20


#: Features of a split's source sentences: of each, by its name in :data:`syntax_data.features.FEATURES`, one integer
#: tensor a sentence, in their order, ``(n,)``, or ``(0,)`` without the parse that the feature is from.
SplitFeatures = Mapping[str, Any]


def warn_of_unknown_labels(split: str, feature: str, rows: Any, labels: Sequence[str], known: Collection[str]) -> None:
    """Warns of labels that a model does not know, and counts their subwords.

    Args:
        rows: values of the feature, one tensor a sentence.
        labels: the label of each value.
        known: the labels that the model knows.
    """
    unknown = [number for number, label in enumerate(labels) if label not in known]
    counts = Counter(number for i in range(len(rows)) for number in rows[i][np.isin(rows[i], unknown)].tolist())
    if counts:
        named = ", ".join(f"{labels[number]} ({count})" for number, count in counts.most_common())
        logger.warning("%s: subwords with a label of %s that the model does not know: %s", split, feature, named)


def load_features(
    text: DataBins, split: str, names: Collection[str], *, epoch: int = 1, combine: bool = False, repeated: int = 1
) -> SplitFeatures:
    """Loads features of the sentences that fairseq loads for the same arguments.

    In the first epoch all shards are checked, so that an error in a later one is reported before training starts.

    Args:
        text: the data-bins with the tokens.
        names: features to load.
        combine: concatenates `split`, `split`1, `split`2 …
        repeated: how often `split` is in that.

    Raises:
        FileNotFoundError: features are missing; names them and the command that makes them.
        InputError: a file is not as in the signature, or a feature has other lengths than the tokens; names the file.
    """
    if not names:
        return {}

    def load(folder: str) -> SplitFeatures:
        parts = [_load_part(files, sorted(names)) for files in text.parts(folder, split, combine=combine)]
        if len(parts) == 1:
            return parts[0]
        ratios = [repeated] + [1] * (len(parts) - 1)
        found = names if parts else ()  # fairseq says that there are no tokens
        return {name: ConcatDataset([part[name] for part in parts], ratios) for name in found}

    if epoch == 1:
        for folder in text.folders[1:]:
            load(folder)
    return load(text.folders[(epoch - 1) % len(text.folders)])


def line_lengths(text: DataBins, split: str, *, epoch: int = 1, combine: bool = False) -> np.ndarray:
    """Return the number of tokens of each line of :func:`load_features`, with ``</s>``.

    Raises:
        FileNotFoundError: there are no tokens of the split.
        InputError: they are not in fairseq's format ``mmap``.
    """
    folder = text.folders[(epoch - 1) % len(text.folders)]
    parts = [MmapValues(files.prefix).lengths for files in text.parts(folder, split, combine=combine)]
    if not parts:
        raise FileNotFoundError(
            f"{os.path.join(folder, split)}.{{bin,idx}}: expected tokens, found none; run fairseq-preprocess "
            "--only-source"
        )
    return np.concatenate(parts)


def _load_part(files: TokenFiles, names: Sequence[str]) -> SplitFeatures:
    """Checks and opens the features of one split of one data-bin."""
    signature = Signature.read(files.signature)
    signed = signature.splits.get(files.split)
    words = signed.words if signed else ""
    stored = files.of_words(words)
    needed = sorted({*names, "word"}) if words else names  # head needs word to be spread
    missing = [
        n
        for n in needed
        if not signed or n not in signed.features or not all(map(os.path.exists, stored.features([n])))
    ]
    if missing or not signed:
        raise FileNotFoundError(_missing_message(files, stored, missing))
    size = sum(map(os.path.getsize, stored.features(needed)))
    if size > HASHED_AT_LOAD:
        logger.info("%s: %d MiB, not compared with their hashes now (see --verify)", files.split, size >> 20)
    features = open_features(files, needed, signature, hashes=size <= HASHED_AT_LOAD)
    log_coverage(files, signature, {name: feature.lengths for name, feature in features.items()})
    found = {name: MMapIndexedDataset(stored.feature(name)) for name in needed}
    if not words:
        return found
    word_of = MMapIndexedDataset(files.feature("word"))
    return {name: _SpreadFeature(name, found, word_of) for name in names}


class _SpreadFeature(Dataset):
    """A feature of words, spread over subwords when a sentence is read.

    Args:
        of_words: features of the words, of each sentence ``(m,)``, with ``word``, which ``head`` needs.
        word_of: the word of each subword, ``(n,)``.
    """

    def __init__(self, name: str, of_words: SplitFeatures, word_of: Any):
        self._name = name
        self._of_words = {key: of_words[key] for key in {name, "word"}}
        self._word_of = word_of

    def __len__(self) -> int:
        return len(self._word_of)

    def __getitem__(self, index: int) -> Tensor:
        values = {name: rows[index].numpy() for name, rows in self._of_words.items()}
        return torch.from_numpy(resegment(values, self._word_of[index].numpy())[self._name])


def log_coverage(files: TokenFiles, signature: Signature, lengths: Mapping[str, np.ndarray]) -> None:
    """Logs the number of parsed sentences, and warns of other trees than in training.

    Args:
        lengths: of each feature the number of values of each sentence, ``(sentences,)``.
    """
    text = files.split if files.pair else files.prefix  # an example may have several texts
    for kind in parse_kinds(lengths):
        of_kind = next(found for name, found in lengths.items() if FEATURES[name].source == kind)
        parsed = int((of_kind > 0).sum())
        log = logger.info if parsed else logger.warning
        log("%s: %d of %d sentences have a parse (%s)", text, parsed, len(of_kind), kind)
    if "train" in signature.splits:
        for setting in ("control", "binarize_trees"):
            of_splits = (signature.splits[name].settings for name in (files.split, "train"))
            found, expected = (settings.get(setting) or "none" for settings in of_splits)
            if found != expected:
                option = setting.replace("_", "-")
                logger.warning("%s has features of --%s %s, train of %s", text, option, found, expected)


def _missing_message(files: TokenFiles, stored: TokenFiles, missing: Sequence[str]) -> str:
    paths = ", ".join(f"{stored.feature(name)}.{{bin,idx}}" for name in missing)
    if stored != files:
        return f"the model needs features of words, by {files.signature}, that are not there: {paths}"
    kind = files.split.rstrip("0123456789")
    option = kind if kind in ("train", "valid", "test") else "test"
    sources = " and ".join(f"PARSES.{kind}" for kind in parse_kinds(missing)) or "the text alone"
    text, parses = ("TEXT", "PARSES") if files.split == kind else ("TEXT,TEXT1,…", "PARSES,PARSES1,…")
    return (
        f"the model needs syntax features that {files.signature} does not list or that are not there: {paths}\n"
        "They come from the subword text that fairseq-preprocess read, and its parses (see fairseq-syntax-parse), by:\n"
        f"  fairseq-syntax-binarize {files.options} --{option}pref {text} --{option}parse {parses} "
        f"--destdir {files.data}\n"
        f"for all splits, with the text's --subwords; these features are from {sources}"
    )

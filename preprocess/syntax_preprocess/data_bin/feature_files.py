"""Feature files: fairseq's mmap indexed datasets of small integers beside a data-bin's token files.

For the source side of a pair, ``data-bin`` holds::

    train.en-de.en.{bin,idx}              tokens (fairseq-preprocess)
    train.en-de.en.distance.{bin,idx}     a feature (fairseq-syntax-binarize), as many integers a sentence
    train.en-de.en.text_hashes.bin        hashes of the sentences' subwords, 8 bytes each, little-endian
    syntax.en-de.en.json                  the signature: what the features of each split were made of, and size and hash
                                          of each of its files

A sentence whose entry is empty has no parse of that kind.

Before features are used, their files must have the sizes and types that they were written with, and as many values a
sentence as it has tokens; and these tokens must be, in order, the subwords that were parsed, in every sentence
(:mod:`syntax_preprocess.data_bin.text_hashes`). A split's files of up to :data:`HASHED_AT_LOAD` bytes are also compared
with their own hashes. ``fairseq-syntax-binarize --verify`` does that with all, and looks at every value
(:mod:`syntax_preprocess.data_bin.verification`).
"""

from __future__ import annotations

import itertools
import json
import logging
import os
import struct
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Any

import numpy as np
from fairseq.data import ConcatDataset, Dictionary, indexed_dataset
from torch.utils.data import Dataset

from syntax_preprocess.alignment import SUBWORDS
from syntax_preprocess.data_bin.text_hashes import compare_texts
from syntax_preprocess.data_bin.values import MmapValues, Tokens, check_size
from syntax_preprocess.errors import InputError, shown
from syntax_preprocess.features import FEATURES, parse_kinds
from syntax_preprocess.features.aligned import Settings
from syntax_preprocess.record import file_hash
from syntax_preprocess.system.versioned_json import check_types, read_versioned

logger = logging.getLogger(__name__)

FORMAT_VERSION = 3
_DTYPE_CODES = {"uint8": 1, "uint16": 8}  # in the index of fairseq's format
#: Up to how many bytes the files to be loaded of a split are compared with their hashes: about half a second's work.
HASHED_AT_LOAD = 512 << 20


def split_prefix(data: str, split: str, pair: tuple[str, str], lang: str) -> str:
    """Path, without ending, of a split's tokens in one language."""
    return os.path.join(data, f"{split}.{pair[0]}-{pair[1]}.{lang}")


def feature_prefix(data: str, split: str, pair: tuple[str, str], lang: str, feature: str) -> str:
    """Path, without ending, of a feature of a split's tokens in one language."""
    return f"{split_prefix(data, split, pair, lang)}.{feature}"


def text_hashes_path(data: str, split: str, pair: tuple[str, str], lang: str) -> str:
    """Path of the hashes of a split's text in one language."""
    return f"{split_prefix(data, split, pair, lang)}.text_hashes.bin"


def file_paths(data: str, split: str, pair: tuple[str, str], lang: str, features: Iterable[str]) -> list[str]:
    """Paths of all files of some features of a split, and of its text's hashes."""
    place = data, split, pair, lang
    paths = [f"{feature_prefix(*place, feature)}.{ending}" for feature in features for ending in ("bin", "idx")]
    return [*paths, text_hashes_path(*place)]


def signature_path(data: str, pair: tuple[str, str], lang: str) -> str:
    """Path of the signature of all features of a pair's tokens in one language."""
    return os.path.join(data, f"syntax.{pair[0]}-{pair[1]}.{lang}.json")


@dataclass
class SplitSignature:
    """What a split's features were made of, and by what."""

    features: list[str]
    #: for each kind of parse the parser and its settings, as far as fairseq-syntax-parse, the user or the files tell
    parser: dict[str, Any]
    settings: dict[str, Any]
    versions: dict[str, str]
    #: sentences, words, subwords; sentences without each kind of parse, by reason; longest distance, deepest tree
    counts: dict[str, Any]
    #: ``bytes`` and ``sha256`` of each of :func:`file_paths`, by name
    files: dict[str, dict[str, Any]]


@dataclass
class Signature:
    """The file ``syntax.<src>-<tgt>.<lang>.json``."""

    splits: dict[str, SplitSignature] = field(default_factory=dict)
    #: for ``deprel`` and ``upos`` the labels that their values number, from 0
    labels: dict[str, list[str]] = field(default_factory=dict)

    @classmethod
    def read(cls, path: str) -> Signature:
        """Reads a signature. Raises :class:`InputError` for another format or version, :class:`EarlierVersion` for one
        that fairseq-syntax had before."""
        return read_versioned(
            path,
            FORMAT_VERSION,
            "a signature of feature files",
            cls._build,
            earlier="which an earlier fairseq-syntax wrote; run fairseq-syntax-binarize again",
        )

    @classmethod
    def _build(cls, content: dict[str, Any]) -> Signature:
        check_types("the file", content, {"format_version": int, "splits": dict, "labels": dict})
        check_types("labels", content["labels"], dict.fromkeys(content["labels"], list))
        for labels in content["labels"].values():
            for label in labels:
                if not isinstance(label, str):
                    raise ValueError(f"{shown(label)} in the place of a label")
        for name, split in content["splits"].items():
            check_types(
                name,
                split,
                {"features": list, **dict.fromkeys(("parser", "settings", "versions", "counts", "files"), dict)},
            )
            check_types(f"parser of {name}", split["parser"], dict.fromkeys(split["parser"], dict))
            _check_settings(name, split["settings"])
            for k, feature in enumerate(split["features"]):
                if not isinstance(feature, str) or feature not in FEATURES or feature in split["features"][:k]:
                    raise ValueError(f"{shown(feature)} in the place of a feature of {name}")
                if FEATURES[feature].labels == () and feature not in content["labels"]:
                    raise ValueError(f"no labels of {feature}, which {name} has")
            for file, described in split["files"].items():
                check_types(file, described, {"bytes": int, "sha256": str})
        return cls({name: SplitSignature(**split) for name, split in content["splits"].items()}, content["labels"])

    def write(self, path: str) -> None:
        """Writes the signature."""
        with open(path, "w", encoding="utf-8") as file:
            json.dump({"format_version": FORMAT_VERSION, **asdict(self)}, file, indent=1, sort_keys=True)
            file.write("\n")


def _check_settings(split: str, settings: dict[str, Any]) -> None:
    control = settings.get("control")
    types = {option.name: str for option in fields(Settings)} | {"control": type(control) if control is None else str}
    check_types(f"settings of {split}", settings, types)
    if settings["subwords"] not in SUBWORDS:
        raise ValueError(f"{shown(settings['subwords'])} in the place of the subwords of {split}")


def describe_files(paths: Iterable[str]) -> dict[str, dict[str, Any]]:
    """What a signature says of files, by name."""
    return {os.path.basename(p): {"bytes": os.path.getsize(p), "sha256": file_hash(p)} for p in paths}


def check_files(paths: Iterable[str], described: Mapping[str, dict[str, Any]], *, hashes: bool) -> None:
    """Checks that files are there with the sizes and, if asked to, hashes that a signature says.

    Raises :class:`InputError`, which names the file.
    """
    for path in paths:
        if not os.path.isfile(path):
            raise InputError(path, None, "expected a file, as the signature says, found none")
        expected = described.get(os.path.basename(path))
        if expected is None:
            raise InputError(path, None, "expected a file that the signature describes, found that it does not")
        check_size(path, expected["bytes"], "as the signature says")
        if hashes and (found := file_hash(path)) != expected["sha256"]:
            raise InputError(
                path,
                None,
                f"expected the file that fairseq-syntax-binarize wrote (SHA-256 {expected['sha256']}), found another "
                f"one ({found})",
            )


class FeatureWriter:
    """Writes a feature file in fairseq's mmap format, some sentences at a time, in constant memory.

    Args:
        prefix: path of the file, without ending.
        dtype: type of the values.
    """

    def __init__(self, prefix: str, dtype: str):
        self.prefix = prefix
        self.dtype = np.dtype(dtype)
        self._values = open(indexed_dataset.data_file_path(prefix), "wb")  # noqa: SIM115
        self._sizes = tempfile.TemporaryFile(dir=os.path.dirname(prefix))  # noqa: SIM115

    def write(self, lengths: np.ndarray, values: np.ndarray) -> None:
        """Adds sentences of `lengths`, whose values lie one after another in `values`."""
        self._values.write(values.astype(self.dtype, copy=False).tobytes())
        self._sizes.write(lengths.astype(np.int32).tobytes())

    def close(self) -> None:
        """Writes the index: all sentences' lengths, then where in the values each begins."""
        sentences = self._sizes.tell() // 4
        if not self._values.tell():  # no sentence has a parse
            self._values.write(bytes(1))  # an empty file cannot be mapped; no sentence points at this
        self._values.close()
        with open(indexed_dataset.index_file_path(self.prefix), "wb") as index:
            index.write(b"MMIDIDX\x00\x00" + struct.pack("<QBQ", 1, _DTYPE_CODES[self.dtype.name], sentences))
            for sizes in self._chunks():
                index.write(sizes.tobytes())
            begin = 0
            for sizes in self._chunks():
                ends = begin + np.cumsum(sizes, dtype=np.int64) * self.dtype.itemsize
                index.write(np.concatenate([[begin], ends[:-1]]).astype(np.int64).tobytes())
                begin = ends[-1]
        self._sizes.close()

    def _chunks(self) -> Iterator[np.ndarray]:
        self._sizes.seek(0)
        while chunk := self._sizes.read(4 << 16):
            yield np.frombuffer(chunk, dtype=np.int32)


def load_features(
    data: str,
    split: str,
    source_lang: str,
    target_lang: str,
    *,
    dictionary: Dictionary,
    names: Sequence[str],
    combine: bool,
    dataset_impl: str | None,
    upsample_primary: int,
) -> dict[str, Dataset]:
    """Loads features in the order of the sentences that fairseq loads for the same arguments.

    Args:
        data: a data-bin.
        dictionary: of the source language.
        names: features to load, keys of :data:`syntax_preprocess.features.FEATURES`.
        combine: whether to concatenate `split`, `split`1, `split`2 …
        dataset_impl: format of the token files; ``None``: fairseq finds out.
        upsample_primary: how often the first of the concatenated splits is repeated.

    Returns:
        for each name a dataset of integer tensors, ``(n,)`` or ``(0,)``.

    Raises:
        FileNotFoundError: features are missing; names them and the command that makes them.
        InputError: a file is not what the signature says; a feature's lengths differ from the tokens', or the tokens
            from the text that the features were made from. Names the file, or the first such sentence.
    """
    if not names:
        return {}
    parts: dict[str, list[Dataset]] = {name: [] for name in names}
    for k in itertools.count():
        part = f"{split}{k or ''}"
        pair = existing_pair(data, part, source_lang, target_lang, dataset_impl)
        if pair is None:
            break
        for name, dataset in _load_part(data, part, pair, source_lang, dictionary, names, dataset_impl).items():
            parts[name].append(dataset)
        if not combine:
            break
    ratios = [upsample_primary] + [1] * (len(parts[names[0]]) - 1)
    return {
        name: ConcatDataset(datasets, ratios) if len(datasets) > 1 else datasets[0] for name, datasets in parts.items()
    }


def existing_pair(
    data: str, split: str, source_lang: str, target_lang: str, dataset_impl: str | None
) -> tuple[str, str] | None:
    """The order of the languages in the names of a split's token files; ``None`` if there are none."""
    for pair in ((source_lang, target_lang), (target_lang, source_lang)):
        if indexed_dataset.dataset_exists(split_prefix(data, split, pair, source_lang), dataset_impl):
            return pair
    return None


def _load_part(
    data: str,
    split: str,
    pair: tuple[str, str],
    lang: str,
    dictionary: Dictionary,
    names: Sequence[str],
    dataset_impl: str | None,
) -> dict[str, Dataset]:
    path = signature_path(data, pair, lang)
    signature = Signature.read(path) if os.path.exists(path) else Signature()
    made = signature.splits[split].features if split in signature.splits else []
    prefixes = {name: feature_prefix(data, split, pair, lang, name) for name in names}
    missing = [name for name in names if name not in made or not indexed_dataset.dataset_exists(prefixes[name], "mmap")]
    if missing:
        raise FileNotFoundError(_missing_message(data, split, pair, lang, missing))
    paths = file_paths(data, split, pair, lang, names)
    size = sum(map(os.path.getsize, filter(os.path.isfile, paths)))
    check_files(paths, signature.splits[split].files, hashes=size <= HASHED_AT_LOAD)
    if size > HASHED_AT_LOAD:
        logger.info(
            "%s: %d MiB of features, too much to compare with their hashes now (fairseq-syntax-binarize --verify does)",
            split,
            size >> 20,
        )
    tokens = Tokens(split_prefix(data, split, pair, lang), dictionary, dataset_impl)
    features = {}
    for name, prefix in prefixes.items():
        check_lengths(prefix, MmapValues(prefix, FEATURES[name].dtype).lengths, tokens.lengths, name)
        features[name] = indexed_dataset.make_dataset(prefix, "mmap")
    compare_texts(path, text_hashes_path(data, split, pair, lang), split, tokens, dictionary)
    _tell_about(split, signature, features)
    return features


def _tell_about(split: str, signature: Signature, features: dict[str, Any]) -> None:
    """Logs how many sentences are parsed; warns if none is, or if trees were changed otherwise than in training."""
    for kind in parse_kinds(features):
        sizes = next(np.asarray(f.sizes) for name, f in features.items() if FEATURES[name].source == kind)
        parsed = int((sizes > 0).sum())
        log = logger.info if parsed else logger.warning
        log("%s: %d of %d sentences have a parse (%s)", split, parsed, len(sizes), kind)
    if "train" in signature.splits:
        for setting in ("control", "binarize_trees"):
            found, expected = (signature.splits[name].settings.get(setting) or "none" for name in (split, "train"))
            if found != expected:
                option = setting.replace("_", "-")
                logger.warning("%s has features of --%s %s, train of %s", split, option, found, expected)


def check_lengths(prefix: str, found: np.ndarray, expected: np.ndarray, name: str) -> None:
    """Checks how many values a feature has for each sentence, against the tokens' lengths.

    Raises :class:`InputError`, which names the first sentence that differs.
    """
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


def _missing_message(data: str, split: str, pair: tuple[str, str], lang: str, missing: Sequence[str]) -> str:
    files = ", ".join(f"{feature_prefix(data, split, pair, lang, f)}.{{bin,idx}}" for f in missing)
    kinds = parse_kinds(missing)
    kind = split.rstrip("0123456789")
    option = kind if kind in ("train", "valid", "test") else "test"
    text, parses = ("TEXT", "PARSES") if split == kind else ("TEXT,TEXT1,…", "PARSES,PARSES1,…")
    other = pair[1] if pair[0] == lang else pair[0]
    return (
        f"the model needs syntax features that {signature_path(data, pair, lang)} does not list or that are not "
        f"there: {files}\nThey are made from the subword text that fairseq-preprocess read"
        + (f" and its parses (.{lang}." + f", .{lang}.".join(kinds) + ", see fairseq-syntax-parse)" if kinds else "")
        + f" by:\n  fairseq-syntax-binarize --source-lang {lang} --target-lang {other} --{option}pref {text} "
        f"--{option}parse {parses} --destdir {data}"
    )

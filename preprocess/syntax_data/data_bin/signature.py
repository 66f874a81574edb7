"""The signature of a data-bin's features: their origin and their files."""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from syntax_data.data_bin.mmap import check_size
from syntax_data.errors import InputError, short_repr
from syntax_data.features import FEATURES, is_word_label
from syntax_data.features.aligned import Settings
from syntax_data.io.versioned_json import check_types, read_versioned
from syntax_data.parsers.record import file_hash

FORMAT_VERSION = 4


@dataclass
class SplitSignature:
    """The origin of a split's features, and its files.

    Attributes:
        parser: of each kind of parse the parser and its settings, as far as they are known.
        settings: of :class:`~syntax_data.features.aligned.Settings`.
        counts: of :meth:`~syntax_data.data_bin.split_counts.SplitCounts.as_dict`.
        files: ``bytes`` and ``sha256`` of each token and feature file, by name; those in `words` by their paths from
            the data-bin.
        words: path from the data-bin to that of the text's words, which has the features; empty: they are here.
    """

    features: list[str]
    parser: dict[str, Any]
    settings: dict[str, Any]
    versions: dict[str, str]
    counts: dict[str, Any]
    files: dict[str, dict[str, Any]]
    words: str = ""

    @property
    def stored(self) -> list[str]:
        """The features whose files are in the data-bin itself: with `words` the word of each subword alone."""
        return ["word"] if self.words else self.features


@dataclass
class Signature:
    """The file of :func:`~syntax_data.data_bin.paths.signature_path`: splits by name, labels by number."""

    splits: dict[str, SplitSignature] = field(default_factory=dict)
    labels: dict[str, list[str]] = field(default_factory=dict)

    @classmethod
    def read(cls, path: str) -> Signature:
        """The signature in a file, else an empty one; :class:`InputError` if broken."""
        if not os.path.exists(path):
            return cls()
        remedy = "of an earlier fairseq-syntax: delete this file, and run fairseq-syntax-binarize again on all splits"
        return read_versioned(path, FORMAT_VERSION, "a signature of feature files", cls._build, earlier=remedy)

    @classmethod
    def _build(cls, content: dict[str, Any]) -> Signature:
        check_types("the file", content, {"format_version": int, "splits": dict, "labels": dict})
        check_types("labels", content["labels"], dict.fromkeys(content["labels"], list))
        for label in itertools.chain(*content["labels"].values()):
            if not isinstance(label, str):
                raise ValueError(f"{short_repr(label)} instead of a label")
        for name, split in content["splits"].items():
            parts = dict.fromkeys(("parser", "settings", "versions", "counts", "files"), dict)
            split.setdefault("words", "")
            check_types(name, split, {"features": list, "words": str, **parts})
            check_types(f"parser of {name}", split["parser"], dict.fromkeys(split["parser"], dict))
            try:
                Settings(**split["settings"])
            except (ValueError, TypeError, AttributeError) as error:
                raise ValueError(f"settings of {name}: {error}") from None
            for k, feature in enumerate(split["features"]):
                known = isinstance(feature, str) and (feature in FEATURES or is_word_label(feature))
                if not known or feature in split["features"][:k]:
                    raise ValueError(f"{short_repr(feature)} instead of a feature of {name}")
                if FEATURES[feature].labels == () and feature not in content["labels"]:
                    raise ValueError(f"no labels of {feature}, which {name} has")
            for file, described in split["files"].items():
                check_types(file, described, {"bytes": int, "sha256": str})
        return cls({name: SplitSignature(**split) for name, split in content["splits"].items()}, content["labels"])

    def write(self, path: str) -> None:
        """Write the signature to a file."""
        with open(path, "w", encoding="utf-8") as file:
            json.dump({"format_version": FORMAT_VERSION, **asdict(self)}, file, indent=1, sort_keys=True)
            file.write("\n")


def describe_files(paths: Iterable[str]) -> dict[str, dict[str, Any]]:
    """Size and hash of files, by name, for a signature."""
    return {os.path.basename(p): {"bytes": os.path.getsize(p), "sha256": file_hash(p)} for p in paths}


def check_files(
    paths: Iterable[str], described: Mapping[str, dict[str, Any]], folder: str = "", *, hashes: bool = True
) -> None:
    """Raise :class:`InputError` unless files in a folder, a path from the data-bin, are as in a signature."""
    for path in paths:
        if not os.path.isfile(path):
            raise InputError(path, None, "expected a file, as in the signature, found none")
        expected = described.get(os.path.join(folder, os.path.basename(path)))
        if expected is None:
            raise InputError(path, None, "expected a file that the signature describes, found that it does not")
        check_size(path, expected["bytes"], "as in the signature")
        if hashes and (found := file_hash(path)) != expected["sha256"]:
            message = (
                f"expected the file of the signature (SHA-256 {expected['sha256']}), found another one ({found}); "
            )
            message += "features and tokens belong together: after fairseq-preprocess run fairseq-syntax-binarize again"
            raise InputError(path, None, message)

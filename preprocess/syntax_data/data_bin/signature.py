"""The signature of a data-bin's features: what they were made of, by what, and which files hold them."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from syntax_data.controls import Control
from syntax_data.data_bin.mmap import check_size
from syntax_data.errors import InputError, short_repr
from syntax_data.features import FEATURES
from syntax_data.features.aligned import Settings
from syntax_data.io.versioned_json import check_types, read_versioned
from syntax_data.parsers.record import file_hash
from syntax_data.text.alignment import SUBWORDS
from syntax_data.text.symbols import SymbolPattern
from syntax_data.trees.bad_parses import ON_BAD_PARSE

FORMAT_VERSION = 3


@dataclass
class SplitSignature:
    """What a split's features were made of, and by what."""

    features: list[str]
    #: for each kind of parse the parser and its settings, as far as fairseq-syntax-parse, the user or the files tell
    parser: dict[str, Any]
    settings: dict[str, Any]
    versions: dict[str, str]
    #: sentences, words, subwords, symbols; sentences without each kind of parse, by reason; longest distance, deepest
    #: tree
    counts: dict[str, Any]
    #: ``bytes`` and ``sha256`` of each of :meth:`~syntax_data.data_bin.places.TokenFiles.of_features`, by name
    files: dict[str, dict[str, Any]]


@dataclass
class Signature:
    """The file ``syntax.<src>-<tgt>.<lang>.json``."""

    splits: dict[str, SplitSignature] = field(default_factory=dict)
    #: for ``deprel`` and ``upos`` the labels that their values number, from 0
    labels: dict[str, list[str]] = field(default_factory=dict)

    @classmethod
    def read(cls, path: str) -> Signature:
        """Reads a signature. Raises :class:`InputError` for another format or version."""
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
                    raise ValueError(f"{short_repr(label)} in the place of a label")
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
                    raise ValueError(f"{short_repr(feature)} in the place of a feature of {name}")
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
        raise ValueError(f"{short_repr(settings['subwords'])} in the place of the subwords of {split}")
    if settings["on_bad_parse"] not in ON_BAD_PARSE:
        raise ValueError(f"{short_repr(settings['on_bad_parse'])} is not what {split} may do on a bad parse")
    try:
        SymbolPattern.read(settings["symbols"])
    except ValueError:
        raise ValueError(f"{short_repr(settings['symbols'])} are not symbols, in {split}") from None
    if control is not None:
        try:
            Control.read(control)
        except ValueError:
            raise ValueError(f"{short_repr(control)} in the place of the control of {split}") from None


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

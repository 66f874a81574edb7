"""The signature of the features that a task's configuration leads to."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from typing import Any

from syntax_preprocess.data_bin.places import signature_path
from syntax_preprocess.data_bin.signature import Signature, SplitSignature


def recorded_signature(cfg: Any) -> tuple[str | None, Signature, SplitSignature | None]:
    """The signature of the source side, its path, and of it the training data's."""
    for path, signature in _signatures(cfg):
        splits = signature.splits
        return path, signature, splits.get("train") or next(iter(splits.values()), None)
    return None, Signature(), None


def labels_of_data(cfg: Any, features: Iterable[str]) -> dict[str, list[str]]:
    """What those of some features that are labels of parses number in the data-bin, from number 0; without features
    that it does not have.

    Raises:
        ValueError: there are several data-bins, in which the numbers of a feature mean different labels.
    """
    wanted = list(features)
    found: dict[str, tuple[str, list[str]]] = {}
    for path, signature in _signatures(cfg) if wanted else ():
        for name in wanted:
            if name not in signature.labels:
                continue
            first, labels = found.setdefault(name, (path, signature.labels[name]))
            if labels != signature.labels[name]:
                raise ValueError(
                    f"{path}: expected the labels of {name} numbered as in {first}; binarize the first shard, and the "
                    "others into copies of its signature"
                )
    return {name: labels for name, (_, labels) in found.items()}


def _signatures(cfg: Any) -> Iterator[tuple[str, Signature]]:
    """The signatures of the source side, and where they are."""
    for data in str(cfg.data).split(os.pathsep):
        for pair in ((cfg.source_lang, cfg.target_lang), (cfg.target_lang, cfg.source_lang)):
            path = signature_path(data, pair, cfg.source_lang)
            if os.path.exists(path):
                yield path, Signature.read(path)
                break

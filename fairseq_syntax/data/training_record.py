"""Signature of the training data's features: their settings, parser and labels."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from syntax_data.data_bin.paths import possible_pairs, signature_path
from syntax_data.data_bin.signature import Signature, SplitSignature
from syntax_data.features import FEATURES


def recorded_split(cfg: Any) -> tuple[str | None, SplitSignature | None]:
    """Return the path of the source's signature, and its record of training data."""
    for path, signature in _signatures(cfg):
        splits = signature.splits
        return path, splits.get("train") or next(iter(splits.values()), None)
    return None, None


def label_vocabulary(cfg: Any, features: Iterable[str], *, needed: bool = False) -> dict[str, Sequence[str]]:
    """Return the labels of features by their numbers in the data-bin, from 0.

    Args:
        cfg: the options of the task.
        needed: labels must be there; otherwise those of parses that the data-bin lacks are left out.

    Raises:
        ValueError: labels are missing; or there are several data-bins, in which a number means different labels.
    """
    known = {name: FEATURES[name].labels for name in features}
    found: dict[str, Sequence[str]] = {name: labels for name, labels in known.items() if labels}
    of_parses = [name for name, labels in known.items() if labels == ()]
    signatures = list(_signatures(cfg)) if of_parses else []
    for name in of_parses:
        recorded = [(path, signature.labels[name]) for path, signature in signatures if name in signature.labels]
        if not recorded and needed:
            path = signatures[0][0] if signatures else cfg.data
            raise ValueError(f"{path}: expected a signature with the labels of {name}, which the model needs")
        for path, labels in recorded:
            if labels != recorded[0][1]:
                raise ValueError(
                    f"{path}: expected the labels of {name} numbered as in {recorded[0][0]}; binarize the first shard, "
                    "and the others into copies of its signature"
                )
            found[name] = labels
    return found


def _signatures(cfg: Any) -> Iterator[tuple[str, Signature]]:
    """Yield the paths and signatures of the source side."""
    for data in str(cfg.data).split(os.pathsep):
        for pair in possible_pairs(cfg.source_lang, cfg.target_lang):
            path = signature_path(data, pair, cfg.source_lang)
            if os.path.exists(path):
                yield path, Signature.read(path)
                break

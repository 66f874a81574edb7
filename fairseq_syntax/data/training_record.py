"""Data-bins of an input, and what their signatures record of the training data."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from fairseq import utils

from syntax_data.data_bin.paths import TokenFiles, possible_pairs, signature_path
from syntax_data.data_bin.signature import Signature, SplitSignature
from syntax_data.features import FEATURES

#: Of ``</s>``, and of words whose label is not known.
_NO_LABELS = {"</s>", "_"}


@dataclass(frozen=True)
class DataBins:
    """Data-bins of one text.

    Attributes:
        folders: shards, which fairseq reads in turn, an epoch each.
        languages: the text's and that of its translations; ``None`` after ``--only-source``.
    """

    folders: tuple[str, ...]
    languages: tuple[str, str] | tuple[None, None] = (None, None)

    @classmethod
    def of_translation(cls, cfg: Any) -> DataBins:
        """Data-bins by the options of a translation task."""
        return cls(tuple(utils.split_paths(str(cfg.data or ""))), (cfg.source_lang, cfg.target_lang))

    def parts(self, folder: str, split: str, *, combine: bool) -> Iterator[TokenFiles]:
        """Yield the token files of a split in one of the folders; if `combine`, also of `split`1, `split`2 …"""
        for k in itertools.count() if combine else range(1):
            files = TokenFiles.find(folder, f"{split}{k or ''}", *self.languages)
            if files is None:
                return
            yield files

    def signatures(self) -> Iterator[tuple[str, Signature]]:
        """Yield the paths and signatures."""
        for folder in self.folders:
            for pair in possible_pairs(*self.languages):
                path = signature_path(folder, pair, self.languages[0])
                if os.path.exists(path):
                    yield path, Signature.read(path)
                    break

    def recorded_split(self) -> tuple[str, SplitSignature | None]:
        """Return the path of the first signature, even if there is none, and its record of training data."""
        for path, signature in self.signatures():
            splits = signature.splits
            return path, splits.get("train") or next(iter(splits.values()), None)
        return signature_path(self.folders[0], possible_pairs(*self.languages)[0], self.languages[0]), None


def label_vocabulary(
    texts: Sequence[DataBins], features: Iterable[str], *, needed: bool = False
) -> dict[str, Sequence[str]]:
    """Return the labels of features by their numbers, from 0.

    Those of the first text come first, then those that others add.

    Args:
        texts: whose segments make an example.
        needed: labels must be there; otherwise those of parses that no data-bin has are left out.

    Raises:
        ValueError: needed labels are missing, or ``_`` alone; or shards of an input number them differently.
    """
    known = {name: FEATURES[name].labels for name in features}
    found: dict[str, Sequence[str]] = {name: labels for name, labels in known.items() if labels}
    for name in [name for name, labels in known.items() if labels == ()]:
        of_texts = [labels for text in texts if (labels := _labels_of_parses(text, name))]
        if of_texts:
            found[name] = list(dict.fromkeys(label for labels in of_texts for label in labels))
        if needed and not set(found.get(name, ())) - _NO_LABELS:
            path = next((path for text in texts for path, _ in text.signatures()), texts[0].folders[0])
            message = f"{path}: expected a signature with the labels of {name}, which the model needs, found none"
            raise ValueError(f"{message} (the parses have only _ for it)" if name in found else message)
    return found


def _labels_of_parses(text: DataBins, name: str) -> Sequence[str]:
    """Labels of an input by their numbers; none: no signature has any."""
    recorded = [(path, signature.labels[name]) for path, signature in text.signatures() if name in signature.labels]
    for path, labels in recorded:
        if labels != recorded[0][1]:
            raise ValueError(
                f"{path}: expected the labels of {name} numbered as in {recorded[0][0]}; binarize the first shard, "
                "and the others into copies of its signature"
            )
    return recorded[0][1] if recorded else ()

"""Features of a data-bin (:mod:`syntax_data.data_bin`), loaded as fairseq's datasets and checked before.

The token files must be those that the features were written for, by their hashes; the feature files must have the sizes
and types that they were written with, and a value for each token. Feature files of up to :data:`HASHED_AT_LOAD` bytes a
split are also compared with their hashes. ``fairseq-syntax-binarize --verify`` does that with all, and checks every
value (:mod:`syntax_data.data_bin.checks`).
"""

from __future__ import annotations

import itertools
import logging
import os
from collections import Counter
from collections.abc import Collection, Mapping, Sequence

import numpy as np
from fairseq import utils
from fairseq.data import ConcatDataset
from fairseq.data.indexed_dataset import MMapIndexedDataset
from fairseq.tasks.translation import TranslationConfig
from torch.utils.data import Dataset

from syntax_data.data_bin.checks import open_features
from syntax_data.data_bin.paths import TokenFiles
from syntax_data.data_bin.signature import Signature
from syntax_data.features import FEATURES, parse_kinds

logger = logging.getLogger(__name__)

#: Up to how many bytes the files to be loaded of a split are compared with their hashes: about half a second's work.
HASHED_AT_LOAD = 512 << 20


def features_of_epoch(
    cfg: TranslationConfig,
    split: str,
    epoch: int,
    *,
    names: Sequence[str],
    combine: bool,
) -> dict[str, Dataset]:
    """The features of what fairseq's translation task loads of a split for an epoch.

    In the first epoch all shards of the training set are looked at, so that what is wrong in a later one shows before
    training starts.

    Args:
        cfg: the options of the task.
        names, combine: see :func:`load_features`, which also says what is raised.
    """
    shards = utils.split_paths(cfg.data)
    if split != cfg.train_subset:
        shards = shards[:1]

    def load(shard: str) -> dict[str, Dataset]:
        return load_features(
            shard,
            split,
            cfg.source_lang,
            cfg.target_lang,
            names=names,
            combine=combine,
            dataset_impl=cfg.dataset_impl,
            upsample_primary=cfg.upsample_primary,
        )

    if epoch == 1:
        for shard in shards[1:]:
            load(shard)
    return load(shards[(epoch - 1) % len(shards)])


def load_features(
    data: str,
    split: str,
    source_lang: str,
    target_lang: str,
    *,
    names: Sequence[str],
    combine: bool,
    dataset_impl: str | None,
    upsample_primary: int,
) -> dict[str, Dataset]:
    """Loads features in the order of the sentences that fairseq loads for the same arguments.

    Args:
        data: a data-bin.
        names: features to load, keys of :data:`syntax_data.features.FEATURES`.
        combine: whether to concatenate `split`, `split`1, `split`2 …
        dataset_impl: format of the token files, ``mmap``, which ``None`` also stands for.
        upsample_primary: how often the first of the concatenated splits is repeated.

    Returns:
        for each name a dataset of integer tensors, ``(n,)`` or ``(0,)``.

    Raises:
        FileNotFoundError: features are missing; names them and the command that makes them.
        InputError: a file is not as in the signature, or a feature has other lengths than the tokens; names the file.
        ValueError: `dataset_impl` is another format.
    """
    if not names:
        return {}
    if dataset_impl not in (None, "mmap"):
        raise ValueError(
            f"--dataset-impl: expected mmap, found {dataset_impl}: features belong to tokens that fairseq-preprocess "
            "writes without --dataset-impl"
        )
    loaded: dict[str, list[Dataset]] = {name: [] for name in names}
    for k in itertools.count():
        files = TokenFiles.find(data, f"{split}{k or ''}", source_lang, target_lang)
        if files is None:
            break
        for name, dataset in _load_split(files, names).items():
            loaded[name].append(dataset)
        if not combine:
            break
    ratios = [upsample_primary] + [1] * (len(loaded[names[0]]) - 1)
    return {
        name: ConcatDataset(datasets, ratios) if len(datasets) > 1 else datasets[0] for name, datasets in loaded.items()
    }


def _load_split(files: TokenFiles, names: Sequence[str]) -> dict[str, Dataset]:
    signature = Signature.read(files.signature)
    signed = signature.splits.get(files.split)
    missing = [
        n for n in names if not signed or n not in signed.features or not all(map(os.path.exists, files.features([n])))
    ]
    if missing:
        raise FileNotFoundError(_missing_message(files, missing))
    size = sum(map(os.path.getsize, files.features(names)))
    if size > HASHED_AT_LOAD:
        logger.info(
            "%s: %d MiB of features, too much to compare with their hashes now (fairseq-syntax-binarize --verify does)",
            files.split,
            size >> 20,
        )
    features = open_features(files, names, signature, hashes=size <= HASHED_AT_LOAD)
    log_coverage(files.split, signature, {name: feature.lengths for name, feature in features.items()})
    return {name: MMapIndexedDataset(files.feature(name)) for name in names}


def log_coverage(split: str, signature: Signature, lengths: Mapping[str, np.ndarray]) -> None:
    """Logs how many sentences are parsed; warns if none is, or if trees were changed otherwise than in training.

    Args:
        lengths: of each feature the number of values of each sentence, ``(sentences,)``.
    """
    for kind in parse_kinds(lengths):
        of_kind = next(found for name, found in lengths.items() if FEATURES[name].source == kind)
        parsed = int((of_kind > 0).sum())
        log = logger.info if parsed else logger.warning
        log("%s: %d of %d sentences have a parse (%s)", split, parsed, len(of_kind), kind)
    if "train" in signature.splits:
        for setting in ("control", "binarize_trees"):
            found, expected = (signature.splits[name].settings.get(setting) or "none" for name in (split, "train"))
            if found != expected:
                option = setting.replace("_", "-")
                logger.warning("%s has features of --%s %s, train of %s", split, option, found, expected)


def log_unknown_labels(split: str, feature: str, rows: Dataset, labels: Sequence[str], known: Collection[str]) -> None:
    """Warns of labels in a split that a model does not know, and counts the subwords that have them.

    Args:
        rows: the feature's values, ``(n,)`` a sentence.
        labels: what they number.
        known: the labels that the model knows.
    """
    unknown = [number for number, label in enumerate(labels) if label not in known]
    size: int = len(rows)  # type: ignore[arg-type]
    counts = Counter(number for i in range(size) for number in rows[i][np.isin(rows[i], unknown)].tolist())
    if counts:
        named = ", ".join(f"{labels[number]} ({count})" for number, count in counts.most_common())
        logger.warning("%s: subwords with a label of %s that the model does not know: %s", split, feature, named)


def _missing_message(files: TokenFiles, missing: Sequence[str]) -> str:
    paths = ", ".join(f"{files.feature(name)}.{{bin,idx}}" for name in missing)
    kinds = parse_kinds(missing)
    lang, kind = files.lang, files.split.rstrip("0123456789")
    option = kind if kind in ("train", "valid", "test") else "test"
    text, parses = ("TEXT", "PARSES") if files.split == kind else ("TEXT,TEXT1,…", "PARSES,PARSES1,…")
    return (
        f"the model needs syntax features that {files.signature} does not list or that are not there: {paths}\n"
        "They are made from the subword text that fairseq-preprocess read"
        + (f" and its parses (.{lang}." + f", .{lang}.".join(kinds) + ", see fairseq-syntax-parse)" if kinds else "")
        + f" by:\n  fairseq-syntax-binarize --source-lang {lang} --target-lang {files.other_lang} "
        f"--{option}pref {text} --{option}parse {parses} --destdir {files.data}"
    )

"""Training where the data-bin has several validation sets.

What is wrong: before a training, fairseq 0.12.2, main and fairseq-fixed 0.12.3 compare the names of the files of
``valid1``, ``valid2``, … with those of ``--valid-subset``: ``valid1.en-de.en`` with ``valid1``. They never agree.
So ``--valid-subset valid,valid1`` is refused as leaving out ``valid1``, and a data-bin with such a set trains only
under ``--combine-val`` or ``--ignore-unused-valid-subsets``. Also ``--combine-val`` beside ``--valid-subset`` ends in a
KeyError. https://github.com/facebookresearch/fairseq/pull/3552 (the check)

The repair: names of sets are compared. Our tasks train where a set is not validated on, and warns.
"""

from __future__ import annotations

import functools
import logging
from typing import Any

from fairseq.data import data_utils

logger = logging.getLogger(__name__)


def compare_names_of_sets() -> None:
    """Make fairseq-train take every list of validation sets, and name those left out."""
    find = data_utils._find_extra_valid_paths
    check = data_utils.raise_if_valid_subsets_unintentionally_ignored

    @functools.wraps(find)
    def _find_extra_valid_paths(dataset_path: str) -> set[str]:
        return {name.partition(".")[0] for name in find(dataset_path)}

    @functools.wraps(check)
    def raise_if_valid_subsets_unintentionally_ignored(train_cfg: Any) -> None:
        named = train_cfg.dataset.valid_subset
        if train_cfg.dataset.combine_valid_subsets and not train_cfg.dataset.disable_validation and named != "valid":
            raise ValueError(
                f"--combine-val makes one set of valid, valid1, …: expected no --valid-subset beside it, found {named}"
            )
        try:
            check(train_cfg)
        except ValueError:
            if not str(getattr(train_cfg.task, "_name", None)).startswith("syntax_"):
                raise
            left_out = sorted(_find_extra_valid_paths(train_cfg.task.data) - set(named.split(",")))
            every = ",".join([named, *left_out])
            logger.warning(
                "%s: not validated on; --valid-subset %s validates on each set, --combine-val on all as one",
                ", ".join(left_out), every,
            )  # fmt: skip

    data_utils._find_extra_valid_paths = _find_extra_valid_paths
    data_utils.raise_if_valid_subsets_unintentionally_ignored = raise_if_valid_subsets_unintentionally_ignored

"""fairseq's pairs of sentences, with the source sentences' features."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from fairseq.data import BaseWrapperDataset, Dictionary, FairseqDataset
from torch import Tensor
from torch.utils.data import Dataset

from fairseq_syntax.compat.last_batch import keep_last_batch
from fairseq_syntax.modules.biases import UNKNOWN
from syntax_data.features import truncate


class SyntaxPairs(BaseWrapperDataset):
    """A dataset of sentence pairs whose batches also hold ``net_input["src_syntax"]``.

    That is a dict from feature to an integer tensor ``(batch, n)``, with a value for each position of ``src_tokens``
    under any order, padding or bucketing of the batch; :data:`~fairseq_syntax.modules.biases.UNKNOWN` where there is no
    feature. Everything else is the pairs' own: their items, batches, order and attributes. Without features
    the batches are theirs to the last key.

    Features are found by a sentence's ``id``, never by its tokens, and belong to the tokens of the data-bin. So the
    pairs may pad, reorder, sample or truncate sentences, and put another token in the place of ``</s>`` when they make
    a batch (:class:`~fairseq.data.TransformEosLangPairDataset`). Pairs that add source tokens or remove ``</s>``
    (``append_bos``, ``remove_eos_from_source``, a :class:`~fairseq.data.PrependTokenDataset`) go without features
    alone: with features they raise, rather than have each feature one token off.

    Args:
        pairs: a :class:`~fairseq.data.LanguagePairDataset`, or one that wraps it.
        syntax: for each feature its rows in the order of the sentences' ids.
        dictionary: of the source; its padding symbol and its ``</s>`` tell where a sentence lies.
        truncated: whether the source sentences may have been cut to their first tokens and ``</s>``; features are then
            cut alike.

    Raises:
        ValueError: (from items and batches) a sentence does not end in ``</s>``, or has not as many tokens as features.
    """

    def __init__(
        self,
        pairs: FairseqDataset,
        *,
        syntax: Mapping[str, Dataset | Sequence[Tensor]],
        dictionary: Dictionary,
        truncated: bool = False,
    ):
        super().__init__(pairs)
        self.syntax = dict(syntax)
        self.dictionary = dictionary
        self.truncated = truncated

    def __getattr__(self, name: str) -> Any:
        """What the pairs have beside the methods of all datasets, such as ``src`` or ``left_pad_source``."""
        if name == "dataset":  # not there yet, in a copy that is being made
            raise AttributeError(name)
        return getattr(self.dataset, name)

    def __getitem__(self, index: int) -> dict[str, Any]:
        example: dict[str, Any] = self.dataset[index]
        return {**example, "syntax": self._features(example)} if self.syntax else example

    def _features(self, example: Mapping[str, Any]) -> dict[str, Tensor]:
        number, source = example["id"], example["source"]
        if not self._ends(source):  # buckets pad it
            source = source[source.ne(self.dictionary.pad())]
        if not self._ends(source):
            raise ValueError(
                f"sentence {number} (counted from 0): expected source tokens that end in </s>, as the features do; "
                "were tokens removed or added after they were binarized?"
            )
        features = {name: dataset[number] for name, dataset in self.syntax.items()}
        if not self.truncated:
            return features
        try:
            length = int(source.ne(self.dictionary.pad()).sum())
            cut = truncate({name: values.numpy() for name, values in features.items()}, length)
        except ValueError as error:
            raise ValueError(f"sentence {number} (counted from 0): {error}") from None
        return {name: torch.from_numpy(values) for name, values in cut.items()}

    def _ends(self, source: Tensor) -> bool:
        return len(source) > 0 and int(source[-1]) == self.dictionary.eos()

    def num_tokens_vec(self, indices: np.ndarray) -> np.ndarray:
        """As the pairs', which fairseq's wrapper leaves out."""
        sizes: np.ndarray = self.dataset.num_tokens_vec(indices)
        return sizes

    def batch_by_size(self, indices: np.ndarray, *args: Any, **kwargs: Any) -> list[Any]:
        """As the pairs', but with all of `indices` in the batches."""
        return keep_last_batch(super().batch_by_size, indices, *args, **kwargs)

    def collater(self, samples: list[dict[str, Any]], *args: Any, **kwargs: Any) -> dict[str, Any]:
        """As the pairs', with the features."""
        batch: dict[str, Any] = self.dataset.collater(samples, *args, **kwargs)
        if self.syntax and samples:
            by_id = {sample["id"]: sample["syntax"] for sample in samples}
            rows = [by_id[i] for i in batch["id"].tolist()]
            real = batch["net_input"]["src_tokens"].ne(self.dictionary.pad())
            batch["net_input"]["src_syntax"] = {name: _place([row[name] for row in rows], real) for name in self.syntax}
        return batch


def _place(rows: Sequence[Tensor], real: Tensor) -> Tensor:
    """Lays one feature of a batch over its real positions, ``(batch, n)``."""
    lengths = real.sum(dim=1).tolist()
    filled = [row if len(row) else torch.full((length,), UNKNOWN) for row, length in zip(rows, lengths, strict=True)]
    found = [len(row) for row in filled]
    if found != lengths:
        raise ValueError(f"expected {lengths} values a sentence, as there are tokens, found {found}")
    placed = torch.full(real.shape, UNKNOWN)
    placed[real] = torch.cat(filled)
    return placed

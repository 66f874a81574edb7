"""fairseq's pairs of sentences, with the source sentences' features."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from fairseq.data import BaseWrapperDataset, BucketPadLengthDataset, LanguagePairDataset
from torch import Tensor
from torch.utils.data import Dataset

from fairseq_syntax.nn.masks import UNKNOWN
from syntax_preprocess.features import INFINITE


class SyntaxLanguagePairDataset(LanguagePairDataset):
    """:class:`~fairseq.data.LanguagePairDataset` whose batches hold ``net_input["src_syntax"]``.

    That is a dict from feature to an integer tensor ``(batch, n)``, which lies over ``src_tokens`` position by
    position, whatever the order, padding or bucketing of the batch; :data:`~fairseq_syntax.nn.masks.UNKNOWN` where
    there is no feature. Without features the batches are fairseq's own.

    Args:
        syntax: for each feature a dataset in the order of the source sentences.
        truncated: whether the source sentences may have been cut to their first tokens and ``</s>``; features
            are then cut alike.
        num_buckets: pad lengths to one of so many sizes.
        *args, **kwargs: those of :class:`~fairseq.data.LanguagePairDataset`.
    """

    src: Dataset
    tgt: Dataset | None
    src_sizes: np.ndarray
    tgt_sizes: np.ndarray

    def __init__(
        self,
        *args: Any,
        syntax: Mapping[str, Dataset],
        truncated: bool = False,
        num_buckets: int = 0,
        **kwargs: Any,
    ):
        super().__init__(*args, **kwargs)
        self.syntax = dict(syntax)
        self.truncated = truncated
        if num_buckets > 0:
            self._bucket(num_buckets)

    @classmethod
    def from_pairs(cls, pairs: LanguagePairDataset, **kwargs: Any) -> SyntaxLanguagePairDataset:
        """The same pairs with features; `kwargs` are those of the constructor."""
        return cls(
            pairs.src,
            pairs.src_sizes,
            pairs.src_dict,
            pairs.tgt,
            pairs.tgt_sizes,
            pairs.tgt_dict,
            left_pad_source=pairs.left_pad_source,
            left_pad_target=pairs.left_pad_target,
            shuffle=pairs.shuffle,
            input_feeding=pairs.input_feeding,
            align_dataset=pairs.align_dataset,
            constraints=pairs.constraints,
            eos=pairs.eos,
            pad_to_multiple=pairs.pad_to_multiple,
            **kwargs,
        )

    def _bucket(self, num_buckets: int) -> None:
        pad = self.src_dict.pad()
        self.src = _Buckets(self.src, self.src_sizes, num_buckets, pad, self.left_pad_source)
        self.src_sizes = self.src.sizes
        if self.tgt is not None:
            self.tgt = _Buckets(self.tgt, self.tgt_sizes, num_buckets, pad, self.left_pad_target)
            self.tgt_sizes = self.tgt.sizes
        self.bucketed_num_tokens = self.num_tokens_vec(np.arange(len(self)))
        self.buckets = [(None, size) for size in np.unique(self.bucketed_num_tokens)]

    def __getitem__(self, index: int) -> dict[str, Any]:
        example = super().__getitem__(index)
        if self.syntax:
            features = {name: dataset[index] for name, dataset in self.syntax.items()}
            if self.truncated:
                length = int(example["source"].ne(self.src_dict.pad()).sum())
                try:
                    features = truncate(features, length)
                except ValueError as error:
                    raise ValueError(f"sentence {index} (counted from 0): {error}") from None
            example["syntax"] = features
        return example

    def batch_by_size(self, indices: np.ndarray, *args: Any, **kwargs: Any) -> list[Any]:
        """As fairseq's, but with all of `indices` in the batches: fairseq drops the last batch, also of a test set,
        unless its size is a multiple of ``--required-batch-size-multiple``, and fails if there is none."""
        if not len(indices):
            return []
        batches = list(super().batch_by_size(indices, *args, **kwargs))
        dropped = indices[sum(map(len, batches)) :]
        return [*batches, dropped] if len(dropped) else batches

    def collater(self, samples: list[dict[str, Any]], pad_to_length: dict[str, int] | None = None) -> dict[str, Any]:
        batch = super().collater(samples, pad_to_length)
        if self.syntax and samples:
            by_id = {sample["id"]: sample["syntax"] for sample in samples}
            rows = [by_id[i] for i in batch["id"].tolist()]
            real = batch["net_input"]["src_tokens"].ne(self.src_dict.pad())
            batch["net_input"]["src_syntax"] = {name: _place([row[name] for row in rows], real) for name in self.syntax}
        return batch


class _Buckets(BucketPadLengthDataset):
    """fairseq's padding of sentences to few lengths, which are chosen here: fairseq's choice calls numpy in ways
    that numpy 2 no longer knows."""

    def __init__(self, dataset: Dataset, sizes: np.ndarray, num_buckets: int, pad: int, left_pad: bool):
        BaseWrapperDataset.__init__(self, dataset)
        shares = np.linspace(0, 100, num_buckets + 1)[1:]
        self.buckets = np.unique(np.percentile(sizes, shares, method="lower"))
        self._bucketed_sizes = self.buckets[np.searchsorted(self.buckets, sizes)]
        self.pad_idx = pad
        self.left_pad = left_pad
        self._tensor_key = None


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


def truncate(features: Mapping[str, Tensor], length: int) -> dict[str, Tensor]:
    """Cuts a sentence's features to its first `length` - 1 subwords and ``</s>``.

    The masks of what is left are the sub-matrices of the whole sentence's masks: the boundary at the cut becomes
    infinite, and a word whose head was cut off hangs on its nearest ancestor that was kept. A feature that is
    empty (no parse) stays empty.

    Args:
        features: of one sentence, each ``(n,)`` or ``(0,)``; ``head`` needs ``word`` beside it.
        length: of the sentence that is left, 1 to n.

    Raises:
        ValueError: the heads of what is cut off lead into a cycle.
    """
    cut = dict(features)
    for name, values in features.items():
        if len(values) > length:
            cut[name] = _CUTS[name](features, length - 1) if name in _CUTS else _cut_label(values, length - 1)
    return cut


def _cut_label(values: Tensor, kept: int) -> Tensor:
    return torch.cat([values[:kept], values[-1:]])


def _cut_word(features: Mapping[str, Tensor], kept: int) -> Tensor:
    word = features["word"][:kept]
    return torch.cat([word, word[-1:] + 1 if kept else torch.zeros_like(features["word"][:1])])


def _cut_distance(features: Mapping[str, Tensor], kept: int) -> Tensor:
    distance = features["distance"][: kept + 1].clone()
    distance[max(kept - 1, 0) :] = INFINITE
    return distance


def _cut_head(features: Mapping[str, Tensor], kept: int) -> Tensor:
    word, head = features["word"], features["head"]
    words = int(word[kept - 1]) + 1 if kept else 0
    head_of_word = torch.zeros(int(word[-1]) + 2, dtype=head.dtype)  # numbered from 1, as in `head`
    head_of_word[word + 1] = head
    cut = head[:kept]
    for _ in range(len(head)):
        if not bool((cut > words).any()):
            return torch.cat([cut, head.new_zeros(1)])
        cut = torch.where(cut > words, head_of_word[cut], cut)
    raise ValueError(f"expected heads that lead to a root, found a cycle through word {int(cut.max()) - 1} (from 0)")


_CUTS = {"word": _cut_word, "distance": _cut_distance, "head": _cut_head}

"""fairseq's pairs of sentences, with the source sentences' features."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from fairseq.data import Dictionary, FairseqDataset
from torch import Tensor

from fairseq_syntax.compat.last_batch import AllExamples
from fairseq_syntax.data.features import SplitFeatures
from fairseq_syntax.data.pair_wrapper import PairWrapper
from fairseq_syntax.data.subword_sampling import FIRST_IN
from fairseq_syntax.modules.syntax_batch import SyntaxBatch
from syntax_data.features import resegment, truncate


class SyntaxPairs(AllExamples, PairWrapper):
    """Sentence pairs whose batches also have ``net_input["src_syntax"]``.

    That is a :class:`~fairseq_syntax.modules.syntax_batch.SyntaxBatch` over ``src_tokens``, under any order, padding or
    bucketing of the batch. Everything else is the pairs' own. Without features the batches are theirs to the last key.

    Features are found by a sentence's ``id``, never by its tokens. So the pairs may pad, reorder, sample or truncate
    sentences, and replace ``</s>`` when they make a batch. Pairs that add source tokens or remove ``</s>``
    (``append_bos``, ``remove_eos_from_source``) raise, rather than have each feature one token off.

    Args:
        pairs: a :class:`~fairseq.data.LanguagePairDataset`, or one that wraps it.
        features: of the sentences, in the order of their ids.
        dictionary: of the source; its padding symbol and its ``</s>`` show the borders of a sentence.
        truncated: the source sentences may have been cut to their first tokens and ``</s>``; features are then cut
            alike.

    Raises:
        ValueError: (from items and batches) a sentence does not end in ``</s>``, or has not as many tokens as features.
    """

    def __init__(
        self, pairs: FairseqDataset, *, features: SplitFeatures, dictionary: Dictionary, truncated: bool = False
    ):
        super().__init__(pairs)
        self.features = features
        self.dictionary = dictionary
        self.truncated = truncated

    def __getitem__(self, index: int) -> dict[str, Any]:
        example: dict[str, Any] = self.dataset[index]
        return {**example, "syntax": self._features(example)} if self.features else example

    def _features(self, example: Mapping[str, Any]) -> dict[str, Tensor]:
        number, source = example["id"], example["source"]
        if not self._ends(source):  # buckets pad it
            source = source[source.ne(self.dictionary.pad())]
        if not self._ends(source):
            raise ValueError(
                f"sentence {number} (counted from 0): expected source tokens that end in </s>, as the features do; "
                "were tokens removed or added after they were binarized?"
            )
        features = {name: rows[number] for name, rows in self.features.items()}
        first_in: np.ndarray | None = example.get(FIRST_IN)
        if not self.truncated and first_in is None:
            return features
        arrays = {name: values.numpy() for name, values in features.items()}
        try:
            if self.truncated:
                length = int(source.ne(self.dictionary.pad()).sum()) if first_in is None else int(first_in[-1]) + 1
                arrays = truncate(arrays, length)
            if first_in is not None:
                arrays = resegment(arrays, first_in)
        except ValueError as error:
            raise ValueError(f"sentence {number} (counted from 0): {error}") from None
        return {name: torch.from_numpy(values) for name, values in arrays.items()}

    def _ends(self, source: Tensor) -> bool:
        return len(source) > 0 and int(source[-1]) == self.dictionary.eos()

    def collater(self, samples: list[dict[str, Any]], *args: Any, **kwargs: Any) -> dict[str, Any]:
        """As the pairs', with the features."""
        batch: dict[str, Any] = self.dataset.collater(samples, *args, **kwargs)
        if self.features and samples:
            by_id = {sample["id"]: sample["syntax"] for sample in samples}
            real = batch["net_input"]["src_tokens"].ne(self.dictionary.pad())
            batch["net_input"]["src_syntax"] = SyntaxBatch.collate([by_id[i] for i in batch["id"].tolist()], real)
        return batch

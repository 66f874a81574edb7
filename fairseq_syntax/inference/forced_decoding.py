"""Log-probabilities of given translations, by fairseq's scorer of references."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from fairseq import utils
from fairseq.data import data_utils
from fairseq.sequence_scorer import SequenceScorer
from torch import Tensor, nn

#: Tokens of a batch, padding included, unless the caller has another number.
_MAX_TOKENS = 4000


@torch.no_grad()
def score_targets(
    task: Any,
    models: Sequence[nn.Module],
    dataset: Any,
    targets: Sequence[tuple[int, Tensor]],
    *,
    max_tokens: int | None = None,
    max_sentences: int | None = None,
) -> list[Tensor]:
    """Return log p(y_t | y_<t, x) of each subword of translations, natural logarithm, each ``(n,)``.

    Args:
        task: of the models.
        models: an ensemble, on one device; the mean is that of their probabilities.
        dataset: a split, or :meth:`.build_dataset_for_inference` of new text.
        targets: of each translation the number of its source sentence in `dataset`, and the ids of its subwords with
            ``</s>``.
        max_tokens, max_sentences: limits of a batch; a sentence that is longer is a batch of its own.
    """
    scorer, device = SequenceScorer(task.target_dictionary), next(models[0].parameters()).device
    lengths = np.array([max(dataset.num_tokens(i), len(ids)) for i, ids in targets], dtype=np.int64)
    order = np.argsort(lengths, kind="stable")
    most = max(max_tokens or _MAX_TOKENS, lengths.max(initial=0))
    found: dict[int, Tensor] = {}
    for numbers in data_utils.batch_by_size(order, None, lengths[order], max_tokens=most, max_sentences=max_sentences):
        examples = [{**dataset[targets[k][0]], "id": int(k), "target": targets[k][1]} for k in numbers]
        batch = utils.apply_to_sample(lambda tensor: tensor.to(device), dataset.collater(examples))
        scored = task.inference_step(scorer, models, batch)
        for k, (of,) in zip(batch["id"].tolist(), scored, strict=True):
            found[k] = of["positional_scores"].cpu()
    return [found[k] for k in range(len(targets))]

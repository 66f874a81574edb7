"""Translation's loss, and auxiliary losses of predictions of the source sentence's parse."""

# No postponed annotations here: fairseq reads the types of a configuration's fields at run time.

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from fairseq.criterions import register_criterion
from fairseq.criterions.label_smoothed_cross_entropy import (
    LabelSmoothedCrossEntropyCriterion,
    LabelSmoothedCrossEntropyCriterionConfig,
)
from torch import Tensor

from fairseq_syntax.criterions.predicted_parses import PredictedParsesConfig, WithPredictedParses


@dataclass
class LabelSmoothedCrossEntropyWithSyntaxConfig(PredictedParsesConfig, LabelSmoothedCrossEntropyCriterionConfig):
    """fairseq's options, and those of the auxiliary losses."""


@register_criterion("label_smoothed_cross_entropy_with_syntax", dataclass=LabelSmoothedCrossEntropyWithSyntaxConfig)
class LabelSmoothedCrossEntropyWithSyntax(WithPredictedParses, LabelSmoothedCrossEntropyCriterion):
    """Label-smoothed cross-entropy + Σ λ·(auxiliary loss), see :class:`WithPredictedParses`.

    t_s are a sentence's target tokens, or 1 under ``--sentence-avg``.

    ``loss`` and ``nll_loss`` in the log, by which the best checkpoint is chosen, are translation's alone: comparable to
    those of systems without auxiliary losses. Beside them are ``parent_loss`` and ``distance_loss`` a
    prediction (in bits, the squared distance as it is), and ``parent_accuracy`` and ``distance_accuracy`` in percent.

    A model that predicts nothing has translation's loss alone.
    """

    def shares(self, sample: Mapping[str, Any]) -> Tensor:
        tokens = sample["target"].ne(self.padding_idx).sum(dim=1)
        return torch.ones_like(tokens) if self.sentence_avg else tokens

"""Translation's loss, and auxiliary losses of predictions of the source sentence's parse."""

# No postponed annotations here: fairseq reads the types of a configuration's fields at run time.

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from fairseq.criterions import register_criterion
from fairseq.criterions.label_smoothed_cross_entropy import (
    LabelSmoothedCrossEntropyCriterion,
    LabelSmoothedCrossEntropyCriterionConfig,
)
from torch import Tensor

from fairseq_syntax.criterions.predicted_parses import PredictedParses, PredictedParsesConfig, PredictingModel


@dataclass
class LabelSmoothedCrossEntropyWithSyntaxConfig(PredictedParsesConfig, LabelSmoothedCrossEntropyCriterionConfig):
    """fairseq's options, and those of the auxiliary losses."""


@register_criterion("label_smoothed_cross_entropy_with_syntax", dataclass=LabelSmoothedCrossEntropyWithSyntaxConfig)
class LabelSmoothedCrossEntropyWithSyntax(LabelSmoothedCrossEntropyCriterion):
    """Label-smoothed cross-entropy + Σ λ·(auxiliary loss), see :class:`PredictedParses`.

    t_s are a sentence's target tokens, or 1 under ``--sentence-avg``.

    ``loss`` and ``nll_loss`` in the log, by which the best checkpoint is chosen, are translation's alone: comparable to
    those of systems without auxiliary losses. Beside them are ``parent_loss`` and ``distance_loss`` a
    prediction (in bits, the squared distance as it is), and ``parent_accuracy`` and ``distance_accuracy`` in percent.

    A model that predicts nothing has translation's loss alone.
    """

    #: Batches must have the features that a model's auxiliary losses compare with (``label_features``).
    has_auxiliary_losses = True

    def __init__(
        self,
        task: Any,
        parent_loss_weight: float,
        distance_loss_weight: float,
        parent_loss: str,
        sentence_avg: bool,
        label_smoothing: float,
        ignore_prefix_size: int = 0,
        report_accuracy: bool = False,
    ):
        super().__init__(task, sentence_avg, label_smoothing, ignore_prefix_size, report_accuracy)
        self.parses = PredictedParses(
            parent_loss_weight=parent_loss_weight, distance_loss_weight=distance_loss_weight, parent_loss=parent_loss
        )

    def forward(self, model: Any, sample: dict[str, Any], reduce: bool = True) -> tuple[Tensor, int, dict[str, Any]]:
        """As fairseq's; the loss includes the auxiliary ones, which are logged beside it."""
        predicting = PredictingModel(model)
        loss, sample_size, logging_output = super().forward(predicting, sample, reduce)
        tokens = sample["target"].ne(self.padding_idx).sum(dim=1)
        targets = torch.ones_like(tokens) if self.sentence_avg else tokens
        loss = loss + self.parses.loss(predicting.predictions, targets, logging_output)
        return loss, sample_size, logging_output

    @classmethod
    def reduce_metrics(cls, logging_outputs: Sequence[Mapping[str, Any]]) -> None:
        """As fairseq's, and the auxiliary losses as means over their predictions."""
        super().reduce_metrics(logging_outputs)
        PredictedParses.reduce_metrics(logging_outputs)

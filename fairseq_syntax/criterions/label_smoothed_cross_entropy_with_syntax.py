"""Translation's loss, and auxiliary losses of predictions of the source sentence's parse."""

# No postponed annotations here: fairseq reads the types of a configuration's fields at run time.

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from fairseq.criterions import register_criterion
from fairseq.criterions.label_smoothed_cross_entropy import (
    LabelSmoothedCrossEntropyCriterion,
    LabelSmoothedCrossEntropyCriterionConfig,
)
from fairseq.dataclass import ChoiceEnum
from fairseq.logging import metrics
from torch import Tensor

from fairseq_syntax.modules.heads import Prediction

#: Predictions of models.
PREDICTED = ("parent", "distance")

#: The key of a model's predictions in a batch, between two methods of the criterion.
_PREDICTIONS = "syntax_predictions"


@dataclass
class LabelSmoothedCrossEntropyWithSyntaxConfig(LabelSmoothedCrossEntropyCriterionConfig):
    """fairseq's options, and those of the auxiliary losses."""

    parent_loss_weight: float = field(
        default=1.0,
        metadata={
            "help": "weight of the loss of predicted heads, a mean over a sentence's subwords (LISA, SEPREM §4.4)"
        },
    )
    distance_loss_weight: float = field(
        default=1.0,
        metadata={"help": "weight of the loss of predicted distances, a mean over a sentence's pairs (SEPREM §4.3)"},
    )
    parent_loss: ChoiceEnum(["cross-entropy", "squared"]) = field(  # type: ignore[valid-type]
        default="cross-entropy",
        metadata={
            "help": "loss of predicted heads: cross-entropy (LISA), or the squared distance between a row of attention "
            "and that of 0 and 1 (as Hou 2024 describes LISA)"
        },
    )


@register_criterion("label_smoothed_cross_entropy_with_syntax", dataclass=LabelSmoothedCrossEntropyWithSyntaxConfig)
class LabelSmoothedCrossEntropyWithSyntax(LabelSmoothedCrossEntropyCriterion):
    """Label-smoothed cross-entropy + Σ λ·(auxiliary loss): LISA's, and SEPREM's, eq. (9).

    ``loss`` and ``nll_loss`` in the log, by which the best checkpoint is chosen, are translation's alone: comparable to
    those of systems without auxiliary losses. Beside them are ``parent_loss`` and ``distance_loss`` a
    prediction (in bits, the squared distance as it is), and ``parent_accuracy`` and ``distance_accuracy`` in percent.

    An auxiliary loss is the mean of sentences' means. With l_i the losses of the N_s predictions of sentence s, and t_s
    its target tokens (1 under ``--sentence-avg``), a pass adds

        λ · Σ_s t_s · (Σ_i l_i / N_s)

    to translation's summed loss. fairseq divides the sum of all passes and processes by Σ_s t_s, so λ weighs a weighted
    mean of sentences' mean losses against translation's loss per target token (per sentence).

    Papers have the mean over a batch's predictions, t·(Σ_i l_i / N) with t and N of the whole batch, which is no sum
    over sentences: N passes under ``--update-freq N``, or N processes, would not be a batch N times as large. Of one
    sentence the two are equal. Of distances, which are predicted of pairs of words, long sentences have most of the
    weight there; here each has that of its target tokens. A sentence of which nothing is predicted adds 0, but its
    target tokens count in the denominator.

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
        self.weights = {"parent": parent_loss_weight, "distance": distance_loss_weight}
        self.squared = parent_loss == "squared"

    def forward(self, model: Any, sample: dict[str, Any], reduce: bool = True) -> tuple[Tensor, int, dict[str, Any]]:
        """As fairseq's; the loss includes the auxiliary ones, which are logged beside it."""
        sample = dict(sample)  # gets the predictions from compute_loss: nothing keeps them if that fails
        net_input = sample["net_input"]
        if "src_syntax" in net_input:  # else a model that needs no features would be asked for predictions
            sample["net_input"] = {**net_input, "predictions": True}
        loss, sample_size, logging_output = super().forward(model, sample, reduce)
        predictions: Mapping[str, Sequence[Prediction]] = sample[_PREDICTIONS]
        tokens = sample["target"].ne(self.padding_idx).sum(dim=1)
        weights = torch.ones_like(tokens) if self.sentence_avg else tokens
        for name in PREDICTED:  # the same keys in every batch: fairseq adds up those of the first
            some = predictions.get(name, ())
            squared = self.squared and name == "parent"
            losses = [p.squared_error() if squared else p.cross_entropy() for p in some]
            numbers = sum(
                (p.numbers(len(weights)) for p in some), start=loss.new_zeros(len(weights), dtype=torch.float)
            )
            of_sentences = weights / numbers.clamp(min=1)
            for prediction, of_rows in zip(some, losses, strict=True):
                loss = loss + self.weights[name] * (of_rows * of_sentences[prediction.sentences]).sum()
            total = sum((of_rows.detach().sum() for of_rows in losses), start=loss.new_zeros(()))
            logging_output |= {
                f"{name}_loss": total / (1 if squared else math.log(2)),  # in bits, as fairseq has it
                f"{name}_correct": sum((p.correct() for p in some), start=loss.new_zeros(())),
                f"{name}_predictions": numbers.sum(),
            }
        return loss, sample_size, logging_output

    def compute_loss(self, model: Any, net_output: Any, sample: dict[str, Any], reduce: bool = True) -> Any:
        """As fairseq's; puts the model's predictions into `sample`."""
        sample[_PREDICTIONS] = net_output[1].get("syntax_predictions", {})
        return super().compute_loss(model, net_output, sample, reduce=reduce)

    @classmethod
    def reduce_metrics(cls, logging_outputs: Sequence[Mapping[str, Any]]) -> None:
        """As fairseq's, and the auxiliary losses as means over their predictions."""
        super().reduce_metrics(logging_outputs)
        for name in PREDICTED:
            total, correct, number = (
                sum(log.get(f"{name}_{what}", 0) for log in logging_outputs)
                for what in ("loss", "correct", "predictions")
            )
            if number > 0:
                metrics.log_scalar(f"{name}_loss", total / number, number, round=3)
                metrics.log_scalar(f"{name}_accuracy", 100 * correct / number, number, round=2)

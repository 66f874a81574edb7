"""Translation's loss, and beside it those of what a model predicts of the source sentence's parse."""

# No postponed annotations here: fairseq reads the types of a configuration's fields at run time.

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fairseq.criterions import register_criterion
from fairseq.criterions.label_smoothed_cross_entropy import (
    LabelSmoothedCrossEntropyCriterion,
    LabelSmoothedCrossEntropyCriterionConfig,
)
from fairseq.dataclass import ChoiceEnum
from fairseq.logging import metrics
from torch import Tensor

from fairseq_syntax.nn.predictions import Prediction

#: What models may predict.
PREDICTED = ("parent", "distance")


@dataclass
class LabelSmoothedCrossEntropyWithSyntaxConfig(LabelSmoothedCrossEntropyCriterionConfig):
    """fairseq's options, and those of the auxiliary losses."""

    parent_loss_weight: float = field(
        default=1.0, metadata={"help": "weight of the loss of predicted heads, per subword (LISA, SEPREM §4.4)"}
    )
    distance_loss_weight: float = field(
        default=1.0, metadata={"help": "weight of the loss of predicted distances, per pair of words (SEPREM §4.3)"}
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
    """Label-smoothed cross-entropy + Σ λ·(auxiliary loss a prediction): LISA's, and SEPREM's, eq. (9).

    What is logged as ``loss`` and ``nll_loss``, and so chooses the best checkpoint, stays that of translation alone:
    comparable to that of systems without auxiliary losses. Beside them come ``parent_loss`` and ``distance_loss`` a
    prediction (in bits, the squared distance as it is), and ``parent_accuracy`` and ``distance_accuracy`` in percent.

    λ weighs the mean over a batch's predictions against translation's loss per target token, or per sentence under
    ``--sentence-avg``. A model that predicts nothing has translation's loss alone.
    """

    #: Whether batches are to have the features that models call labels.
    teaches_syntax = True

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
        self._predictions: Mapping[str, Sequence[Prediction]] = {}

    def forward(self, model: Any, sample: dict[str, Any], reduce: bool = True) -> tuple[Tensor, int, dict[str, Any]]:
        """As fairseq's; the loss has the auxiliary ones in it, and what is logged has them beside."""
        net_input = sample["net_input"]
        if "src_syntax" in net_input:  # else a model that needs no features would be asked for predictions
            sample = {**sample, "net_input": {**net_input, "predictions": True}}
        loss, sample_size, logging_output = super().forward(model, sample, reduce)
        predictions, self._predictions = self._predictions, {}
        for name in PREDICTED:  # the same keys in every batch: fairseq adds up those of the first
            some = predictions.get(name, ())
            squared = self.squared and name == "parent"
            total, correct, number = (
                sum(parts, start=loss.new_zeros(()))
                for parts in (
                    [p.squared_error() if squared else p.cross_entropy() for p in some],
                    [p.correct() for p in some],
                    [p.number() for p in some],
                )
            )
            loss = loss + self.weights[name] * sample_size * total / number.clamp(min=1)
            logging_output |= {
                f"{name}_loss": total.detach() / (1 if squared else math.log(2)),  # in bits, as fairseq has it
                f"{name}_correct": correct,
                f"{name}_predictions": number,
            }
        return loss, sample_size, logging_output

    def compute_loss(self, model: Any, net_output: Any, sample: dict[str, Any], reduce: bool = True) -> Any:
        """As fairseq's; keeps what the model predicts beside."""
        self._predictions = net_output[1].get("syntax_predictions", {})
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

"""Auxiliary losses of predicted parses, beside any criterion's own loss."""

# No postponed annotations here: fairseq reads the types of a configuration's fields at run time.

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from fairseq.criterions import FairseqCriterion
from fairseq.dataclass import ChoiceEnum, FairseqDataclass
from fairseq.logging import metrics
from torch import Tensor

from fairseq_syntax.modules.heads import Prediction

#: Predictions of models.
PREDICTED = ("parent", "distance")


@dataclass
class PredictedParsesConfig(FairseqDataclass):
    """Options of the auxiliary losses."""

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
            "help": "loss of predicted heads: cross-entropy (LISA), or the squared distance of attention from a "
            "row of 0 and 1 (as Hou 2024 describes LISA)"
        },
    )


class WithPredictedParses(FairseqCriterion):
    """Base of criterions with auxiliary losses, before fairseq's own among the bases.

    The loss is that one's + Σ λ·(auxiliary loss), of LISA and SEPREM, eq. (9).

    An auxiliary loss is the mean of sentences' means. With l_i the losses of the N_s predictions of sentence s, and t_s
    its share of the criterion's sample size (its target tokens, or 1), a pass adds

        λ · Σ_s t_s · (Σ_i l_i / N_s)

    to the criterion's summed loss. fairseq divides the sum of all passes and processes by Σ_s t_s, so λ weighs a
    weighted mean of sentences' mean losses against the criterion's loss per target token (per sentence).

    Papers have the mean over a batch's predictions, t·(Σ_i l_i / N) with t and N of the whole batch, which is no sum
    over sentences: N passes under ``--update-freq N``, or N processes, would not be a batch N times as large. Of one
    sentence the two are equal. Of distances, which are predicted of pairs of words, long sentences have most of the
    weight there; here each has that of its target tokens. A sentence of which nothing is predicted adds 0, but its
    target tokens count in the denominator.
    """

    #: Batches must have the features that a model's auxiliary losses compare with (``label_features``).
    has_auxiliary_losses = True
    weights: dict[str, float]
    squared: bool

    @classmethod
    def build_criterion(cls, cfg: Any, task: Any) -> "WithPredictedParses":
        criterion: WithPredictedParses = super().build_criterion(cfg, task)
        criterion.weights = {"parent": cfg.parent_loss_weight, "distance": cfg.distance_loss_weight}
        criterion.squared = cfg.parent_loss == "squared"
        return criterion

    def shares(self, sample: Mapping[str, Any]) -> Tensor:
        """Return t_s, ``(sentences,)``."""
        raise NotImplementedError

    def forward(self, model: Any, sample: dict[str, Any], reduce: bool = True) -> tuple[Tensor, Any, dict[str, Any]]:
        """As fairseq's; the loss includes the auxiliary ones, which are logged beside it."""
        predicting = PredictingModel(model)
        loss, sample_size, logging_output = super().forward(predicting, sample, reduce)
        loss = loss + self._auxiliary_loss(predicting.predictions, self.shares(sample), logging_output)
        return loss, sample_size, logging_output

    def _auxiliary_loss(
        self, predictions: Mapping[str, Sequence[Prediction]], shares: Tensor, logging_output: dict[str, Any]
    ) -> Tensor | int:
        """Return what the predictions of a pass add to the loss, and log them.

        Args:
            predictions: of the model, by name.
            shares: t_s, ``(sentences,)``.
            logging_output: gets the same keys in every batch, since fairseq adds up those of the first.
        """
        added: Tensor | int = 0
        zero = torch.zeros((), device=shares.device)
        for name in PREDICTED:
            some = predictions.get(name, ())
            squared = self.squared and name == "parent"
            losses = [p.squared_error() if squared else p.cross_entropy() for p in some]
            numbers = sum((p.numbers(len(shares)) for p in some), start=zero.new_zeros(len(shares)))
            of_sentences = shares / numbers.clamp(min=1)
            for prediction, of_rows in zip(some, losses, strict=True):
                added = added + self.weights[name] * (of_rows * of_sentences[prediction.sentences]).sum()
            total = sum((of_rows.detach().sum() for of_rows in losses), start=zero)
            logging_output |= {
                f"{name}_loss": total / (1 if squared else math.log(2)),  # in bits, as fairseq has it
                f"{name}_correct": sum((p.correct() for p in some), start=zero),
                f"{name}_predictions": numbers.sum(),
            }
        return added

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


class PredictingModel:
    """A model with its predictions of parses in a criterion's pass.

    Attributes:
        predictions: by name, of the last pass.
    """

    def __init__(self, model: Any):
        self._model = model
        self.predictions: Mapping[str, Sequence[Prediction]] = {}

    def __call__(self, **net_input: Any) -> Any:
        if "src_syntax" in net_input:  # else a model that needs no features would be asked for predictions
            net_input["predictions"] = True
        output = self._model(**net_input)
        self.predictions = output[1].get("syntax_predictions", {})
        return output

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)

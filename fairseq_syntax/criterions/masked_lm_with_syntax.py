"""Masked language modelling with auxiliary losses of predicted parses."""

# No postponed annotations here: fairseq reads the types of a configuration's fields at run time.

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fairseq.criterions import register_criterion
from fairseq.criterions.masked_lm import MaskedLmConfig, MaskedLmLoss
from torch import Tensor

from fairseq_syntax.criterions.predicted_parses import PredictedParses, PredictedParsesConfig, PredictingModel


@dataclass
class MaskedLmWithSyntaxConfig(PredictedParsesConfig, MaskedLmConfig):
    """fairseq's options, and those of the auxiliary losses."""


@register_criterion("masked_lm_with_syntax", dataclass=MaskedLmWithSyntaxConfig)
class MaskedLmWithSyntax(MaskedLmLoss):
    """Cross-entropy of masked tokens + Σ λ·(auxiliary loss) (SEPREM, eq. 9).

    The auxiliary losses are those of :class:`~fairseq_syntax.criterions.predicted_parses.PredictedParses`.

    t_s are the masked tokens of an example. ``loss`` and ``ppl`` in the log, by which the best checkpoint is chosen,
    are of masked tokens alone. Beside them are ``parent_loss`` and ``distance_loss`` a prediction (in bits), and
    ``parent_accuracy`` and ``distance_accuracy`` in percent.
    """

    #: Batches must have the features that a model's auxiliary losses compare with (``label_features``).
    has_auxiliary_losses = True

    def __init__(self, cfg: MaskedLmWithSyntaxConfig, task: Any):
        super().__init__(cfg, task)
        self.parses = PredictedParses(
            parent_loss_weight=cfg.parent_loss_weight,
            distance_loss_weight=cfg.distance_loss_weight,
            parent_loss=cfg.parent_loss,
        )

    def forward(self, model: Any, sample: dict[str, Any], reduce: bool = True) -> tuple[Tensor, Any, dict[str, Any]]:
        """As fairseq's; the loss includes the auxiliary ones, which are logged beside it."""
        predicting = PredictingModel(model)
        loss, sample_size, logging_output = super().forward(predicting, sample, reduce)
        masked = sample["target"].ne(self.padding_idx).sum(dim=1)
        loss = loss + self.parses.loss(predicting.predictions, masked, logging_output)
        return loss, sample_size, logging_output

    @staticmethod
    def reduce_metrics(logging_outputs: Sequence[Mapping[str, Any]]) -> None:
        """As fairseq's, and the auxiliary losses as means over their predictions."""
        MaskedLmLoss.reduce_metrics(logging_outputs)
        PredictedParses.reduce_metrics(logging_outputs)

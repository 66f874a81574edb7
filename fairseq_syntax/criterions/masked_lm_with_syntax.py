"""Masked language modelling with auxiliary losses of predicted parses."""

# No postponed annotations here: fairseq reads the types of a configuration's fields at run time.

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fairseq.criterions import register_criterion
from fairseq.criterions.masked_lm import MaskedLmConfig, MaskedLmLoss
from torch import Tensor

from fairseq_syntax.criterions.predicted_parses import PredictedParsesConfig, WithPredictedParses


@dataclass
class MaskedLmWithSyntaxConfig(PredictedParsesConfig, MaskedLmConfig):
    """fairseq's options, and those of the auxiliary losses."""


@register_criterion("masked_lm_with_syntax", dataclass=MaskedLmWithSyntaxConfig)
class MaskedLmWithSyntax(WithPredictedParses, MaskedLmLoss):
    """Cross-entropy of masked tokens + Σ λ·(auxiliary loss) (SEPREM, eq. 9), see :class:`WithPredictedParses`.

    t_s are the masked tokens of an example. ``loss`` and ``ppl`` in the log, by which the best checkpoint is chosen,
    are of masked tokens alone. Beside them are ``parent_loss`` and ``distance_loss`` a prediction (in bits), and
    ``parent_accuracy`` and ``distance_accuracy`` in percent.
    """

    def shares(self, sample: Mapping[str, Any]) -> Tensor:
        masked: Tensor = sample["target"].ne(self.padding_idx).sum(dim=1)
        return masked

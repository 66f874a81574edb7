"""Loss of predicted spans, and their accuracy."""

# No postponed annotations here: fairseq reads the types of a configuration's fields at run time.

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fairseq.criterions import FairseqCriterion, register_criterion
from fairseq.dataclass import FairseqDataclass
from fairseq.logging import metrics
from torch import Tensor
from torch.nn import functional as F

from fairseq_syntax.modules.span_head import span_logits


@dataclass
class SpanPredictionConfig(FairseqDataclass):
    """The name of the head."""

    classification_head_name: str = field(default="span_head", metadata={"help": "name of the span head to use"})


@register_criterion("span_prediction", dataclass=SpanPredictionConfig)
class SpanPrediction(FairseqCriterion):
    """Cross-entropy of an answer's first and last token.

    It is (−log s_first − log e_last) / 2, in which s and e are softmaxes over the passage and ``<s>``, which is both
    where the window has no answer (Zhang et al. 2020, eq. 6; the mean of the two is BERT's). The log has the loss in
    bits a window, and ``accuracy``, the percentage of windows in which both are right.
    """

    def __init__(self, task: Any, classification_head_name: str):
        super().__init__(task)
        self.classification_head_name = classification_head_name

    def forward(self, model: Any, sample: dict[str, Any], reduce: bool = True) -> tuple[Tensor, int, dict[str, Any]]:
        """Return a batch's summed loss, its number of windows, and sums to log."""
        logits, _ = model(
            **sample["net_input"], features_only=True, classification_head_name=self.classification_head_name
        )
        logits, target = span_logits(logits.float(), sample["passage"]), sample["target"]  # (batch, n, 2), (batch, 2)
        loss = F.cross_entropy(logits, target, reduction="sum") / 2
        correct = (logits.argmax(dim=1) == target).all(dim=1).sum()
        windows = len(target)
        logged = {"loss": loss.detach(), "ncorrect": correct, "ntokens": sample["ntokens"]}
        return loss, windows, {**logged, "nsentences": windows, "sample_size": windows}

    @classmethod
    def reduce_metrics(cls, logging_outputs: Sequence[Mapping[str, Any]]) -> None:
        """Log the means over all windows."""
        loss, correct, windows = (
            sum(log.get(name, 0) for log in logging_outputs) for name in ("loss", "ncorrect", "sample_size")
        )
        metrics.log_scalar("loss", loss / windows / math.log(2), windows, round=3)
        metrics.log_scalar("accuracy", 100 * correct / windows, windows, round=1)

    @staticmethod
    def logging_outputs_can_be_summed() -> bool:
        return True

"""Classification with any number of labels for an example, such as entity typing."""

# No postponed annotations here: fairseq reads the types of a configuration's fields at run time.

from collections.abc import Mapping, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from fairseq.criterions import FairseqCriterion, register_criterion
from fairseq.criterions.sentence_prediction import SentencePredictionConfig
from fairseq.logging import metrics
from torch import Tensor

from syntax_data.scoring.classification import f1


@register_criterion("multi_label_prediction", dataclass=SentencePredictionConfig)
class MultiLabelPrediction(FairseqCriterion):
    """Mean over classes of binary cross-entropies, summed over examples.

    A class is predicted iff its logit is > 0. With P the predicted and G the right set of an example, the log has in
    percent ``accuracy``, the share of examples with P = G; ``f1_macro`` of p = Σ |P∩G| / |P| (0 where P = ∅) and r = Σ
    |P∩G| / |G|, divided by all examples; and ``f1_micro`` of p = Σ |P∩G| / Σ |P| and r = Σ |P∩G| / Σ |G| (the scores of
    OpenEntity and FIGER).

    Raises:
        ValueError: an option of ``sentence_prediction`` is given that scores one label an example.
    """

    #: Label lines may have any number of labels; targets are padded with -1.
    takes_label_sets = True

    def __init__(self, cfg: SentencePredictionConfig, task: Any):
        super().__init__(task)
        self.classification_head_name = cfg.classification_head_name
        given = [name for name in vars(SentencePredictionConfig()) if name.startswith("re") and getattr(cfg, name)]
        if given:
            options = ", ".join(f"--{name.replace('_', '-')}" for name in given)
            raise ValueError(f"{options}: expected without --criterion multi_label_prediction")

    def forward(self, model: Any, sample: dict[str, Any], reduce: bool = True) -> tuple[Tensor, int, dict[str, Any]]:
        """Compute the loss, the number of examples, and sums to log."""
        logits, _ = model(
            **sample["net_input"], features_only=True, classification_head_name=self.classification_head_name
        )
        right = label_sets(sample["target"], logits.shape[1])
        loss = F.binary_cross_entropy_with_logits(logits.float(), right.float(), reduction="none").mean(dim=1).sum()
        logging_output = {
            "loss": loss.detach(),
            "ntokens": sample["ntokens"],
            "nsentences": len(logits),
            "sample_size": len(logits),
            **sums(logits.detach() > 0, right),
        }
        return loss, len(logits), logging_output

    @staticmethod
    def reduce_metrics(logging_outputs: Sequence[Mapping[str, Any]]) -> None:
        """Log the loss in bits, and the scores."""
        total = {
            name: float(sum(log.get(name, 0) for log in logging_outputs))
            for name in ("loss", "nsentences", "exact", "macro_p", "macro_r", "common", "predicted", "right")
        }
        examples = total["nsentences"]
        metrics.log_scalar("loss", total["loss"] / examples / torch.tensor(2.0).log().item(), examples, round=3)
        for name, value in scores(total).items():
            metrics.log_scalar(name, 100 * value, examples, round=1)

    @staticmethod
    def logging_outputs_can_be_summed() -> bool:
        return True


def label_sets(labels: Tensor, classes: int) -> Tensor:
    """Return the sets of labels as booleans, ``(batch, classes)``.

    Args:
        labels: of each example, padded with -1.
    """
    sets = torch.zeros(len(labels), classes + 1, dtype=torch.bool, device=labels.device)
    sets.scatter_(1, labels % (classes + 1), True)  # -1 is the last column
    return sets[:, :classes]


def sums(predicted: Tensor, right: Tensor) -> dict[str, Tensor]:
    """Return sums over examples for :func:`scores`, from two ``(batch, classes)``."""
    common, sizes = (predicted & right).sum(dim=1), (predicted.sum(dim=1), right.sum(dim=1))
    macro = [(common / size.clamp(min=1)).sum() for size in sizes]
    return {
        "exact": (predicted == right).all(dim=1).sum(),
        "macro_p": macro[0],
        "macro_r": macro[1],
        "common": common.sum(),
        "predicted": sizes[0].sum(),
        "right": sizes[1].sum(),
    }


def scores(total: Mapping[str, float]) -> dict[str, float]:
    """Return strict accuracy, loose macro F1 and loose micro F1, as fractions.

    Args:
        total: the sums, and ``nsentences``, the number of examples.
    """
    examples = total["nsentences"]
    macro = total["macro_p"] / examples, total["macro_r"] / examples
    micro = [total["common"] / max(total[side], 1) for side in ("predicted", "right")]
    return {"accuracy": total["exact"] / examples, "f1_macro": f1(*macro), "f1_micro": f1(*micro)}

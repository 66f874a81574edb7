"""The criterions, registered with fairseq on import."""

from fairseq_syntax.criterions import (
    label_smoothed_cross_entropy_with_syntax,
    masked_lm_with_syntax,
    multi_label_prediction,
    span_prediction,
)

__all__ = [
    "label_smoothed_cross_entropy_with_syntax",
    "masked_lm_with_syntax",
    "multi_label_prediction",
    "span_prediction",
]

"""Scores of a whole validation set (``--report-mcc`` and its like) in training by several processes.

What is wrong: in fairseq 0.12.2, main and fairseq-fixed 0.12.3 the criterion ``sentence_prediction`` puts lists of
predictions and labels into its log for these scores, and says that logs can be added up, which fails for lists as soon
as there are two processes. https://github.com/facebookresearch/fairseq/blob/main/fairseq/criterions/sentence_prediction.py
(``logging_outputs_can_be_summed``)

The repair: the task says that such logs cannot be added up, so that fairseq gathers them.
"""

from __future__ import annotations

from typing import Any


def can_be_summed(criterion: Any) -> bool:
    """Return if the criterion's logs are numbers alone."""
    return not getattr(criterion, "keep_pred_and_targ", False)

"""Scores of a whole validation set (``--report-mcc`` and its like) in training by several processes.

What is wrong: in fairseq 0.12.2, main and fairseq-fixed 0.12.3 the criterion ``sentence_prediction`` puts lists of
predictions and labels into its log for these scores, and says that logs can be added up, which fails for lists as soon
as there are two processes.
https://github.com/facebookresearch/fairseq/blob/main/fairseq/criterions/sentence_prediction.py
(``logging_outputs_can_be_summed``). Logs that cannot be added up are gathered through a buffer on a GPU, also where
there is none. https://github.com/facebookresearch/fairseq/blob/main/fairseq/distributed/utils.py (``all_gather_list``)

The repair: the task says that such logs cannot be added up, and without a GPU torch gathers them.
"""

from __future__ import annotations

import functools
from typing import Any

import torch
from fairseq.distributed import utils as distributed_utils


def can_be_summed(criterion: Any) -> bool:
    """Return if the criterion's logs are numbers alone."""
    return not getattr(criterion, "keep_pred_and_targ", False)


def gather_without_a_gpu() -> None:
    """Let fairseq gather logs of processes without a GPU."""
    gather = distributed_utils.all_gather_list

    @functools.wraps(gather)
    def all_gather_list(data: Any, group: Any = None, max_size: int = 16384) -> list[Any]:
        if torch.cuda.is_available():
            gathered: list[Any] = gather(data, group, max_size)
            return gathered
        group = group or distributed_utils.get_global_group()
        found: list[Any] = [None] * distributed_utils.get_world_size(group)
        torch.distributed.all_gather_object(found, data, group=group)
        return found

    distributed_utils.all_gather_list = all_gather_list

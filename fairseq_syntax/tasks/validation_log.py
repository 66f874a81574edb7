"""What models say of their syntax in validation: means to the log, details to tensorboard."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from fairseq.distributed import utils as distributed_utils
from fairseq.logging import metrics, progress_bar

_SHOWN, _HIDDEN = "syntax.", "_syntax."  # fairseq shows nobody what begins with _
_SENTENCES = "syntax_sentences"


def add(logging_output: dict[str, Any], sums: Mapping[str, float], sentences: int, *, details: bool) -> None:
    """Adds a batch's sums over sentences to what its criterion logs. fairseq adds them up over batches and ranks.

    Args:
        details: those whose names begin with ``_``, too.
    """
    for name, total in sums.items():
        if not name.startswith("_"):
            logging_output[_SHOWN + name] = total
        elif details:
            logging_output[_HIDDEN + name[1:]] = total
    logging_output[_SENTENCES] = sentences


def reduce(logging_outputs: Sequence[Mapping[str, Any]]) -> None:
    """Logs the means over sentences."""
    sentences = sum(log.get(_SENTENCES, 0) for log in logging_outputs)
    if not sentences:  # fairseq fills up a rank's batches with an empty one
        return
    for key in logging_outputs[0]:
        if key.startswith((_SHOWN, _HIDDEN)):
            mean = sum(log[key] for log in logging_outputs) / sentences
            metrics.log_scalar(key.removeprefix(_SHOWN), mean, weight=sentences, round=3)


def to_tensorboard(meters: Any, logdir: str | None, *, split: str, step: int) -> None:
    """Writes the means of the details to ``--tensorboard-logdir``, beside what fairseq writes there."""
    details = {name.removeprefix(_HIDDEN): meter.avg for name, meter in meters.items() if name.startswith(_HIDDEN)}
    if not (details and logdir and progress_bar.SummaryWriter) or distributed_utils.get_global_rank():
        return
    writers = progress_bar._tensorboard_writers  # fairseq's, one for each split, closed when the process ends
    if split not in writers:
        writers[split] = progress_bar.SummaryWriter(os.path.join(logdir, split))
        writers[split].add_text("sys.argv", " ".join(sys.argv))  # as fairseq, which finds it made
    for name, mean in details.items():
        writers[split].add_scalar(name, mean, step)
    writers[split].flush()

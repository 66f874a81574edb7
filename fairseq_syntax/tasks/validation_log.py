"""Gates in the log of validation: means, and single heads in a line of their own."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from fairseq.distributed import utils as distributed_utils
from fairseq.logging import metrics, progress_bar

_SHOWN, _HIDDEN = "syntax.", "_syntax."  # fairseq does not log names that begin with _
_SENTENCES = "syntax_sentences"


def add(logging_output: dict[str, Any], sums: Mapping[str, float], sentences: int) -> None:
    """Add sums of a forward pass to its batch's log; fairseq adds these up over batches and ranks."""
    for name, total in sums.items():
        key = _HIDDEN + name[1:] if name.startswith("_") else _SHOWN + name
        logging_output[key] = logging_output.get(key, 0) + total
    logging_output[_SENTENCES] = logging_output.get(_SENTENCES, 0) + sentences


def reduce(logging_outputs: Sequence[Mapping[str, Any]]) -> None:
    """Logs the means over sentences."""
    sentences = sum(log.get(_SENTENCES, 0) for log in logging_outputs)
    if not sentences:  # fairseq fills up a rank's batches with an empty one
        return
    for key in logging_outputs[0]:
        if key.startswith((_SHOWN, _HIDDEN)):
            mean = sum(log[key] for log in logging_outputs) / sentences
            metrics.log_scalar(key.removeprefix(_SHOWN), mean, weight=sentences, round=3)


def heads(meters: Any) -> dict[str, float]:
    """Return the means of single heads over all ranks, by ``gate_MASK_lLAYER_hHEAD``."""
    return {name.removeprefix(_HIDDEN): float(m.avg) for name, m in meters.items() if name.startswith(_HIDDEN)}


def to_log(means: Mapping[str, float], *, subset: str, updates: int) -> None:
    """Logs the means of single heads in one line of the master's validation log.

    The line is ``gates on 'SUBSET' subset | num_updates UPDATES | JSON``, and the JSON has for each
    ``gate_MASK_lLAYER`` the list of its heads. :mod:`syntax_experiments.training_log` reads it.
    """
    if not means or distributed_utils.get_global_rank():
        return
    of_layers: dict[str, list[float]] = {}
    for name, mean in means.items():
        of_layers.setdefault(name.rpartition("_h")[0], []).append(round(mean, 3))
    with progress_bar.rename_logger(progress_bar.logger, subset) as logger:  # so --log-file has it, too
        logger.info("gates on '%s' subset | num_updates %d | %s", subset, updates, json.dumps(of_layers))


def to_tensorboard(means: Mapping[str, float], logdir: str | None, *, split: str, step: int) -> None:
    """Writes the means of single heads to ``--tensorboard-logdir``."""
    if not (means and logdir and progress_bar.SummaryWriter) or distributed_utils.get_global_rank():
        return
    writers = progress_bar._tensorboard_writers  # fairseq's, one for each split, closed when the process ends
    if split not in writers:
        writers[split] = progress_bar.SummaryWriter(os.path.join(logdir, split))
        writers[split].add_text("sys.argv", " ".join(sys.argv))  # as fairseq would
    for name, mean in means.items():
        writers[split].add_scalar(name, mean, step)
    writers[split].flush()

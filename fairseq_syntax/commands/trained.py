"""Opening a checkpoint with a data-bin, for analyses of the model."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from fairseq import checkpoint_utils, tasks, utils
from omegaconf.errors import OmegaConfBaseException
from torch import nn
from tqdm import tqdm

from fairseq_syntax.checkpoints.safe_loading import naming
from fairseq_syntax.checkpoints.size_limit import SizeLimit
from syntax_data.errors import InputError, one_line


def read_checkpoint(path: str, data: str, **overrides: Any) -> tuple[dict[str, Any], Any]:
    """Return a checkpoint's content, and its task on the data-bin `data`, with options changed to `overrides`.

    Raises :class:`InputError` if the checkpoint lacks its configuration, or the data-bin does not fit it.
    """
    state = checkpoint_utils.load_checkpoint_to_cpu(path, {"data": data, **overrides})
    if state.get("cfg") is None:
        raise InputError(path, None, "expected a checkpoint with its configuration, found none")
    with of_data_bin(data):
        try:
            return state, tasks.setup_task(state["cfg"].task)
        except OmegaConfBaseException as error:
            raise InputError(path, None, f"expected the options of a task, found: {one_line(error)}") from error


def files_of_data_bin(data: str) -> list[str]:
    """The paths of all files in the folders `data`."""
    return [os.path.join(folder, name) for folder in utils.split_paths(data) for name in os.listdir(folder)]


def build_trained(path: str, state: dict[str, Any], task: Any, *, cpu: bool) -> nn.Module:
    """Return the checkpoint's model in evaluation mode, on a GPU if there is one and not `cpu`.

    Raises :class:`InputError` if the weights do not fit.
    """
    (model,), _, _ = checkpoint_utils.load_model_ensemble_and_task([path], task=task, state=state)
    return _evaluated(model, cpu=cpu)


def build_untrained(path: str, data: str, state: dict[str, Any], task: Any, *, seed: int, cpu: bool) -> nn.Module:
    """As :func:`build_trained`, with the weights with which training would begin under `seed`."""
    torch.manual_seed(seed)
    fit = f"weights that fit its configuration and the dictionaries of {data}"
    with SizeLimit() as limit, naming(path, fit):
        limit.of(path, state)
        return _evaluated(task.build_model(state["cfg"].model), cpu=cpu)


def _evaluated(model: nn.Module, *, cpu: bool) -> nn.Module:
    model.eval()
    if torch.cuda.is_available() and not cpu:
        model.cuda()
    return model


def load_split(task: Any, data: str, split: str) -> Any:
    """Return a split; :class:`InputError` if the data-bin has none to read."""
    with of_data_bin(data):
        task.load_dataset(split)
    return task.dataset(split)


def batches(task: Any, split: str, size: int, model: nn.Module) -> Iterator[dict[str, Any]]:
    """Yield batches of similar lengths, of a loaded split, on the device of a model, with a progress bar."""
    dataset, device = task.dataset(split), next(model.parameters()).device
    iterator = task.get_batch_iterator(dataset, max_sentences=size, disable_iterator_cache=True)
    with tqdm(total=len(dataset), unit=" examples", disable=None) as bar:
        for batch in iterator.next_epoch_itr(shuffle=False):
            yield utils.move_to_cuda(batch, device) if device.type == "cuda" else batch
            bar.update(len(batch["id"]))


@contextmanager
def of_data_bin(path: str) -> Iterator[None]:
    """Inside the block, errors of fairseq, which cannot read a data-bin, are :class:`InputError`."""
    try:
        yield
    except InputError:
        raise
    except Exception as error:  # of many kinds, plain ones and assertions too
        reason = " ".join(str(error).split())
        raise InputError(path, None, f"expected a data-bin of the model's, found: {reason}") from error


@contextmanager
def memory_errors() -> Iterator[None]:
    """Name a GPU's lack of memory without a traceback, as :class:`MemoryError`."""
    try:
        yield
    except torch.OutOfMemoryError as error:
        raise MemoryError(str(error)) from error

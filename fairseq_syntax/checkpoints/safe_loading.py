"""Reading a fairseq checkpoint by torch's safe loading (``weights_only=True``).

What is wrong: torch ≥ 2.6 loads safely by default, and refuses the types that checkpoints of fairseq hold beside
weights: "Weights only load failed". https://github.com/facebookresearch/fairseq/issues/5610. And what is loaded may
still reach beyond the file, by interpolations in its configuration.

The repair: :func:`allow_safe_loading` names stand-ins for the plain types among those to torch; safe loading stays on.
:func:`read` also checks what was loaded.
"""

from __future__ import annotations

import copy
import logging
import os
import re
import textwrap
import zipfile
from argparse import Namespace
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from fairseq.file_io import PathManager
from torch import Tensor, nn

from fairseq_syntax.checkpoints import recorded_files
from syntax_data.errors import InputError, describe_path, short_repr

logger = logging.getLogger(__name__)

#: How fairseq's configurations refer to another option, such as ${common.tpu}.
_OTHER_OPTION = re.compile(r"\$\{[A-Za-z_]\w*(\.[A-Za-z_]\w*)+\}")

_OPTIONAL = type(None)
_OPTIONS, _NUMBER = (dict, Namespace), (int, float, _OPTIONAL)
#: The types of parts of a checkpoint, where they are there.
_TYPES: dict[tuple[Any, ...], tuple[type, ...]] = {
    ("args",): (Namespace, _OPTIONAL),
    ("cfg",): (dict, _OPTIONAL),
    ("cfg", "model"): _OPTIONS,
    ("cfg", "task"): _OPTIONS,
    ("extra_state",): (dict, _OPTIONAL),
    ("extra_state", "best"): _NUMBER,
    ("extra_state", "val_loss"): _NUMBER,
    ("extra_state", "train_iterator"): (dict, _OPTIONAL),
    ("extra_state", "train_iterator", "epoch"): (int, _OPTIONAL),
    ("extra_state", "train_iterator", "iterations_in_epoch"): (int, _OPTIONAL),
}
#: Options by which data grow, and their highest value. (Those of the model are limited by its weights.)
_OF_DATA, _HIGHEST = frozenset({"num_batch_buckets", "required_seq_len_multiple"}), 10_000
#: The types of a configuration's values.
_CONTAINERS, _PLAIN = (dict, list, tuple, Namespace), (_OPTIONAL, bool, int, float, str)
#: No checkpoint of fairseq has more values, or has them deeper within lists and dictionaries.
_MOST, _DEEPEST = 1_000_000, 30


class _DType:
    """Stand-in for :class:`numpy.dtype`, whose ``__setstate__`` would take a file's bytes for addresses of objects."""

    def __init__(self, name: str = "", align: bool = False, copy: bool = True):
        if name not in ("i8", "i4", "f8", "f4"):
            raise ValueError(f"expected int64, int32, float64 or float32, found the dtype {short_repr(name)}")
        self.name = name

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        if state not in ((3, order, None, None, None, -1, -1, 0) for order in "<>"):
            raise ValueError(f"expected a plain dtype, found the state {short_repr(state)}")
        self.name = state[1] + self.name


class _Array(np.ndarray):
    """Stand-in for :class:`numpy.ndarray`: a vector of numbers, which is saved as numpy's own."""

    def __new__(cls) -> _Array:
        return super().__new__(cls, 0)

    def __setstate__(self, state: Any) -> None:
        _, (length,), kind, _, content = state
        if type(kind) is not _DType or type(length) is not int or type(content) is not bytes:
            raise TypeError("expected an array of numbers")
        found = np.frombuffer(content, kind.name)
        if len(found) != length:
            raise ValueError(f"expected {length} numbers, found {len(found)}")
        values: Any = (1, found.shape, found.dtype, False, content)
        super().__setstate__(values)

    def __reduce_ex__(self, protocol: Any) -> Any:
        return np.asarray(self).__reduce_ex__(protocol)


def _reconstruct(kind: type, shape: object, code: object) -> _Array:
    """Stand-in for numpy's function of that name: an empty array, which its state fills."""
    if kind is not _Array:
        raise TypeError(f"expected an array, found {short_repr(kind)}")
    return _Array()


def allow_safe_loading() -> None:
    """Allow-list the plain types that fairseq checkpoints hold beside tensors. Safe loading itself stays on.

    Legacy-style models keep their options in an :class:`argparse.Namespace`; ``--eval-bleu`` keeps its n-gram counts as
    numpy arrays of four numbers. numpy itself does not read them, since it would take bytes of the file for addresses.
    """
    reconstruct = [f"numpy.{core}.multiarray._reconstruct" for core in ("_core", "core")]  # as numpy 2 and 1 write it
    torch.serialization.add_safe_globals(
        [Namespace, (_Array, "numpy.ndarray"), (_DType, "numpy.dtype"), *((_reconstruct, name) for name in reconstruct)]
    )


def read(path: str) -> dict[str, Any]:
    """Return a checkpoint's content as it was saved, without the files that it names.

    Raises:
        InputError: it is no fairseq checkpoint, or its configuration is none, or has interpolations in it.
    """
    local = PathManager.get_local_path(path)
    if not os.path.isfile(local):
        raise InputError(path, None, f"expected a checkpoint, found {describe_path(local)}")
    try:
        zipped = zipfile.is_zipfile(local)  # other ones are of torch before 1.6
        if zipped:
            _check_archive(local)
        # A tensor may claim more numbers than its part of the file has; of a mapped file torch sees no more than those.
        state = torch.load(local, map_location="cpu", weights_only=True, mmap=zipped)
    except Exception as error:  # torch's, numpy's and pickle's, of many kinds
        raise InputError(
            path, None, f"expected a fairseq checkpoint, found a file that torch cannot read ({_short(error)})"
        ) from error
    weights = state.get("model") if isinstance(state, dict) else None
    if not isinstance(weights, dict) or not all(
        isinstance(name, str) and isinstance(weight, Tensor) for name, weight in weights.items()
    ):
        raise InputError(path, None, "expected a fairseq checkpoint, found one without a model's weights")
    _check_values(path, state)
    if dropped := recorded_files.drop([state.get("args"), state.get("cfg")]):
        logger.warning("%s: its files are elsewhere, so these options are left out: %s", path, ", ".join(dropped))
    return copy.deepcopy(state) if zipped else state  # into memory; tensors that share a storage still do


def _check_archive(path: str) -> None:
    """Raise an error for parts that are damaged, or take more memory than there is in the file.

    torch checks no sums, never compresses a part, and lets none overlap.
    """
    with zipfile.ZipFile(path) as archive:
        for part in archive.infolist():
            if part.compress_type != zipfile.ZIP_STORED:
                raise ValueError(f"{short_repr(part.filename)} is compressed")
        if sum(part.file_size for part in archive.infolist()) > os.path.getsize(path):
            raise ValueError("its parts overlap")
        if (damaged := archive.testzip()) is not None:
            raise ValueError(f"{short_repr(damaged)} is damaged")


def _check_values(path: str, state: dict[str, Any]) -> None:
    """Refuse a checkpoint with values that fairseq's do not have.

    They have containers, plain values and, outside the configuration, tensors; and the n-gram counts of ``--eval-bleu``
    in the states of meters. OmegaConf would resolve interpolations such as ``${oc.env:SECRET}``.
    """

    def bad(place: tuple[Any, ...], expected: str, found: str) -> InputError:
        return InputError(path, None, f"{_named(place)}: expected {expected}, found {found}")

    for count, (place, value) in enumerate(_values(path, state)):
        if count > _MOST:
            raise InputError(path, None, f"expected a fairseq checkpoint, found more than {_MOST} values")
        if (kinds := _TYPES.get(place)) and not isinstance(value, kinds):
            raise bad(place, " or ".join(kind.__name__ for kind in kinds), short_repr(value))
        configures = place[:1] in (("args",), ("cfg",))
        if isinstance(value, _CONTAINERS):
            continue
        if isinstance(value, _PLAIN):
            if configures and isinstance(value, str) and "${" in value and not _OTHER_OPTION.fullmatch(value):
                raise bad(place, "a value", f"{short_repr(value)}, which is not resolved")
            if configures and place[-1] in _OF_DATA and isinstance(value, (int, float)) and not value <= _HIGHEST:
                raise bad(place, f"at most {_HIGHEST}", short_repr(value))
        elif type(value) in (Tensor, nn.Parameter) and not configures:
            if value.device.type != "cpu" or value.layout != torch.strided or value.is_quantized or (
                value.numel() * value.element_size() > value.untyped_storage().nbytes()
            ):  # fmt: skip
                raise bad(place, "a plain tensor", "one without all its numbers")
        elif type(value) is _Array:
            # extra_state.metrics: for each aggregator a list of (priority, name, class, state of the meter)
            if place[:2] != ("extra_state", "metrics") or place[4:] not in ((3, "val"), (3, "sum")):
                raise bad(place, "no array here", "one")
        elif configures or not isinstance(value, (bytes, torch.device, torch.dtype)):
            raise bad(place, "a value", short_repr(value))


def _values(path: str, value: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """Yield nested containers and the values in them, each with its keys."""
    yield place, value
    if not isinstance(value, _CONTAINERS):
        return
    if len(place) > _DEEPEST:
        raise InputError(path, None, f"{_named(place[:3])}: expected a value, found one that is nested too deeply")
    value = vars(value) if isinstance(value, Namespace) else value
    for key, item in value.items() if isinstance(value, dict) else enumerate(value):
        if not isinstance(key, _PLAIN):
            raise InputError(path, None, f"{_named(place)}: expected names or numbers as keys, found {short_repr(key)}")
        yield from _values(path, item, (*place, key))


def _named(place: tuple[Any, ...]) -> str:
    """Keys as one word for a message, without line breaks."""
    return ".".join(key if isinstance(key, str) and key.isprintable() else short_repr(key) for key in place)


def _short(error: Exception) -> str:
    """The reason alone: torch puts it after its advice on unsafe loading, and before advice on safe one."""
    reason = str(error).rpartition("WeightsUnpickler error: ")[2].partition(". Please use")[0].strip()
    return ": ".join([type(error).__name__, *reason[:200].splitlines()[:1]])


@contextmanager
def naming(path: str, expected: str) -> Iterator[None]:
    """Inside the block, errors are :class:`InputError` with what was `expected` of the file at a path.

    Errors of the system, such as a lack of memory, are not the file's.
    """
    try:
        yield
    except (InputError, OSError, MemoryError, torch.OutOfMemoryError):
        raise
    except Exception as raised:  # fairseq's, torch's and OmegaConf's, of many kinds
        error = raised
        if type(raised) is Exception and isinstance(raised.__context__, Exception):
            error = raised.__context__  # which fairseq's trainer does not say
        reason = textwrap.shorten(str(error), 500, placeholder=" …")
        if not isinstance(error, (RuntimeError, ValueError)):
            reason = f"{type(error).__name__}: {reason}"
        raise InputError(path, None, f"expected {expected}, found: {reason}") from raised

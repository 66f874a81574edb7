"""Reading a fairseq checkpoint by torch's safe loading (``weights_only=True``).

What is wrong: torch ≥ 2.6 loads safely by default, and refuses the types that checkpoints of fairseq 0.12.2, main and
fairseq-fixed 0.12.3 hold beside weights: "Weights only load failed".
https://github.com/facebookresearch/fairseq/issues/5610. And what is loaded may still reach beyond the file, by
interpolations in its configuration.

The repair: :func:`allow_safe_loading` names stand-ins for the plain types among those to torch; safe loading stays on.
:func:`read` also checks what was loaded.
"""

from __future__ import annotations

import logging
import os
import re
import textwrap
import zipfile
from argparse import Namespace
from collections.abc import Iterable, Iterator
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

_DICTIONARY, _NUMBER = ((dict,), "a dictionary"), ((int, float), "a number")
_OPTIONS = ((dict, Namespace), "a dictionary or namespace")
#: Parts of a checkpoint: whether one is required where its parent is there, its types, and what they are called.
_TYPES: dict[str, tuple[bool, tuple[type, ...], str]] = {
    "args": (False, (Namespace,), "a namespace"),
    "cfg": (False, *_DICTIONARY),
    "cfg.model": (True, *_OPTIONS),
    "cfg.task": (True, *_OPTIONS),
    "optimizer_history": (False, (list,), "a list of at least one item"),
    "extra_state": (False, *_DICTIONARY),
    "extra_state.best": (False, *_NUMBER),
    "extra_state.train_iterator": (False, *_DICTIONARY),
    "extra_state.train_iterator.epoch": (False, (int,), "a number"),
    "extra_state.train_iterator.iterations_in_epoch": (False, (int,), "a number"),
    "extra_state.val_loss": (False, *_NUMBER),
}
#: Options by which data grow, and their highest value. (Those of the model are limited by its weights.)
_OF_DATA, _HIGHEST = frozenset({"num_batch_buckets", "required_seq_len_multiple"}), 10_000
#: The types of a configuration's values, beside containers.
_PLAIN = (type(None), bool, int, float, str)
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
    torch.serialization.add_safe_globals(
        [
            Namespace,
            (_Array, "numpy.ndarray"),
            (_DType, "numpy.dtype"),
            (_reconstruct, "numpy._core.multiarray._reconstruct"),  # as numpy 2 writes it
            (_reconstruct, "numpy.core.multiarray._reconstruct"),  # as numpy 1 did
        ]
    )


def read(path: str, *, mmap: bool = False) -> dict[str, Any]:
    """Return a checkpoint's content as it was saved, without the files that it names.

    Args:
        mmap: leave the weights in the file until they are used.

    Raises:
        InputError: it is no fairseq checkpoint, or its configuration is none, or has interpolations in it.
    """
    local = PathManager.get_local_path(path)
    if not os.path.isfile(local):
        raise InputError(path, None, f"expected a checkpoint, found {describe_path(local)}")
    try:
        zipped = zipfile.is_zipfile(local)  # other ones are of torch before 1.6
        # A file may claim that its parts are larger than they are; of a mapped file torch sees no more than there is.
        if zipped:
            _check_archive(local, whole=not mmap)
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
    tensors = _check_values(path, state)
    _check_types(path, state)
    dropped = recorded_files.drop([state.get("args"), state.get("cfg")])
    if dropped and not mmap:
        logger.warning(
            "%s: its files are elsewhere, so these options are not taken from it: %s", path, ", ".join(dropped)
        )
    if zipped and not mmap:
        _into_memory(path, tensors, os.path.getsize(local))
    return state


def _check_archive(path: str, *, whole: bool) -> None:
    """Raise an error if a part of a zip file is compressed, as torch's never are: it might become huge.

    Args:
        whole: check the parts' checksums, too, which torch does not.
    """
    with zipfile.ZipFile(path) as archive:
        for part in archive.infolist():
            if part.compress_type != zipfile.ZIP_STORED:
                raise ValueError(f"{short_repr(part.filename)} is compressed")
        damaged = archive.testzip() if whole else None
    if damaged is not None:
        raise ValueError(f"{short_repr(damaged)} is damaged")


def _check_values(path: str, state: dict[str, Any]) -> list[Tensor]:
    """Return a checkpoint's tensors; refuse one with values that fairseq's do not have.

    They have containers, plain values and, outside the configuration, tensors; and the n-gram counts of ``--eval-bleu``
    in the states of meters. OmegaConf would resolve interpolations such as ``${oc.env:SECRET}``.
    """
    tensors = []
    for count, (place, value) in enumerate(_values(path, state)):
        if count > _MOST:
            raise InputError(path, None, f"expected a fairseq checkpoint, found more than {_MOST} values")
        configures = place[0] in ("args", "cfg")
        if isinstance(value, _PLAIN):
            if configures:
                _check_option(path, place, value)
        elif type(value) in (Tensor, nn.Parameter) and not configures:
            if value.device.type != "cpu" or value.layout != torch.strided or value.is_quantized or (
                value.numel() * value.element_size() > value.untyped_storage().nbytes()
            ):  # fmt: skip
                raise InputError(
                    path, None, f"{_named(place)}: expected a plain tensor, found one without all its numbers"
                )
            tensors.append(value)
        elif type(value) is _Array:
            # extra_state.metrics: for each aggregator a list of (priority, name, class, state of the meter)
            if place[:2] != ("extra_state", "metrics") or place[4:] not in ((3, "val"), (3, "sum")):
                raise InputError(path, None, f"{_named(place)}: expected no array here, found one")
        elif configures or not isinstance(value, (bytes, torch.device, torch.dtype)):
            raise InputError(path, None, f"{_named(place)}: expected a value, found {short_repr(value)}")
    return tensors


def _values(path: str, value: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """Yield the values in nested containers, each with its keys; each container counts as one more, ``None``."""
    if isinstance(value, Namespace):
        value = vars(value)
    items: Iterable[tuple[Any, Any]]
    if isinstance(value, dict):
        items = value.items()
    elif isinstance(value, (list, tuple)):
        items = enumerate(value)
    else:
        yield place, value
        return
    if len(place) > _DEEPEST:
        raise InputError(
            path, None, f"{_named(place[:3])}: expected a configuration, found one that is nested too deeply"
        )
    yield (place or (None,)), None
    for key, item in items:
        if not isinstance(key, _PLAIN):
            raise InputError(path, None, f"{_named(place)}: expected names or numbers as keys, found {short_repr(key)}")
        yield from _values(path, item, (*place, key))


def _named(place: tuple[Any, ...]) -> str:
    """Keys as one word for a message, without line breaks."""
    return ".".join(key if isinstance(key, str) and key.isprintable() else short_repr(key) for key in place)


def _into_memory(path: str, tensors: list[Tensor], size: int) -> None:
    """Give the tensors of a mapped file, of `size` bytes, storages of their own. Those that shared one still do."""
    mapped = [tensor.untyped_storage() for tensor in tensors]
    storages: dict[tuple[int, int], Any] = {(storage.data_ptr(), storage.nbytes()): storage for storage in mapped}
    if sum(storage.nbytes() for storage in storages.values()) > size:
        raise InputError(path, None, "expected a fairseq checkpoint, found weights that overlap in the file")
    storages = {key: storage.clone() for key, storage in storages.items()}
    with torch.no_grad():
        for tensor, old in zip(tensors, mapped, strict=True):
            new = storages[old.data_ptr(), old.nbytes()]
            tensor.set_(new, tensor.storage_offset(), tensor.size(), tensor.stride())


def _check_types(path: str, state: dict[str, Any]) -> None:
    """Refuse a checkpoint whose parts are not of the types that fairseq gives them."""
    for place, (needed, kinds, expected) in _TYPES.items():
        found: Any = state
        *outer, last = place.split(".")
        for name in outer:
            found = vars(found) if isinstance(found, Namespace) else found
            found = found.get(name) if isinstance(found, dict) else None
        if not isinstance(found, dict) or (last not in found and not needed):
            continue
        value = found.get(last)
        if (value is not None or needed) and (not isinstance(value, kinds) or value == []):
            raise InputError(path, None, f"{place}: expected {expected}, found {short_repr(value)}")


def _check_option(path: str, place: tuple[Any, ...], value: Any) -> None:
    """Refuse an option that is an interpolation, or a number by which data would grow without limit."""
    if isinstance(value, str) and "${" in value and not _OTHER_OPTION.fullmatch(value):
        raise InputError(
            path, None, f"{_named(place)}: expected a value, found {short_repr(value)}, which is not resolved"
        )
    if place[-1] in _OF_DATA and isinstance(value, (int, float)) and not value <= _HIGHEST:
        raise InputError(path, None, f"{_named(place)}: expected at most {_HIGHEST}, found {short_repr(value)}")


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

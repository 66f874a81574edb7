"""Reading a fairseq checkpoint by torch's safe loading (``weights_only=True``).

What is wrong: torch ≥ 2.6 loads safely unless told otherwise, and refuses the types that checkpoints of fairseq 0.12.2,
main and fairseq-fixed 0.12.3 hold beside weights: "Weights only load failed".
https://github.com/facebookresearch/fairseq/issues/5610. And what is loaded may still reach beyond the file, by
addresses, interpolations or code in its configuration.

The repair: :func:`allow_safe_loading` names stand-ins for the plain types among those to torch; safe loading stays on.
:func:`read` also looks at what was loaded.
"""

from __future__ import annotations

import logging
import os
import re
import textwrap
import zipfile
from argparse import Namespace
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import numpy as np
import torch
from fairseq.data.encoders import gpt2_bpe
from fairseq.file_io import PathManager
from torch import Tensor, nn

from fairseq_syntax.checkpoints import literals, recorded_files
from syntax_data.errors import InputError, describe_path, short_repr

logger = logging.getLogger(__name__)

#: The parts of a configuration, and the options, where fairseq takes an address for a file.
_LOADED = frozenset(
    {
        "bpe", "tokenizer", "bpe_codes", "bpe_merges", "bpe_vocab", "gpt2_encoder_json", "gpt2_vocab_bpe",
        "sentencepiece_model", "sentencepiece_model_path",
    }
)  # fmt: skip
#: The addresses that are fairseq's own defaults.
_OF_FAIRSEQ = frozenset({gpt2_bpe.DEFAULT_ENCODER_JSON, gpt2_bpe.DEFAULT_VOCAB_BPE})
_ADDRESS = re.compile(r"[\x00-\x20]*[A-Za-z][A-Za-z0-9+.\t\r\n-]+:")  # white space is taken off; C: is a drive
#: What fairseq's configurations have for the value of another option, such as ${common.tpu}.
_OTHER_OPTION = re.compile(r"\$\{[A-Za-z_]\w*(\.[A-Za-z_]\w*)+\}")


_DICTIONARY, _NUMBER = ((dict,), "a dictionary"), ((int, float), "a number")
_OPTIONS = ((dict, Namespace), "a dictionary or namespace")
#: Parts of a checkpoint: whether one must be there if what it is a part of is, its types, and what they are called.
_TYPES: dict[str, tuple[bool, tuple[type, ...], str]] = {
    "args": (False, (Namespace,), "a namespace"),
    "cfg": (False, *_DICTIONARY),
    "cfg.model": (True, *_OPTIONS),
    "cfg.task": (True, *_OPTIONS),
    "task_state": (False, *_DICTIONARY),
    "optimizer_history": (False, (list,), "a list of at least one item"),
    "extra_state": (False, *_DICTIONARY),
    "extra_state.best": (False, *_NUMBER),
    "extra_state.ema": (False, *_DICTIONARY),
    "extra_state.ema_fp32_params": (False, *_DICTIONARY),
    "extra_state.train_iterator": (False, *_DICTIONARY),
    "extra_state.train_iterator.epoch": (False, (int,), "a number"),
    "extra_state.train_iterator.iterations_in_epoch": (False, (int,), "a number"),
    "extra_state.val_loss": (False, *_NUMBER),
}
#: Options by which data grow, and their highest value. (What the model's may be, its weights show.)
_OF_DATA, _HIGHEST = frozenset({"num_batch_buckets", "required_seq_len_multiple"}), 10_000
#: What a configuration is of, beside containers.
_PLAIN = (type(None), bool, int, float, str)
#: No checkpoint of fairseq has more values, or has them deeper within lists and dictionaries.
_MOST, _DEEPEST = 1_000_000, 30


class _DType:
    """Stands for :class:`numpy.dtype`, whose ``__setstate__`` believes what a file says of the objects in an array."""

    def __init__(self, name: str = "", align: bool = False, copy: bool = True):
        if name not in ("i8", "i4", "f8", "f4"):
            raise ValueError(f"expected int64, int32, float64 or float32, found the dtype {short_repr(name)}")
        self.name = name

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        if state not in ((3, order, None, None, None, -1, -1, 0) for order in "<>"):
            raise ValueError(f"expected a plain dtype, found the state {short_repr(state)}")
        self.name = state[1] + self.name


class _Array(np.ndarray):
    """Stands for :class:`numpy.ndarray`: a row of numbers, which is saved as numpy's own."""

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
    """Stands for numpy's function of that name: an empty array, which its state fills."""
    if kind is not _Array:
        raise TypeError(f"expected an array, found {short_repr(kind)}")
    return _Array()


def allow_safe_loading() -> None:
    """Allow-lists the plain types that fairseq checkpoints hold beside tensors.

    Legacy-style models keep their options in an :class:`argparse.Namespace`; ``--eval-bleu`` keeps its n-gram counts as
    numpy arrays, which are rows of four numbers. numpy itself takes no part in reading them, since it would take bytes
    of the file for addresses in memory. Safe loading itself stays on.
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
    """A checkpoint's content as it was saved, without the files that it names and what fairseq makes of it.

    Args:
        mmap: leave the weights in the file until they are used.

    Raises:
        InputError: it is no fairseq checkpoint, its configuration is none, or it holds code, addresses that fairseq
            would load files from, or interpolations.
    """
    local = PathManager.get_local_path(path)
    if not os.path.isfile(local):
        raise InputError(path, None, f"expected a checkpoint, found {describe_path(local)}")
    try:
        zipped = zipfile.is_zipfile(local)  # other ones are of torch before 1.6
        # Some versions of torch believe the file in how large its parts are; of a mapped file they see no more than it.
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
    configuration = {name: state.get(name) for name in ("args", "cfg")}
    _check_options(path, list(configuration.values()))
    for name, value in literals.code(configuration):
        raise InputError(
            path, None, f"{name}: expected a literal, such as [1, 2], found {short_repr(value)}, which is not run"
        )
    for name, value in recorded_files.drop(configuration):
        if not mmap:
            logger.warning(
                "%s: %s is not taken from the checkpoint, whose files are elsewhere (%s)", path, name, short_repr(value)
            )
    if zipped and not mmap:
        _into_memory(path, tensors, os.path.getsize(local))
    return state


def _check_archive(path: str, *, whole: bool) -> None:
    """Raises an error if a part of a zip file is compressed, as torch's never are: it might become huge.

    Args:
        whole: also if the bytes of a part are not those that were written, at which torch does not look.
    """
    with zipfile.ZipFile(path) as archive:
        for part in archive.infolist():
            if part.compress_type != zipfile.ZIP_STORED:
                raise ValueError(f"{short_repr(part.filename)} is compressed")
        damaged = archive.testzip() if whole else None
    if damaged is not None:
        raise ValueError(f"{short_repr(damaged)} is damaged")


def _check_values(path: str, state: dict[str, Any]) -> list[Tensor]:
    """Refuses a checkpoint that holds something else than fairseq's; its tensors.

    Those are containers, plain values and, outside its configuration, tensors; and the n-gram counts of
    ``--eval-bleu`` in the states of meters.
    """
    tensors = []
    for count, (place, value) in enumerate(_values(path, state)):
        if count > _MOST:
            raise InputError(path, None, f"expected a fairseq checkpoint, found more than {_MOST} values")
        if isinstance(value, _PLAIN):
            continue
        configures = place[0] in ("args", "cfg")
        if type(value) in (Tensor, nn.Parameter) and not configures:
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
    """All values, but no containers, in a container, each with its keys; an empty container counts as ``None``."""
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
    """Keys for a message, in which a key's line breaks would be in the way."""
    return ".".join(key if isinstance(key, str) and key.isprintable() else short_repr(key) for key in place)


def _into_memory(path: str, tensors: list[Tensor], size: int) -> None:
    """Gives the tensors of a mapped file, of `size` bytes, storages of their own. Those that shared one still do."""
    mapped = [tensor.untyped_storage() for tensor in tensors]
    storages: dict[tuple[int, int], Any] = {(storage.data_ptr(), storage.nbytes()): storage for storage in mapped}
    if sum(storage.nbytes() for storage in storages.values()) > size:
        raise InputError(path, None, "expected a fairseq checkpoint, found weights that lie in the same bytes")
    storages = {key: storage.clone() for key, storage in storages.items()}
    with torch.no_grad():
        for tensor, old in zip(tensors, mapped, strict=True):
            new = storages[old.data_ptr(), old.nbytes()]
            tensor.set_(new, tensor.storage_offset(), tensor.size(), tensor.stride())


def _check_types(path: str, state: dict[str, Any]) -> None:
    """Refuses a checkpoint whose parts are not of the types that fairseq gives them."""
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


def _check_options(path: str, configuration: object, name: str = "", *, loads: bool = False) -> None:
    """Refuses strings that would reach beyond the configuration, and numbers that no data need.

    OmegaConf would put in what the checkpoint's author likes to know (``${oc.env:SECRET}``), and fairseq loads
    some files from an address (:data:`_LOADED`). `loads` says that it would do so here.
    """
    if isinstance(configuration, Namespace):
        configuration = vars(configuration)
    if isinstance(configuration, dict):
        for key, value in configuration.items():
            _check_options(path, value, f"{name}.{key}".lstrip("."), loads=loads or key in _LOADED)
    elif isinstance(configuration, (list, tuple)):
        for value in configuration:
            _check_options(path, value, name, loads=loads)
    elif isinstance(configuration, (int, float)):
        if name.rpartition(".")[2] in _OF_DATA and not configuration <= _HIGHEST:
            raise InputError(path, None, f"{name}: expected at most {_HIGHEST}, found {short_repr(configuration)}")
    elif isinstance(configuration, str):
        if "${" in configuration and (loads or not _OTHER_OPTION.fullmatch(configuration)):
            raise InputError(
                path, None, f"{name}: expected a value, found {short_repr(configuration)}, which is not resolved"
            )
        if loads and _ADDRESS.match(configuration) and configuration not in _OF_FAIRSEQ:
            raise InputError(
                path, None, f"{name}: expected a file, found the address {short_repr(configuration)}"
            )  # fmt: skip


def _short(error: Exception) -> str:
    """The reason alone: torch puts it after its advice on unsafe loading, and before advice on safe one."""
    reason = str(error).rpartition("WeightsUnpickler error: ")[2].partition(". Please use")[0].strip()
    return ": ".join([type(error).__name__, *reason[:200].splitlines()[:1]])


@contextmanager
def naming(path: str, expected: str) -> Iterator[None]:
    """Inside the block, what goes wrong is an :class:`InputError` that says what was expected of the file at a path.

    Errors of the system, such as a lack of memory, are not the file's.
    """
    try:
        yield
    except (InputError, OSError, MemoryError, torch.OutOfMemoryError):
        raise
    except Exception as error:  # fairseq's, torch's and OmegaConf's, of many kinds
        said = textwrap.shorten(str(error), 500, placeholder=" …")
        if not isinstance(error, (RuntimeError, ValueError)):
            said = f"{type(error).__name__}: {said}"
        raise InputError(path, None, f"expected {expected}, found: {said}") from error


def weights_of(path: str, fit: str) -> AbstractContextManager[None]:
    """As :func:`naming`: inside the block, a model is built and gets weights; `fit` says what they are to fit."""
    return naming(path, f"weights that fit {fit}")

"""Reading a fairseq checkpoint by torch's safe loading (``weights_only=True``).

What is wrong: torch ≥ 2.6 loads safely unless told otherwise, and refuses the types that checkpoints of fairseq 0.12.2,
main and fairseq-fixed 0.12.3 hold beside weights: "Weights only load failed".
https://github.com/facebookresearch/fairseq/issues/5610. And what is loaded may still reach beyond the file, by
addresses, interpolations or code in its configuration.

The repair: :func:`allow_safe_loading` names the plain types among those to torch; safe loading stays on. :func:`read`
also looks at the configuration.
"""

from __future__ import annotations

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
from fairseq.data.encoders import gpt2_bpe
from fairseq.file_io import PathManager
from torch import Tensor

from fairseq_syntax.compat import literals
from syntax_preprocess.errors import InputError, found_at, shown

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


def allow_safe_loading() -> None:
    """Allow-lists the plain types that fairseq checkpoints hold beside tensors.

    Legacy-style models keep their options in an :class:`argparse.Namespace`; ``--eval-bleu`` keeps its
    n-gram counts as numpy arrays. Safe loading itself stays on.
    """
    dtypes = {type(np.dtype(name)) for name in ("int64", "int32", "float64", "float32")}
    reconstruct: Any = np.empty(0).__reduce__()[0]
    torch.serialization.add_safe_globals(
        [
            Namespace,
            np.ndarray,
            np.dtype,
            *dtypes,
            (reconstruct, "numpy._core.multiarray._reconstruct"),  # as numpy 2 writes it
            (reconstruct, "numpy.core.multiarray._reconstruct"),  # as numpy 1 did
        ]
    )


def read(path: str, *, mmap: bool = False) -> dict[str, Any]:
    """A checkpoint's content as it was saved, without what fairseq makes of it.

    Args:
        mmap: leave the weights in the file until they are used.

    Raises:
        InputError: it is no fairseq checkpoint, its configuration is none, or it holds code, addresses that fairseq
            would load files from, or interpolations.
    """
    local = PathManager.get_local_path(path)
    if not os.path.isfile(local):
        raise InputError(path, None, f"expected a checkpoint, found {found_at(local)}")
    try:
        mmap = mmap and zipfile.is_zipfile(local)  # other ones are of torch before 1.6
        state = torch.load(local, map_location="cpu", weights_only=True, mmap=mmap)
    except Exception as error:  # torch's and pickle's, of many kinds
        raise InputError(
            path, None, f"expected a fairseq checkpoint, found a file that torch cannot read ({_short(error)})"
        ) from error
    weights = state.get("model") if isinstance(state, dict) else None
    if not isinstance(weights, dict) or not all(isinstance(weight, Tensor) for weight in weights.values()):
        raise InputError(path, None, "expected a fairseq checkpoint, found one without a model's weights")
    _check_types(path, state)
    try:
        _check_strings(path, [state.get("args"), state.get("cfg")])
        for name, value in literals.code([state.get("args"), state.get("cfg")]):
            raise InputError(
                path, None, f"{name}: expected a literal, such as [1, 2], found {shown(value)}, which is not run"
            )
    except RecursionError as error:
        raise InputError(path, None, "expected a configuration, found one that is nested too deeply") from error
    return state


def _check_types(path: str, state: dict[str, Any]) -> None:
    """Refuses a checkpoint whose parts are not of the types that fairseq gives them."""
    args, cfg = state.get("args"), state.get("cfg")
    parts: list[tuple[str, object, tuple[type, ...], str]] = []
    if args is not None:
        parts.append(("args", args, (Namespace,), "a namespace"))
    if cfg is not None:
        parts.append(("cfg", cfg, (dict,), "a dictionary"))
        if isinstance(cfg, dict):
            both = (dict, Namespace)
            parts += [(f"cfg.{name}", cfg.get(name), both, "a dictionary or namespace") for name in ("model", "task")]
    for name, kind, expected in (
        ("optimizer_history", list, "a list of at least one item"),
        ("extra_state", dict, "a dictionary"),
    ):
        if name in state:
            found = state[name]
            parts.append((name, None if found == [] else found, (kind,), expected))
    for name, found, kinds, expected in parts:
        if not isinstance(found, kinds):
            found = state.get(name, found)
            raise InputError(path, None, f"{name}: expected {expected}, found {shown(found)}")


def _check_strings(path: str, configuration: object, name: str = "", *, loads: bool = False) -> None:
    """Refuses strings that would reach beyond the configuration.

    OmegaConf would put in what the checkpoint's author likes to know (``${oc.env:SECRET}``), and fairseq loads
    some files from an address (:data:`_LOADED`). `loads` says that it would do so here.
    """
    if isinstance(configuration, Namespace):
        configuration = vars(configuration)
    if isinstance(configuration, dict):
        for key, value in configuration.items():
            _check_strings(path, value, f"{name}.{key}".lstrip("."), loads=loads or key in _LOADED)
    elif isinstance(configuration, (list, tuple)):
        for value in configuration:
            _check_strings(path, value, name, loads=loads)
    elif isinstance(configuration, str):
        if "${" in configuration and (loads or not _OTHER_OPTION.fullmatch(configuration)):
            raise InputError(
                path, None, f"{name}: expected a value, found {shown(configuration)}, which is not resolved"
            )
        if loads and _ADDRESS.match(configuration) and configuration not in _OF_FAIRSEQ:
            raise InputError(
                path, None, f"{name}: expected a file, found the address {shown(configuration)}, which a checkpoint "
                "cannot have loaded"
            )  # fmt: skip


def _short(error: Exception) -> str:
    """The reason alone: torch puts it after its advice on unsafe loading, and before advice on safe one."""
    reason = str(error).rpartition("WeightsUnpickler error: ")[2].partition(". Please use")[0].strip()
    return ": ".join([type(error).__name__, *reason.splitlines()[:1]])


@contextmanager
def weights_of(path: str, fit: str) -> Iterator[None]:
    """Inside the block, what torch says of weights that do not fit, and what building a model of a configuration that
    cannot be meant raises, is an :class:`InputError`; `fit` says what to."""
    try:
        yield
    except (RuntimeError, TypeError, AttributeError, LookupError, AssertionError, ArithmeticError) as error:
        said = textwrap.shorten(str(error), 500, placeholder=" …")
        if not isinstance(error, RuntimeError):
            said = f"{type(error).__name__}: {said}"
        raise InputError(path, None, f"expected weights that fit {fit}, found: {said}") from error

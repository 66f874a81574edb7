"""Checkpoints changed at random, by a seed: options, weights, parts of any kind, their pickle, and their bytes.

tests/integration/test_checkpoints.py has what a person would change who wants more than to have one loaded: arrays that
hold addresses, paths that are opened, models of any size.
"""

from __future__ import annotations

import copy
import io
import itertools
import pickletools
import zipfile
from argparse import Namespace
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import numpy as np
import torch

State = dict[str, Any]

#: Names that torch's safe loading knows, and two that it must not.
_GLOBALS = [
    "numpy dtype", "numpy ndarray", "numpy._core.multiarray _reconstruct", "numpy.core.multiarray _reconstruct",
    "argparse Namespace", "collections OrderedDict", "collections Counter", "torch._utils _rebuild_tensor_v2",
    "torch._utils _rebuild_parameter", "torch._utils _rebuild_sparse_tensor", "torch._utils _rebuild_qtensor",
    "torch._utils _rebuild_meta_tensor_no_storage", "torch._utils _rebuild_wrapper_subclass", "torch Tensor",
    "torch._utils _rebuild_device_tensor_from_numpy", "torch._tensor _rebuild_from_type_v2", "torch FloatStorage",
    "torch HalfStorage", "torch LongStorage", "torch BoolStorage", "torch Size", "torch device", "torch float64",
    "builtins bytearray", "builtins set", "builtins complex", "_codecs encode", "torch.nn.parameter Parameter",
    "os system", "builtins eval",
]  # fmt: skip
_ODD: list[Any] = [
    None, True, -1, 0, 1, 7, 10**6, 10**9, 2**31, 2**63, 10**30, 1e308, float("nan"), "", "x", "9" * 40, "[1]", "1-9",
    "${oc.env:HOME}", "${common.seed}", "???", "/dev/zero", "a\0b", "\ud800", "a\nb", "../..", "x" * 5000, "none,none",
    "top", "__import__('os').abort()", "[0] * 10000", [], [1] * 3, ["x"], {}, {"x": 1}, (), (1,), [[[]]], b"x",
    Namespace(), torch.ones(2), torch.ones(0), np.arange(3), np.arange(3.0), [np.arange(3)], torch.float16,
]  # fmt: skip


def _leaves(value: Any) -> Iterator[tuple[Any, Any]]:
    """All containers in a state and their keys."""
    value = vars(value) if isinstance(value, Namespace) else value
    for key in list(value) if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ():
        yield value, key
        yield from _leaves(value[key])


def option(random: Random, state: State) -> None:
    options = [(part, name) for part, name in _leaves(state["cfg"]) if isinstance(part, dict)]
    for part, name in random.choices(options, k=random.randint(1, 2)):
        part[name] = copy.deepcopy(random.choice(_ODD))


def size(random: Random, state: State) -> None:
    options: Any = vars(state["cfg"]["model"])
    sizes = [name for name, value in options.items() if type(value) is int]
    value = random.choice([10**5, 10**6, 10**9, 10**12, 2**31, 2**63, -1, 0, 1, 3])
    options[random.choice([*sizes, "gate_hidden_dim", "decoder_output_dim", "syntax_heads"])] = value
    if random.random() < 0.2:
        state["model"][f"{random.choice(['encoder', 'decoder'])}.layers.{value}.x"] = torch.ones(1)


def weight(random: Random, state: State) -> None:
    weights = random.choice([state["model"], state["model"], state["last_optimizer_state"]["state"][0]])
    name = random.choice([*weights])
    changes: list[Callable[[torch.Tensor], Any]] = [
        lambda w: w[:0], lambda w: w.flatten(), lambda w: w.flatten()[:1].expand(10**9), lambda w: w.flatten()[0],
        lambda w: w.half(), lambda w: w.double(), lambda w: w.int(), lambda w: w.to(torch.complex64), lambda w: None,
        lambda w: w.to_sparse(), lambda w: w.to("meta"), lambda w: w * float("nan"), lambda w: w.new_zeros(w.shape),
        lambda w: torch.empty(2**40, device="meta"), lambda w: torch.nn.Parameter(w.float()), lambda w: w.tolist(),
        lambda w: torch.quantize_per_tensor(w.float(), 1.0, 0, torch.qint8), lambda w: w.T.contiguous().T,
        lambda w: w.flatten().as_strided([1000, 1000], [0, 0]), lambda w: w > 0, lambda w: w.numpy(), lambda w: w.dtype,
    ]  # fmt: skip
    if not isinstance(weights[name], torch.Tensor) or random.random() < 0.1:
        del weights[name]
    else:
        weights[random.choice([name, name, "x", 5, random.choice([*weights])])] = random.choice(changes)(weights[name])


def part(random: Random, state: State) -> None:
    container, key = random.choice([random.choice([*_leaves(state)]), (state, random.choice([*state]))])
    loop, shared, deep = [], ["x"], []
    loop.append(loop)
    for _ in range(60):
        shared = [shared, shared]
    for _ in range(random.choice([40, 200])):
        deep = [deep]
    container[key] = random.choice([*_ODD, loop, shared, deep])
    if random.random() < 0.2 and isinstance(container, dict):
        del container[key]


CHANGES = {change.__name__: change for change in (option, size, weight, part)}


def _pickle(random: Random, content: bytes) -> bytes:
    """A pickle with operations left out, doubled or swapped, or other globals."""
    ends = [place for _, _, place in pickletools.genops(content) if place is not None] + [len(content)]
    parts = [content[a:b] for a, b in itertools.pairwise(ends)]
    for _ in range(random.randint(1, 3)):
        a, b = random.randrange(len(parts)), random.randrange(len(parts))
        kind = random.choice(["global", "global", "drop", "double", "swap"])
        if kind == "global":
            calls = [i for i, part in enumerate(parts) if part.startswith(b"c")]
            parts[random.choice(calls)] = b"c" + random.choice(_GLOBALS).replace(" ", "\n").encode() + b"\n"
        elif kind == "swap":
            parts[a], parts[b] = parts[b], parts[a]
        else:
            parts[a] *= 2 * (kind == "double")
    return b"".join(parts)


def _bytes(random: Random, content: bytes) -> bytes:
    """Other bytes, or fewer; more often at the beginning and the end, where a format has its tables."""
    changed = bytearray(content)
    for _ in range(random.randint(1, 4)):
        near = random.randrange(2000)
        place = random.choice([random.randrange(len(changed)), near, len(changed) - 1 - near])
        changed[place] = random.choice([0, 255, random.randrange(256)])
    return bytes(changed[: random.randrange(len(changed))] if random.random() < 0.1 else changed)


def _archive(random: Random, content: bytes) -> bytes:
    """A checkpoint as a zip file, its pickle changed."""
    to = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content)) as old, zipfile.ZipFile(to, "w") as new:
        for entry in old.infolist():
            inner = old.read(entry)
            inner = _pickle(random, inner) if entry.filename.endswith("data.pkl") else inner
            new.writestr(entry.filename, inner, zipfile.ZIP_STORED)
    return to.getvalue()


def attacked(random: Random, state: State) -> tuple[str, bytes]:
    """The kind of change, and the checkpoint's bytes."""
    state = copy.deepcopy(state)
    how = random.choice([*CHANGES, "pickle", "bytes"])
    if how in CHANGES:
        CHANGES[how](random, state)
    old_format = random.random() < 0.2
    out = io.BytesIO()
    torch.save(state, out, _use_new_zipfile_serialization=not old_format)
    content = out.getvalue()
    if how == "bytes":
        content = _bytes(random, content)
    elif how == "pickle":
        content = _bytes(random, content[:3000]) + content[3000:] if old_format else _archive(random, content)
    return f"{how}{' (old format)' if old_format else ''}", content

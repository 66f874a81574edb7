"""The validations of a training run, from fairseq-train's log or from a run record."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from syntax_data.errors import InputError, one_line, short_repr
from syntax_data.io.versioned_json import read_json

# fairseq's formats simple and tqdm, and json; hydra puts other words before them than fairseq-train does.
_SIMPLE = re.compile(r"epoch (\d+) \| valid on '([^']*)' subset \| (.*)")
_JSON = re.compile(r'\{"epoch": .*\}')
_LOSS = re.compile(r'"(\w+)_loss":')
# Our own line, of single heads; it comes before the validation's.
_HEADS = re.compile(r"gates on '([^']*)' subset \| (.*)")
_GATE = re.compile(r"(_?)gate_(.+)_l([1-9]\d*)(?:_h([1-9]\d*))?")


@dataclass(frozen=True)
class Validation:
    """What a validation measured.

    Attributes:
        loss: of the criterion, in bits a target token.
        gates: mean weight over sentences, by mask, layer (from 1) and head (from 1; 0: the mean over heads).
    """

    epoch: int
    updates: int
    loss: float
    gates: Mapping[tuple[str, int, int], float] = field(default_factory=dict)


#: The validations of a run, in the order of their updates.
History = list[Validation]


def read_log(path: str, *, subset: str = "valid") -> History:
    """The validations in a log of fairseq-train; of several after the same updates, as after a restart, the last.

    Raises :class:`InputError` for a log without any of that subset.
    """
    found: dict[int, Validation] = {}
    heads: dict[int, dict[tuple[str, int, int], float]] = {}
    others: dict[str, None] = {}
    with open(path, encoding="utf-8", errors="replace", newline="\n") as file:
        for number, line in enumerate(file, start=1):
            for part in line.rstrip().split("\r"):
                if of_heads := _heads(part, path=path, number=number):
                    name, updates, gates = of_heads
                    if name == subset:
                        heads[updates] = gates_of(gates)
                    continue
                if match := _SIMPLE.search(part):
                    epoch, name, rest = match.groups()
                    # rpartition: the value is the last word
                    values: dict[str, Any] = dict(item.rpartition(" ")[::2] for item in rest.split(" | "))
                    values["epoch"] = epoch
                elif match := _JSON.search(part):
                    if not (losses := [name for name in _LOSS.findall(part) if f'"{name}_num_updates"' in part]):
                        continue
                    name = losses[0]
                    if name == "train":
                        continue
                    values = _values(match[0], name, path=path, number=number)
                else:
                    continue
                if name != subset:
                    others[name] = None
                    continue
                validation = _validation(values, path=path, number=number)
                found[validation.updates] = validation
    if not found:
        of_others = f" but those of {', '.join(map(repr, others))}" if others else ""
        raise InputError(
            path, None, f"expected a log of fairseq-train with validations of {subset!r}, found none{of_others}"
        )
    return [
        replace(found[updates], gates={**found[updates].gates, **heads.get(updates, {})}) for updates in sorted(found)
    ]


def _values(text: str, name: str, *, path: str, number: int) -> dict[str, Any]:
    try:
        content = json.loads(text)
    except ValueError as error:
        raise InputError(path, number, f"expected a whole line of JSON, found {one_line(error)}") from None
    return {key.removeprefix(f"{name}_"): value for key, value in content.items()}


def _validation(values: Mapping[str, Any], *, path: str, number: int) -> Validation:
    try:
        return Validation(
            epoch=int(values["epoch"]),
            updates=int(values["num_updates"]),
            loss=float(values["loss"]),
            gates=gates_of(values),
        )
    except (KeyError, ValueError, TypeError, OverflowError) as error:
        message = f"expected a validation with loss and num_updates, found {one_line(error)}"
        raise InputError(path, number, message) from None


def _heads(line: str, *, path: str, number: int) -> tuple[str, int, dict[str, float]] | None:
    try:
        return heads_of_line(line)
    except ValueError as error:
        raise InputError(path, number, str(error)) from None


def heads_of_line(line: str) -> tuple[str, int, dict[str, float]] | None:
    """Subset, updates, and gates by name, ``_gate_MASK_lLAYER_hHEAD``, of the log's line of single heads.

    It is ``gates on 'SUBSET' subset | num_updates UPDATES | JSON``, and the JSON has for each ``gate_MASK_lLAYER`` the
    list of its heads. ``None``: it is another line. Raises :class:`ValueError` for one that is broken or cut off.
    """
    if not (match := _HEADS.search(line)):
        return None
    subset, rest = match.groups()
    counted, _, of_layers = rest.partition(" | ")
    gates: dict[str, float] = {}
    try:
        updates = int(counted.removeprefix("num_updates "))
        for name, heads in json.loads(of_layers).items():
            if not (isinstance(heads, list) and (gate := _GATE.fullmatch(name)) and not (gate[1] or gate[4])):
                raise ValueError(f"{short_repr(name)}: {short_repr(heads)}")
            gates |= {f"_{name}_h{head}": float(value) for head, value in enumerate(heads, start=1)}
    except (ValueError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        raise ValueError(f"expected a whole line of gates, num_updates and JSON, found {one_line(error)}") from None
    return subset, updates, gates


def gates_of(values: Mapping[str, Any]) -> dict[tuple[str, int, int], float]:
    """The gates among named values: ``gate_MASK_lLAYER`` and ``_gate_MASK_lLAYER_hHEAD``."""
    return {
        (match[2], int(match[3]), int(match[4] or 0)): float(value)
        for name, value in values.items()
        if (match := _GATE.fullmatch(name)) and bool(match[1]) == bool(match[4])
    }


@dataclass(frozen=True)
class RunRecord:
    """One trained run: a folder with ``run.json``, and for each test set NAME the translations in ``NAME.txt``."""

    folder: str
    system: str
    seed: int
    history: History
    tests: tuple[str, ...]

    def translations(self, test: str) -> str:
        """The path of the detokenised translations of a test set, one a line."""
        return os.path.join(self.folder, f"{test}.txt")


def read_run(folder: str) -> RunRecord:
    """Reads a run record; raises :class:`InputError` for a ``run.json`` that is none."""

    def build(content: Any) -> RunRecord:
        history = []
        for epoch in content["epochs"]:
            gates = gates_of(epoch.get("gates") or {})
            history.append(Validation(int(epoch["epoch"]), int(epoch["updates"]), float(epoch["valid_loss"]), gates))
        system, tests = content["system"], content["tests"]
        if not (
            isinstance(system, str) and system and isinstance(tests, list) and all(isinstance(t, str) for t in tests)
        ):
            raise ValueError(f"the system {short_repr(system)} and the tests {short_repr(tests)}")
        history.sort(key=lambda validation: validation.updates)
        return RunRecord(folder, system, int(content["seed"]), history, tuple(tests))

    return read_json(os.path.join(folder, "run.json"), "a run record", build)

"""The log of fairseq-train: training epochs and validations, with the gates that the validation log has."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from syntax_data.errors import InputError, one_line, short_repr

#: Begins the line that has the hash of the code that trains.
CODE = "code: "

# fairseq's formats simple and tqdm, and json; hydra puts other words before them than fairseq-train does.
_SIMPLE = re.compile(r"epoch (\d+) \|(?: valid on '([^']*)' subset \|)? (.*)")
_JSON = '{"epoch": '
# A line of fairseq_syntax: the gates of single heads. It comes before the validation's.
_HEADS = re.compile(r"gates on '([^']*)' subset \| (.*)")
_GATE = re.compile(r"(_?)gate_(.+)_l([1-9]\d{0,3})(?:_h([1-9]\d{0,3}))?")
_PARAMETERS = re.compile(r"num\. shared model params: ([\d,]+)")
_LARGEST = 2**53  # float64 has the integers up to it

#: Gates by bias, layer (from 1) and head (from 1; 0: the mean over heads).
Gates = Mapping[tuple[str, int, int], float]


@dataclass(frozen=True)
class Validation:
    """A validation.

    Attributes:
        loss: of the criterion, in bits a target token.
        gates: mean weights over sentences.
        nll_loss: without label smoothing, in bits a target token.
    """

    epoch: int
    updates: int
    loss: float
    gates: Gates = field(default_factory=dict)
    nll_loss: float | None = field(default=None, compare=False)


#: The validations of a run, by updates.
History = list[Validation]


def read_validations(path: str | Path, *, subset: str = "valid") -> History:
    """Return the validations of a log; of several after the same updates, as after a restart, the last.

    Raises:
        InputError: there is none of that subset, or a line is broken.
    """
    found: dict[int, Validation] = {}
    heads: dict[int, Gates] = {}
    others: dict[str, None] = {}
    for entry in _entries(Path(path)):
        if entry.kind == "heads" and entry.name == subset:
            heads[entry.count("num_updates")] = entry.gates
        elif entry.kind == "valid" and entry.name == subset:
            validation = entry.validation()
            found[validation.updates] = validation
        elif entry.kind == "valid":
            others[entry.name] = None
    if not found:
        of_others = f" but those of {', '.join(map(short_repr, others))}" if others else ""
        expected = f"expected a log of fairseq-train with validations of {subset!r}"
        raise InputError(str(path), None, f"{expected}, found none{of_others}")
    return [replace(found[at], gates={**found[at].gates, **heads.get(at, {})}) for at in sorted(found)]


def read_training(path: str | Path) -> dict[str, Any]:
    """Return what run.json keeps of a training; of an epoch that was resumed, its last entry.

    ``hours`` and ``words_per_second`` are without validation and loading; the latter is of the fastest epoch, since
    what else a machine does slows all others. ``code``: hashes of the code that trained, by :data:`CODE`.

    Raises:
        InputError: there is no validation or no number of parameters, or a line is broken.
    """
    history = {validation.epoch: validation for validation in read_validations(path)}
    trained = {entry.count("epoch"): entry for entry in _entries(Path(path)) if entry.kind == "train"}
    updates, seconds, speed = 0, 0.0, 0.0
    for _, entry in sorted(trained.items()):  # by epoch: fairseq's sums start again where a training is resumed
        wall, until = entry.number("train_wall"), entry.count("num_updates")
        # Whole seconds: of a tiny epoch, none.
        speed = max(speed, entry.number("wpb") * (until - updates) / wall if wall else entry.number("wps"))
        seconds, updates = seconds + wall, until
    with open(path, encoding="utf-8", errors="replace", newline="\n") as file:
        lines = list(file)
    parameters = [match[1] for line in lines if (match := _PARAMETERS.search(line))]
    if not parameters:
        raise InputError(str(path), None, "expected a log of fairseq-train with 'num. shared model params', found none")
    epochs = []
    for epoch, entry in trained.items():
        if epoch in history:
            of_training = {"updates": entry.count("num_updates"), "train_loss": entry.number("loss")}
            epochs.append({"epoch": epoch, **of_training, **_record(history[epoch])})
    return {
        "parameters": int(parameters[-1].replace(",", "")),
        "updates": updates,
        "words_per_second": speed,
        "hours": seconds / 3600,
        "valid_loss": min(validation.loss for validation in history.values()),
        "epochs": epochs,
        "code": list(dict.fromkeys(line.removeprefix(CODE).strip() for line in lines if line.startswith(CODE))),
    }


def gates_of(values: Mapping[str, Any]) -> dict[tuple[str, int, int], float]:
    """Return the gates among named values: ``gate_BIAS_lLAYER`` and ``_gate_BIAS_lLAYER_hHEAD``."""
    return {
        (match[2], int(match[3]), int(match[4] or 0)): float(value)
        for name, value in values.items()
        if (match := _GATE.fullmatch(name)) and bool(match[1]) == bool(match[4])
    }


def _record(validation: Validation) -> dict[str, Any]:
    """Return a validation as run.json has it."""
    gates = {
        f"_gate_{bias}_l{layer}_h{head}" if head else f"gate_{bias}_l{layer}": weight
        for (bias, layer, head), weight in validation.gates.items()
    }
    nll_loss = {} if validation.nll_loss is None else {"valid_nll_loss": validation.nll_loss}
    return {"valid_loss": validation.loss, **nll_loss, **({"gates": gates} if gates else {})}


@dataclass(frozen=True)
class _Entry:
    """A line with measurements of `kind` train, valid or heads; `name` is the subset's."""

    path: Path
    line: int
    kind: str
    name: str
    values: Mapping[str, Any]

    def number(self, name: str) -> float:
        try:
            return float(self.values[name])
        except KeyError:
            raise self._error(f"a number as {name}", "none") from None
        except (TypeError, ValueError, OverflowError) as error:
            raise self._error(f"a number as {name}", one_line(error)) from None

    def count(self, name: str) -> int:
        value = self.number(name)
        if not (0 <= value <= _LARGEST and value.is_integer()):
            raise self._error(f"an integer from 0 to 2^53 as {name}", short_repr(self.values[name]))
        return int(value)

    @property
    def gates(self) -> dict[tuple[str, int, int], float]:
        try:
            return gates_of(self.values)
        except (TypeError, ValueError, OverflowError) as error:
            raise self._error("numbers as gates", one_line(error)) from None

    def validation(self) -> Validation:
        nll_loss = self.number("nll_loss") if "nll_loss" in self.values else None
        return Validation(self.count("epoch"), self.count("num_updates"), self.number("loss"), self.gates, nll_loss)

    def _error(self, expected: str, found: str) -> InputError:
        return InputError(str(self.path), self.line, f"expected {expected}, found {found}")


def _entries(path: Path) -> Iterator[_Entry]:
    """Yield the entries of a log.

    An entry that was cut off is forgiven if another of its kind and subset follows, as where a training that was killed
    has been resumed.
    """
    cut: dict[tuple[str, str], InputError] = {}
    with open(path, encoding="utf-8", errors="replace", newline="\n") as file:
        for number, line in enumerate(file, start=1):
            for part in line.rstrip().split("\r"):
                try:
                    entry = _parse(part, path, number)
                except _CutOff as error:
                    message = f"expected a whole line of JSON, found one that is cut off: {short_repr(part[-100:])}"
                    cut.setdefault(error.args, InputError(str(path), number, message))
                    continue
                if entry is not None:
                    for of in ((entry.kind, entry.name), ("valid", "")):
                        cut.pop(of, None)
                    yield entry
    for first in cut.values():
        raise first


class _CutOff(Exception):
    """JSON without an end; with the kind and the subset of the entry."""


def _parse(line: str, path: Path, number: int) -> _Entry | None:
    if match := _HEADS.search(line):
        counted, _, text = match[2].partition(" | ")
        heads = _load(text, path, number, "heads", match[1])
        values: dict[str, Any] = {"num_updates": counted.removeprefix("num_updates ")}
        for name, of_layer in heads.items():
            if not isinstance(of_layer, list) or not (gate := _GATE.fullmatch(name)) or gate[1] or gate[4]:
                expected = "expected gate_BIAS_lLAYER and a list of numbers"
                raise InputError(str(path), number, f"{expected}, found {short_repr(name)}: {short_repr(of_layer)}")
            values |= {f"_{name}_h{head}": value for head, value in enumerate(of_layer, start=1)}
        return _Entry(path, number, "heads", match[1], values)
    if match := _SIMPLE.search(line):
        # rpartition: the value is the last word
        values = dict(item.rpartition(" ")[::2] for item in match[3].split(" | "))
        kind = "train" if match[2] is None else "valid"
        return _Entry(path, number, kind, match[2] or "train", values | {"epoch": match[1]})
    if (start := line.rfind(_JSON)) < 0:
        return None
    names = re.findall(r'"(\w+?)_loss":', line[start:])
    first = names[0] if names else ""
    content = _load(line[start:], path, number, "train" if first == "train" else "valid", first)
    for name in names:
        if f"{name}_num_updates" in content:
            values = {key.removeprefix(f"{name}_"): value for key, value in content.items()}
            return _Entry(path, number, "train" if name == "train" else "valid", name, values)
    return None


def _load(text: str, path: Path, number: int, kind: str, name: str) -> dict[str, Any]:
    if not text.endswith("}"):
        raise _CutOff(kind, name)
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(str(path), number, f"expected a whole line of JSON, found {one_line(error)}") from None
    return content

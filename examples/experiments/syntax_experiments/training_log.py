"""The log of fairseq-train: training epochs, and validations with their gates."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from syntax_data.errors import InputError, one_line, short_repr

#: Begins the line that has the hash of the code that trains.
CODE = "code: "

# fairseq's formats simple and tqdm, and json; hydra puts other words before them than fairseq-train does.
_SIMPLE = re.compile(r"epoch (\d+) \|(?: valid on '([^']*)' subset \|)? (.*)")
_JSON = '{"epoch": '
# A line of fairseq_syntax: the gates of single heads. It comes before the validation's.
_HEADS = re.compile(r"gates on '([^']*)' subset \| num_updates (\S+) \| (.*)")
_GATE = re.compile(r"gate_(.+)_l([1-9]\d{0,3})")
_PARAMETERS = re.compile(r"num\. shared model params: ([\d,]+)")
_LARGEST = 2**53  # float64 has the integers up to it

#: Gates by bias, layer (from 1) and head (from 1; 0: the mean over heads).
Gates = Mapping[tuple[str, int, int], float]


@dataclass(frozen=True)
class Validation:
    """A validation: losses in bits a target token, and the mean gates over sentences."""

    epoch: int
    updates: int
    loss: float  # of the criterion
    gates: Gates = field(default_factory=dict)
    nll_loss: float | None = field(default=None, compare=False)  # without label smoothing

    @property
    def record(self) -> dict[str, Any]:
        """The validation as run.json has it."""
        gates = {
            f"_gate_{bias}_l{layer}_h{head}" if head else f"gate_{bias}_l{layer}": weight
            for (bias, layer, head), weight in self.gates.items()
        }
        nll_loss = {} if self.nll_loss is None else {"valid_nll_loss": self.nll_loss}
        return {"valid_loss": self.loss, **nll_loss, **({"gates": gates} if gates else {})}


def read_validations(path: str | Path, *, subset: str = "valid") -> list[Validation]:
    """Return the validations by updates; of several after the same ones, the last.

    Raises:
        InputError: there is none of that subset, or a line is broken; one that is cut off, as by a kill, is skipped.
    """
    found: dict[int, _Entry] = {}
    heads: dict[int, Gates] = {}
    others: dict[str, None] = {}
    for entry in _entries(Path(path)):
        if entry.kind == "valid" and entry.name != subset:
            others[entry.name] = None
        elif entry.kind == "valid":
            found[entry.count("num_updates")] = entry
        elif entry.kind == "heads" and entry.name == subset:
            heads[entry.count("num_updates")] = entry.gates
    if not found:
        of_others = f" but those of {', '.join(map(short_repr, others))}" if others else ""
        expected = f"expected a log of fairseq-train with validations of {subset!r}"
        raise InputError(str(path), None, f"{expected}, found none{of_others}")
    return [found[updates].validation(updates, heads.get(updates, {})) for updates in sorted(found)]


def read_training(path: str | Path) -> dict[str, Any]:
    """Return the training's part of run.json; of a resumed epoch, its last entry.

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
    text = Path(path).read_text(encoding="utf-8", errors="replace")
    parameters = _PARAMETERS.findall(text)
    if not parameters:
        raise InputError(str(path), None, "expected a log of fairseq-train with 'num. shared model params', found none")
    return {
        "parameters": int(parameters[-1].replace(",", "")),
        "updates": updates,
        "words_per_second": speed,
        "hours": seconds / 3600,
        "valid_loss": min(validation.loss for validation in history.values()),
        "epochs": [
            {"epoch": n, "updates": of.count("num_updates"), "train_loss": of.number("loss"), **history[n].record}
            for n, of in trained.items()
            if n in history
        ],
        "code": list(dict.fromkeys(re.findall(rf"^{CODE}(.*)", text, re.MULTILINE))),
    }


@dataclass(frozen=True)
class _Entry:
    """A line with measurements of `kind` train, valid or heads of a subset `name`."""

    place: tuple[str, int]
    kind: str
    name: str
    values: Mapping[str, Any]

    def number(self, name: str) -> float:
        return self._float(name, self.values.get(name))

    def count(self, name: str) -> int:
        value = self.number(name)
        if not (0 <= value <= _LARGEST and value.is_integer()):
            found = short_repr(self.values[name])
            raise InputError(*self.place, f"expected an integer from 0 to 2^53 as {name}, found {found}")
        return int(value)

    @property
    def gates(self) -> Gates:
        found: dict[tuple[str, int, int], float] = {}
        for name, value in self.values.items():
            if match := _GATE.fullmatch(name):
                weights = dict(enumerate(value, start=1)) if isinstance(value, list) else {0: value}
                found |= {(match[1], int(match[2]), head): self._float(name, of) for head, of in weights.items()}
        return found

    def validation(self, updates: int, heads: Gates) -> Validation:
        nll_loss = self.number("nll_loss") if "nll_loss" in self.values else None
        return Validation(self.count("epoch"), updates, self.number("loss"), {**self.gates, **heads}, nll_loss)

    def _float(self, name: str, value: Any) -> float:
        try:
            return float(value)
        except (TypeError, ValueError, OverflowError):
            raise InputError(*self.place, f"expected a number as {name}, found {short_repr(value)}") from None


def _entries(path: Path) -> Iterator[_Entry]:
    with open(path, encoding="utf-8", errors="replace", newline="\n") as file:
        for number, line in enumerate(file, start=1):
            for part in line.rstrip().split("\r"):
                if entry := _parse(part, (str(path), number)):
                    yield entry


def _parse(line: str, place: tuple[str, int]) -> _Entry | None:
    if match := _HEADS.search(line):
        heads = _load(match[3], place)
        return _Entry(place, "heads", match[1], {**heads, "num_updates": match[2]}) if heads else None
    if match := _SIMPLE.search(line):
        # rpartition: the value is the last word
        values = dict(item.rpartition(" ")[::2] for item in match[3].split(" | "))
        kind = "train" if match[2] is None else "valid"
        return _Entry(place, kind, match[2] or "train", {**values, "epoch": match[1]})
    content = _load(line[line.rfind(_JSON) :], place) if _JSON in line else None
    suffix = "_num_updates"
    if not content or not (names := [key.removesuffix(suffix) for key in content if key.endswith(suffix)]):
        return None
    values = {key.removeprefix(f"{names[0]}_"): value for key, value in content.items()}
    return _Entry(place, "train" if names[0] == "train" else "valid", names[0], values)


def _load(text: str, place: tuple[str, int]) -> dict[str, Any] | None:
    """Return a JSON object, or ``None`` if it is cut off."""
    if not text.endswith("}"):
        return None
    try:
        content: dict[str, Any] = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(*place, f"expected a line of JSON, found {one_line(error)}") from None
    return content

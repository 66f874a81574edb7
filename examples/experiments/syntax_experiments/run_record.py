"""The record of one trained run: a folder with run.json, and the translations of each test set in TEST.txt."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from syntax_data.errors import InputError, short_repr
from syntax_data.io.versioned_json import read_json
from syntax_data.text.lines import read_lines

_TYPES: dict[str, tuple[type, ...]] = {
    **dict.fromkeys(("system", "device"), (str,)),
    **dict.fromkeys(("seed", "parameters", "updates"), (int,)),
    **dict.fromkeys(("words_per_second", "hours", "valid_loss"), (int, float)),
    "versions": (dict,),
    **dict.fromkeys(("epochs", "tests"), (list,)),
    "gates_never_trained": (bool,),
}


@dataclass(frozen=True, kw_only=True)
class Run:
    """A run record.

    Args:
        words_per_second: target words of the training's fastest epoch.
        hours: of the training.
        device: name of the machine's GPU or CPU.
        versions: of software, by package.
        valid_loss: the best, in bits (fairseq's ``loss``, with its label smoothing).
        epochs: one a validation: ``epoch``, ``updates``, ``train_loss``, ``valid_loss``, ``valid_nll_loss``, ``gates``.
        tests: names of the test sets that it translated.
        gates_never_trained: the checkpoint that translated is not later than ``--gate-warmup-epochs``. Records without
            the key are of trainings without pre-warmup.
    """

    system: str
    seed: int
    parameters: int
    updates: int
    words_per_second: float
    hours: float
    device: str
    versions: Mapping[str, str]
    valid_loss: float
    epochs: Sequence[Mapping[str, Any]]
    tests: Sequence[str]
    gates_never_trained: bool = False


def load_run(folder: str | Path) -> Run:
    """Return the run record in a folder; raises :class:`InputError` if a key is missing or has another type."""

    def build(content: dict[str, Any]) -> Run:
        found = {"gates_never_trained": False, **content}
        for name, types in _TYPES.items():
            value = found[name]
            if type(value) not in types or (float in types and not math.isfinite(value)):
                expected = " or ".join(kind.__name__ for kind in types)
                raise ValueError(f"{short_repr(value)} as {name}, which is {expected}")
        return Run(**{name: found[name] for name in _TYPES})

    path = Path(folder, "run.json")
    if not path.is_file():
        raise InputError(str(path), None, "expected a run record, found no file")
    return read_json(str(path), "a run record", build)


def read_sentences(path: str, *, sentences: int | None = None) -> list[str]:
    """Return a text, one sentence a line.

    Raises:
        InputError: there is no file, it is empty, or has another number of lines than `sentences`.
    """
    if not Path(path).is_file():
        raise InputError(path, None, "expected a text, found no file")
    lines = [line for _, line in read_lines(path)]
    if not lines:
        raise InputError(path, None, "expected one sentence a line, found an empty file")
    if sentences is not None and len(lines) != sentences:
        raise InputError(path, None, f"expected {sentences} sentences, found {len(lines)}")
    return lines

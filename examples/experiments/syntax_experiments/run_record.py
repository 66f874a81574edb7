"""What one trained run of a system and a seed leaves: a folder with run.json and one text a test set."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields
from pathlib import Path
from typing import Any

from syntax_data.errors import InputError, short_repr
from syntax_data.text.lines import read_lines

_FILE = "run.json"


@dataclass(frozen=True, kw_only=True)
class Run:
    """A run record.

    Args:
        system: name of the system in the recipe.
        seed: of the training.
        parameters: number of them.
        updates: of the training.
        words_per_second: target words of the training's fastest epoch.
        hours: of the training.
        device: it ran on, in words.
        versions: of software, by package.
        valid_loss: the best, in bits (fairseq's ``loss``, with its label smoothing).
        epochs: one a validation: ``epoch``, ``updates``, ``train_loss``, ``valid_loss``, ``valid_nll_loss``, ``gates``.
        tests: names of the test sets that it translated.
        gates_never_trained: the checkpoint that translated is not later than ``--gate-warmup-epochs``. Records that do
            not say are of trainings without pre-warmup.
        folder: where the record lies.
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
    folder: str = field(default="", compare=False)

    def hypotheses(self, test: str, *, sentences: int | None = None) -> list[str]:
        """The translations of a test set, as detokenised text.

        Raises :class:`InputError` if the file is empty, or has not as many lines as there are `sentences`.
        """
        if test not in self.tests:
            raise InputError(str(Path(self.folder, _FILE)), None, f"expected test set {test!r} in {list(self.tests)}")
        return read_sentences(str(Path(self.folder, f"{test}.txt")), sentences=sentences)


def load_run(folder: str | Path) -> Run:
    """The run record in a folder; raises :class:`InputError` if run.json lacks something or has it of another type."""
    path = Path(folder, _FILE)
    if not path.is_file():
        raise InputError(str(path), None, "expected the record of a run, found no file")
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise InputError(str(path), getattr(error, "lineno", None), f"expected JSON, found {error}") from None
    if not isinstance(found, dict):
        raise InputError(str(path), None, f"expected an object, found {short_repr(found)}")
    needed = [one.name for one in fields(Run) if one.default is MISSING]
    if missing := [name for name in needed if name not in found]:
        raise InputError(str(path), None, f"expected {', '.join(needed)}, found no {', '.join(missing)}")
    names = [name for name in _TYPES if name in found]
    for name in names:
        if not _TYPES[name](found[name]):
            raise InputError(str(path), None, f"expected {_EXPECTED[name]} as {name}, found {short_repr(found[name])}")
    return Run(**{name: found[name] for name in names}, folder=str(folder))


def read_sentences(path: str, *, sentences: int | None = None) -> list[str]:
    """A text, one sentence a line; :class:`InputError` if it is empty, or has not as many lines as `sentences`."""
    if not Path(path).is_file():
        raise InputError(path, None, "expected a text, found no file")
    lines = [line for _, line in read_lines(path)]
    if not lines:
        raise InputError(path, None, "expected one sentence a line, found an empty file")
    if sentences is not None and len(lines) != sentences:
        raise InputError(path, None, f"expected {sentences} sentences, found {len(lines)}")
    return lines


def _whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


_KINDS = {
    "text": (("system", "device"), lambda value: isinstance(value, str)),
    "a whole number": (("seed", "parameters", "updates"), _whole),
    "a finite number": (("words_per_second", "hours", "valid_loss"), _number),
    "true or false": (("gates_never_trained",), lambda value: isinstance(value, bool)),
    "an object": (("versions",), lambda value: isinstance(value, dict)),
    "a list": (("epochs", "tests"), lambda value: isinstance(value, list)),
}
_TYPES = {name: test for names, test in _KINDS.values() for name in names}
_EXPECTED = {name: kind for kind, (names, _) in _KINDS.items() for name in names}

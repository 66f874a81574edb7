"""The numbers of a comparison as data frames, and the CSV files that keep them.

A folder has ``table.csv`` (a row for each system, seed, test set, subset and metric), ``comparisons.csv`` (the paired
tests within a seed), ``epochs.csv`` (the validations of each training) and, where a measurement has numbers of each
sentence, ``sentences.csv.xz``. ``translations.csv.xz`` or ``predictions.csv.xz`` beside them is not read: a column for
each system and seed.
"""

from __future__ import annotations

import lzma
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from syntax_data.errors import InputError, one_line, short_repr
from syntax_experiments.significance import WITHIN

_RUN = ("recipe", "system", "seed")
_COLUMNS = {
    # Numbers of a run have no test set; those of all sentences of a test set have no subset.
    "table": (*_RUN, "test", "subset", "metric", "value", "signature", "code", "versions", "device"),
    "comparisons": (
        *("recipe", "system", "baseline", "seed", "test", "metric", "difference"),
        *(f"{name}{what}" for name in WITHIN for what in ("", "_signature")),
    ),
    "epochs": (*_RUN, "epoch", "updates", "train_loss", "valid_loss", "valid_nll_loss", "gates"),
    "sentences": (*_RUN, "metric", "sentence", "numerator", "denominator"),
}
_FILES = {name: f"{name}.csv{'.xz' if name == 'sentences' else ''}" for name in _COLUMNS}
#: Columns that tell rows apart.
_KEYS = {*_RUN, "baseline", "test", "subset", "metric", "epoch", "sentence"}
_TESTS = {f"{name}{what}" for name in WITHIN for what in ("", "_signature")}
_MAY_BE_EMPTY = {"test", "subset", "signature", "code", "versions", "device", "valid_nll_loss", "gates", *_TESTS}
_INTEGERS = {"seed", "epoch", "updates", "sentence"}
_NUMBERS = {"value", "difference", *WITHIN, "train_loss", "valid_loss", "valid_nll_loss", "numerator", "denominator"}


@dataclass(frozen=True)
class Results:
    """The numbers of a comparison: of each file a frame, whose index is the line."""

    folder: Path
    table: pd.DataFrame
    comparisons: pd.DataFrame
    epochs: pd.DataFrame
    sentences: pd.DataFrame

    @property
    def recipe(self) -> str:
        """The name of the recipe."""
        return str(self.table["recipe"].iloc[0]) if len(self.table) else ""

    def refuse(self, name: str, rows: pd.DataFrame, message: Callable[[Any], str]) -> None:
        """Raise :class:`InputError` for the first of the rows of a frame, if any."""
        for row in rows.itertuples():
            raise InputError(str(self.folder / _FILES[name]), int(str(row.Index)), message(row))


def write_results(folder: Path, **rows: Iterable[Mapping[str, Any]]) -> None:
    """Write the CSV files of a folder: of each the rows, by column."""
    for name, of_file in rows.items():
        pd.DataFrame(of_file, columns=list(_COLUMNS[name])).to_csv(folder / _FILES[name], index=False)


def read_results(folder: str | Path) -> Results:
    """Read the CSV files of a folder.

    Raises:
        InputError: a file is missing or damaged, a number is there twice, the scores of a metric have several
            signatures, or a comparison is of other scores.
    """
    results = Results(Path(folder), *(_read(Path(folder, _FILES[name]), _COLUMNS[name]) for name in _COLUMNS))
    table, comparisons = results.table, results.comparisons
    for name in _COLUMNS:
        frame: pd.DataFrame = getattr(results, name)
        other = frame[frame["recipe"] != results.recipe]
        results.refuse(name, other, lambda row: f"expected one recipe, found {row.recipe}")
        again = frame[frame.duplicated([column for column in _COLUMNS[name] if column in _KEYS])]
        results.refuse(name, again, lambda row: f"expected each row once, found {_place(row)} again")
    _check_one(results, "table", table, "metric", "signature")
    untested = comparisons[comparisons[[*WITHIN]].isna().all(axis=1)]
    results.refuse("comparisons", untested, lambda row: f"expected p of {' or '.join(WITHIN)}, found none")
    for test in WITHIN:
        _check_one(results, "comparisons", comparisons, "metric", f"{test}_signature")
    scores = table[table["subset"] == ""].set_index(["system", "seed", "test", "metric"])["value"]
    found, of_baseline = (
        scores.reindex(pd.MultiIndex.from_frame(comparisons[[side, "seed", "test", "metric"]])).to_numpy(float)
        for side in ("system", "baseline")
    )
    wrong = comparisons[~(abs(found - of_baseline - comparisons["difference"]) < 1e-6)]
    expected = "expected a comparison of the texts that were scored"
    results.refuse("comparisons", wrong, lambda row: f"{expected}, found {row.difference} of {_place(row)}")
    return results


def _check_one(results: Results, name: str, frame: pd.DataFrame, key: str, column: str) -> None:
    """Refuse rows whose `column` differs from that of the first row of a `key`."""
    wrong = frame.assign(first=frame.groupby(key)[column].transform("first")).query(f"{column} != first")
    results.refuse(
        name,
        wrong,
        lambda row: f"expected one {column} of {getattr(row, key)}, {row.first}, found {getattr(row, column)}",
    )


def _place(row: Any) -> str:
    return f"{getattr(row, 'metric', 'the run')} of {row.system}, seed {row.seed}"


def _read(path: Path, columns: tuple[str, ...]) -> pd.DataFrame:
    """Return columns of a file, each value checked; the index is the line."""
    if path.name == _FILES["sentences"] and not path.exists():
        return pd.DataFrame(columns=list(columns))
    try:
        frame = pd.read_csv(path, dtype=str, keep_default_na=False)
    except (OSError, ValueError, EOFError, lzma.LZMAError) as error:
        raise InputError(str(path), None, f"expected the results of a comparison, found: {one_line(error)}") from None
    if path.name == _FILES["comparisons"]:  # of translations alone, or of labels
        frame = frame.reindex(columns=[*frame, *sorted(_TESTS - {*frame})], fill_value="")
    if missing := [name for name in columns if name not in frame]:
        raise InputError(str(path), 1, f"expected the column {missing[0]}, found {', '.join(frame)}")
    frame = frame[list(columns)].fillna("").set_axis(frame.index + 2)  # lines that are cut off have no value
    for name in columns:
        text, wrong, expected = frame[name], frame[name] == "", "a value"
        if name in _INTEGERS | _NUMBERS:
            numbers = pd.to_numeric(text, errors="coerce")
            wrong, expected = ~np.isfinite(numbers), "a number"
            frame[name] = text.where(~wrong, "nan").astype(float)  # exactly, as to_numeric is not
        if name in _INTEGERS:
            wrong, expected = wrong | (numbers % 1 != 0), "an integer"
            frame[name] = numbers.astype(int, errors="ignore")
        for line, value in text[wrong & ((text != "") | (name not in _MAY_BE_EMPTY))].items():
            raise InputError(str(path), int(str(line)), f"expected {expected} as {name}, found {short_repr(value)}")
    return frame

"""Files of predictions, their scores, and the comparison of two of them.

A file has tab-separated columns and a header:

    id  prediction  gold  logit no  logit yes

``id`` is the line of the split, from 0; labels are written by name, sets of labels with spaces between them. A split
without labels has no column ``gold``, and predicted numbers have no logits.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from syntax_data.errors import InputError, short_repr
from syntax_data.scoring.classification import (
    accuracy,
    label_set_scores,
    matthews,
    mcnemar,
    micro_scores,
    pearson,
    relation_macro_f1,
    spearman,
)
from syntax_data.text.lines import read_lines

_ID = re.compile("0|[1-9][0-9]{0,17}")
#: Kinds of predictions: a label, the number of an option, a set of labels, or numbers.
Kind = Literal["label", "option", "label set", "number"]


@dataclass(frozen=True)
class Predictions:
    """Predictions of a split, by the line of an example, from 0.

    Attributes:
        predicted: as the file has them.
        gold: of the same lines; ``None``: the split has no labels.
        logits: of each line; none: they are not known.
    """

    predicted: Mapping[int, str]
    gold: Mapping[int, str] | None
    logits: Mapping[int, Sequence[float]] = field(default_factory=dict)

    @classmethod
    def read(cls, path: str, kind: Kind) -> Predictions:
        """Read a file, without its logits.

        Raises:
            InputError: it has no such header or columns, or an id twice, or is not of this kind.
        """
        lines = read_lines(path)
        header = next(lines, (0, ""))[1].split("\t")
        if header[:2] != ["id", "prediction"]:
            raise InputError(path, 1, f"expected the header id, prediction, …, found {short_repr(header)}")
        has_gold = header[2:3] == ["gold"]
        predicted: dict[int, str] = {}
        gold: dict[int, str] = {}
        for number, line in lines:
            columns = line.split("\t")
            if len(columns) != len(header):
                raise InputError(path, number, f"expected {len(header)} columns, found {len(columns)}")
            if not _ID.fullmatch(columns[0]) or int(columns[0]) in predicted:
                raise InputError(path, number, f"expected ids from 0, each once, found {short_repr(columns[0])}")
            if kind == "number" and not all(map(_is_numbers, columns[1 : 2 + has_gold])):
                raise InputError(path, number, f"expected numbers, found {short_repr(columns[1 : 2 + has_gold])}")
            predicted[int(columns[0])] = columns[1]
            if has_gold:
                gold[int(columns[0])] = columns[2]
        return cls(predicted, gold if has_gold else None)

    @classmethod
    def of_pairs(cls, path: str) -> Predictions:
        """Read scores of minimal pairs, lines 2k and 2k + 1, as preferences: ``0``, the right line, or ``1``.

        Scores that differ by a 10⁻⁵th or less, by rounding alone, prefer neither, which counts as wrong.

        Raises:
            InputError: as in :meth:`read`, or a line has no other.
        """
        of_lines = {line: float(score) for line, score in cls.read(path, "number").predicted.items()}
        if alone := sorted(line for line in of_lines if line ^ 1 not in of_lines):
            raise InputError(path, None, f"expected pairs of lines, found {alone[0]} without {alone[0] ^ 1}")
        pairs = {line // 2: (of_lines[line], of_lines[line + 1]) for line in sorted(of_lines) if line % 2 == 0}
        preferred = {k: "0" if right - wrong > 1e-5 * abs(right) else "1" for k, (right, wrong) in pairs.items()}
        return cls(preferred, dict.fromkeys(preferred, "0"))

    def write(self, path: str, outputs: Sequence[str]) -> None:
        """Write a file, ordered by id.

        Args:
            outputs: names of the logits.
        """
        header = ["id", "prediction", *(["gold"] if self.gold is not None else [])]
        with open(path, "w", encoding="utf-8") as file:
            print(*header, *(f"logit {name}" for name in outputs), sep="\t", file=file)
            for line in sorted(self.predicted):
                gold = [] if self.gold is None else [self.gold[line]]
                logits = (f"{logit:.7g}" for logit in self.logits.get(line, ()))
                print(line, self.predicted[line], *gold, *logits, sep="\t", file=file)


def scores(of: Predictions, kind: Kind, *, ignored: Iterable[str] = ()) -> dict[str, float]:
    """Scores as fractions, by name; none without an example or gold.

    Args:
        ignored: labels without which ``precision``, ``recall`` and ``F1`` are computed, if there are some.
    """
    if not of.gold:
        return {}
    right = list(of.gold.values())
    predicted = [of.predicted[line] for line in of.gold]
    if kind == "number":
        numbers = [[float(x) for value in values for x in value.split()] for values in (predicted, right)]
        return {"Pearson": pearson(*numbers), "Spearman": spearman(*numbers)}
    if kind == "label set":
        return label_set_scores(*([frozenset(labels.split()) for labels in side] for side in (predicted, right)))
    found = {"accuracy": accuracy(predicted, right)}
    if kind == "label":
        found["MCC"] = matthews(predicted, right)
        if (of_relations := relation_macro_f1(predicted, right)) is not None:
            found["macro F1"] = of_relations
    if names := frozenset(ignored):
        found.update(zip(("precision", "recall", "F1"), micro_scores(predicted, right, names), strict=True))
    return found


@dataclass(frozen=True)
class Comparison:
    """Numbers of examples in which one of two systems alone is right."""

    first: int
    second: int

    @property
    def p(self) -> float:
        return mcnemar(self.first, self.second)


def compare(path: str, other: Predictions, ours: Predictions, kind: Kind) -> Comparison | None:
    """Compare with other predictions, read from `path`; ``None`` for numbers.

    Raises:
        InputError: they are of other examples, or one of both has no gold.
    """
    if ours.gold is None or other.gold is None:
        raise InputError(path, None, "expected two files with gold, by which predictions are right, found one without")
    if differ := sorted(ours.predicted.keys() ^ other.predicted.keys()):
        message = f"expected predictions of the same examples, found {len(differ)} in one file alone, first {differ[0]}"
        raise InputError(path, None, message)
    known = {line: _value(gold, kind) for line, gold in ours.gold.items()}
    if differ := sorted(line for line, gold in other.gold.items() if _value(gold, kind) != known[line]):
        message = f"expected the same gold, found another one in {len(differ)} examples, first id {differ[0]}: "
        message += f"{ours.gold[differ[0]]} and {other.gold[differ[0]]}"
        raise InputError(path, None, message)
    if kind == "number":
        return None
    right, of_other = (
        {line for line, gold in known.items() if _value(of.predicted[line], kind) == gold} for of in (ours, other)
    )
    return Comparison(len(right - of_other), len(of_other - right))


def _is_numbers(written: str) -> bool:
    try:
        return bool([float(number) for number in written.split()])
    except ValueError:
        return False


def _value(written: str, kind: Kind) -> object:
    return frozenset(written.split()) if kind == "label set" else written

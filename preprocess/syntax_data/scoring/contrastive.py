"""Contrastive pairs: of one source sentence a right and a wrong translation."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from syntax_data.errors import InputError
from syntax_data.text.lines import read_lines

#: The category of pairs that have none, and the row of all pairs.
ALL = "all"


class Pair(NamedTuple):
    """A pair; `wrong` differs from `right` in an error of the `category`."""

    source: str
    right: str
    wrong: str
    category: str = ALL


class Accuracy(NamedTuple):
    """The pairs of a category, and those of which a model prefers the right translation."""

    pairs: int
    right: int

    @property
    def percent(self) -> float:
        """The share of the right ones."""
        return 100 * self.right / self.pairs


def read_pairs(source: str, right: str, wrong: str, categories: str | None = None) -> list[Pair]:
    """Return the pairs in files with one sentence, or one category, a line.

    Raises:
        InputError: a file has more or fewer lines than that of the sources, or an empty one; there is none; both
            translations of a pair are the same.
    """
    paths = [path for path in (source, right, wrong, categories) if path is not None]
    columns = [[line.strip() for _, line in read_lines(path)] for path in paths]
    for path, lines in zip(paths, columns, strict=True):
        if len(lines) != len(columns[0]) or not lines:
            raise InputError(
                path, None, f"expected {len(columns[0]) or 'some'} lines as in {source}, found {len(lines)}"
            )
        if "" in lines:
            raise InputError(path, lines.index("") + 1, "expected text, found an empty line")
    pairs = [Pair(*values) for values in zip(*columns, strict=True)]
    for number, pair in enumerate(pairs, start=1):
        if pair.right == pair.wrong:
            raise InputError(wrong, number, f"expected another translation than in {right}, found the same")
    return pairs


def accuracies(outcomes: Iterable[tuple[str, bool]]) -> dict[str, Accuracy]:
    """Return the accuracy of each category, and last of :data:`ALL`, from categories and whether a pair is right."""
    found: dict[str, list[bool]] = {}
    outcomes = list(outcomes)
    for category, right in outcomes:
        found.setdefault(category, []).append(right)
    found.pop(ALL, None)
    found[ALL] = [right for _, right in outcomes]
    return {category: Accuracy(len(of), sum(of)) for category, of in found.items()}

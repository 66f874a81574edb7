"""The numbers of the pictures, as tables: a picture shows what its CSV file has."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from pandas import DataFrame
from sacrebleu.metrics import BLEU, CHRF

from syntax_data.trees.tree import DependencyTree
from syntax_experiments.plots.dumps import Dump
from syntax_experiments.training_log import Gates

#: The translations of a test set, one a sentence.
Texts = Sequence[str]

#: The setting's value of a system that the setting does not concern: its score is a level line.
LEVEL = "-"


def over_seeds(rows: Sequence[tuple[Any, ...]], by: Sequence[str]) -> DataFrame:
    """Mean, lowest, highest, standard deviation and number of seeds; a row: the columns `by`, and a seed's score."""
    grouped = DataFrame(rows, columns=[*by, "score"]).groupby([*by], sort=False)["score"]
    return grouped.agg(mean="mean", low="min", high="max", sd="std", seeds="size").reset_index()


class CorpusScorer:
    """BLEU and chrF2 of a corpus, or of some of its sentences, by sacreBLEU."""

    def __init__(self, references: Sequence[Texts], *, lowercase: bool, tokenize: str):
        self.references = references
        self._metrics: dict[str, Any] = {
            "BLEU": BLEU(lowercase=lowercase, tokenize=tokenize, force=True),  # else a warning for each bin
            "chrF2": CHRF(lowercase=lowercase),
        }

    def __call__(self, texts: Texts, sentences: Sequence[int] | None = None) -> dict[str, float]:
        """Return the scores by name, from 0 to 100, of some sentences or of all."""
        chosen = range(len(texts)) if sentences is None else sentences
        references = [[reference[s] for s in chosen] for reference in self.references]
        of_texts = [texts[s] for s in chosen]
        return {name: metric.corpus_score(of_texts, references).score for name, metric in self._metrics.items()}

    @property
    def signatures(self) -> tuple[str, ...]:
        """sacreBLEU's signatures of the scores, after the first call."""
        return tuple(f"{name}: {metric.get_signature()}" for name, metric in self._metrics.items())


#: Widths of bins, of which the smallest is taken that leaves at most :data:`MOST` of them.
_WIDTHS = (1, 2, 5, 10, 20, 50, 100)
MOST = 10


class Bin(NamedTuple):
    """The sentences whose number is from `first` to `last`."""

    first: int
    last: int
    sentences: tuple[int, ...]

    @property
    def label(self) -> str:
        return str(self.first) if self.first == self.last else f"{self.first}–{self.last}"


def make_bins(values: Sequence[int | None], *, least: int) -> list[Bin]:
    """Return bins of the sentences' numbers, of equal width, joined to the next one until they have enough sentences.

    Bins of width w have the numbers 1 to w, w + 1 to 2w and so on. The first bin begins with the lowest number that
    there is, and the last one ends with the highest; if it has too few sentences, it is joined to the one before.
    """
    numbers = [value for value in values if value is not None]
    if not numbers:
        return []
    low, high = min(numbers), max(numbers)
    width = next((w for w in _WIDTHS if (high - 1) // w - (low - 1) // w < MOST), _WIDTHS[-1])
    ends = [low - 1]  # of the bins, each with enough sentences
    for end in range(-(-low // width) * width, high + width, width):
        if sum(ends[-1] < number <= end for number in numbers) >= max(least, 1):
            ends.append(end)
    ends = [low - 1, *ends[1:-1], high]  # the last one has the rest
    return [
        Bin(first + 1, last, tuple(s for s, value in enumerate(values) if value is not None and first < value <= last))
        for first, last in itertools.pairwise(ends)
    ]


def scores_by_bin(bins: Sequence[Bin], systems: Mapping[str, Sequence[Texts]], score: CorpusScorer) -> DataFrame:
    """The corpus score of each bin's sentences, over each system's seeds."""
    rows = [
        (bin.label, bin.first, bin.last, len(bin.sentences), system, metric, value)
        for bin in bins
        for system, seeds in systems.items()
        for texts in seeds
        for metric, value in score(texts, bin.sentences).items()
    ]
    return over_seeds(rows, ["value", "first", "last", "sentences", "system", "metric"])


class Point(NamedTuple):
    """The translations of a run under a value of a setting."""

    system: str
    value: str
    texts: Texts


def sweep(points: Sequence[Point], score: CorpusScorer) -> DataFrame:
    """The score of the whole test set for each value of a setting, over seeds.

    Values that are all numbers are sorted; others keep their order. :data:`LEVEL` comes first.
    """
    values = list(dict.fromkeys(p.value for p in points if p.value != LEVEL))
    if all(number(v) is not None for v in values):
        values.sort(key=float)
    order = [LEVEL, *values]
    rows = [
        (p.system, p.value, metric, value)
        for p in sorted(points, key=lambda p: order.index(p.value))
        for metric, value in score(p.texts).items()
    ]
    return over_seeds(rows, ["system", "value", "metric"])


def number(text: str) -> float | None:
    """Return the finite number that a string is, or ``None``."""
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


class Matrix(NamedTuple):
    """A matrix ``(rows, columns)`` with a title, and the labels of rows and columns."""

    title: str
    rows: Sequence[str]
    columns: Sequence[str]
    values: np.ndarray


def matrices(system: str, dump: Dump, sentence: int, kind: str, most_tokens: int) -> list[Matrix]:
    """Return matrices between a sentence's first tokens; rows are queries, columns keys.

    Args:
        kind: ``masks``; ``biases`` or ``attention``, the means over heads in the first and the last layer; or
            ``heads``, attention in each layer and head.
    """
    tokens = dump.tokens(sentence)[:most_tokens]
    array = dump.array(sentence, "attention" if kind == "heads" else kind)
    found: list[tuple[str, np.ndarray]] = []
    for i, of_layer in enumerate(() if array is None else array):
        layer = "" if kind == "masks" else f"layer {dump.layers[i]}"
        if kind == "masks":
            found.append((dump.masks[i], of_layer))
        elif kind == "heads":
            found += [(f"{layer}, head {head}", values) for head, values in enumerate(of_layer, start=1)]
        elif i in (0, len(dump.layers) - 1):
            tables = dict(zip(dump.biases, of_layer, strict=True)) if kind == "biases" else {"attention": of_layer}
            found += [(f"{name}, {layer}", values.mean(axis=0)) for name, values in tables.items()]
    return [Matrix(f"{system}: {name}", tokens, tokens, v[:most_tokens, :most_tokens]) for name, v in found]


def cells(found: Sequence[Matrix]) -> DataFrame:
    """The values of matrices, one a row; queries and keys are numbered from 0."""
    rows = [
        (m.title, i, j, m.rows[i], m.columns[j], float(value))
        for m in found
        for (i, j), value in np.ndenumerate(m.values)
    ]
    return DataFrame(rows, columns=["matrix", "query", "key", "query_token", "key_token", "value"])


def final_gates(dumps: Mapping[str, Sequence[Dump]], logged: Mapping[str, Sequence[Gates]]) -> DataFrame:
    """The gate of each attention bias, layer and head over seeds.

    Of dumps it is the mean over sentences, else as logged. The head is 0 where a run has only the mean over heads.
    """
    rows: list[tuple[Any, ...]] = []
    for system in dict.fromkeys([*dumps, *logged]):
        runs: list[Gates] = [gates for dump in dumps.get(system, ()) if (gates := dump.mean_gates())]
        runs = runs or [*logged.get(system, ())]
        heads = all(any(head for *_, head in gates) for gates in runs)
        rows += [(system, *key, gate) for gates in runs for key, gate in gates.items() if bool(key[-1]) == heads]
    return over_seeds(rows, ["system", "bias", "layer", "head"])


def matrices_of(table: DataFrame, by: list[str]) -> list[Matrix]:
    """A matrix (layers, heads) of means for each value of the columns `by`."""
    found = []
    for values, rows in table.groupby(by, sort=False):
        means = rows.pivot(index="layer", columns="head", values="mean")
        heads = [str(head or "all") for head in means]
        found.append(Matrix(": ".join(map(str, values)), [*map(str, means.index)], heads, means.to_numpy()))
    return found


def dependencies(tree: DependencyTree) -> DataFrame:
    """A line's words with their heads, numbered from 1 (0: a root), and relations."""
    columns = {"form": tree.tokens, "upos": tree.upos, "head": tree.heads, "deprel": tree.deprel}
    return DataFrame({"word": range(1, len(tree.tokens) + 1), **columns})

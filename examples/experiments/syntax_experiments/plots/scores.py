"""Scores of translations: in bins of sentences, and against a setting."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from syntax_experiments.plots.bins import Bin
from syntax_experiments.plots.table import SPREAD, Table, distinct, spread

#: The translations of a test set, one a sentence.
Texts = Sequence[str]


class Scorer:
    """sacreBLEU's BLEU and chrF2 of a corpus, or of some of its sentences.

    Args:
        references: one or several, each of the whole test set.
        lowercase: whether both scores are of lower-cased text.
        tokenize: what BLEU counts as tokens, one of sacreBLEU's.
    """

    def __init__(self, references: Sequence[Texts], *, lowercase: bool, tokenize: str):
        from sacrebleu.metrics import BLEU, CHRF

        self.references = references
        self._metrics: list[Any] = [
            BLEU(lowercase=lowercase, tokenize=tokenize, force=True),  # its warning would come for each bin
            CHRF(lowercase=lowercase),
        ]
        self._signatures: dict[str, str] = {}

    def __call__(self, texts: Texts, sentences: Sequence[int] | None = None) -> dict[str, float]:
        """The scores by their names, from 0 to 100; of all sentences unless told which."""
        chosen = range(len(texts)) if sentences is None else sentences
        references = [[reference[s] for s in chosen] for reference in self.references]
        found = {}
        for metric in self._metrics:
            score = metric.corpus_score([texts[s] for s in chosen], references)
            found[score.name] = score.score
            self._signatures[score.name] = metric.get_signature().format()
        return found

    def signatures(self) -> tuple[str, ...]:
        """How the scores that were asked for were computed, as sacreBLEU says it."""
        return tuple(f"{name}: {signature}" for name, signature in self._signatures.items())


def scores_by_bin(bins: Sequence[Bin], systems: Mapping[str, Sequence[Texts]], score: Scorer) -> Table:
    """The corpus score of each bin's sentences, over each system's seeds."""
    rows = []
    for bin in bins:
        for system, seeds in systems.items():
            found = [score(texts, bin.sentences) for texts in seeds]
            rows += [
                (
                    bin.label,
                    bin.first,
                    bin.last,
                    len(bin.sentences),
                    system,
                    metric,
                    *spread([f[metric] for f in found]),
                )
                for metric in found[0]
            ]
    return Table(("bin", "first", "last", "sentences", "system", "metric", *SPREAD), rows)


#: In the place of a value: the axis does not concern the system, whose score is a level line.
LEVEL = "-"


@dataclass(frozen=True)
class Point:
    """The translations of one run under a value of a setting, as it was written."""

    system: str
    value: str
    texts: Texts


def sweep(points: Sequence[Point], score: Scorer) -> Table:
    """The score of the whole test set for each value of a setting, over seeds.

    Values that are all numbers are sorted; others come as they were given. :data:`LEVEL` has no value (``None``).
    """
    values: list[Any] = distinct(p.value for p in points if p.value != LEVEL)
    if all(number(v) is not None for v in values):
        values.sort(key=float)
    rows = []
    for system in distinct(p.system for p in points):
        for value in (LEVEL, *values):
            if found := [score(p.texts) for p in points if (p.system, p.value) == (system, value)]:
                shown = None if value == LEVEL else value
                rows += [(system, shown, metric, *spread([f[metric] for f in found])) for metric in found[0]]
    return Table(("system", "value", "metric", *SPREAD), rows)


def number(text: str) -> float | None:
    """A finite number that is written so; ``None`` of other text."""
    try:
        value = float(text)
    except ValueError:
        return None
    return value if abs(value) < float("inf") else None

"""Tests of differences: sacreBLEU's and McNemar's within a seed; t-test, bootstrap over seeds."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any, Literal, TypeVar

import numpy as np

from syntax_data.scoring.metrics import ScoreSettings, paired_test

#: The level of intervals and tests.
ALPHA = 0.05
#: How p is adjusted for the number of comparisons.
ADJUSTMENT = "Benjamini-Hochberg"
#: sacreBLEU's tests within a seed: our names, and its.
OF_TRANSLATIONS: dict[str, Literal["bs", "ar"]] = {"bootstrap": "bs", "randomisation": "ar"}
#: The tests within a seed, and their headings; the last one is of predicted labels.
WITHIN = {**OF_TRANSLATIONS, "mcnemar": "McNemar"}

_Key = TypeVar("_Key", bound=Hashable)


def compare(
    system: Sequence[str],
    baseline: Sequence[str],
    references: Sequence[str],
    *,
    settings: ScoreSettings,
    bootstrap: int = 1000,
    randomisation: int = 10000,
) -> dict[str, dict[str, Any]]:
    """Compare the detokenised hypotheses of two systems of the same training seed with references.

    Returns of each of BLEU, chrF2 and TER ``system``, ``baseline`` (scores), ``difference`` (system − baseline),
    ``bootstrap`` and ``randomisation`` (``p`` and ``signature`` of each); JSON.

    1,000 sentences take 3 s of one core with 12 words each; with 25 words 10 s, most of it for TER. Deterministic: the
    seed is sacreBLEU's, which the signatures name.

    Args:
        bootstrap: number of samples.
        randomisation: number of trials.
    """
    samples = {"bootstrap": bootstrap, "randomisation": randomisation}
    metrics: dict[str, dict[str, Any]] = {}
    systems = {"baseline": baseline, "system": system}
    for name, kind in OF_TRANSLATIONS.items():
        found = paired_test(systems, [references], settings=settings, kind=kind, samples=samples[name])
        for metric, result in found.items():
            difference = result.scores["system"] - result.scores["baseline"]
            entry = metrics.setdefault(metric, {**result.scores, "difference": difference})
            entry[name] = {"p": result.p["system"], "signature": result.signature}
    return metrics


@dataclass(frozen=True, kw_only=True)
class OverSeeds:
    """The difference of two systems over the seeds that both have."""

    difference: float  # mean of system − baseline
    low: float | None = None  # ends of its 95% confidence interval; ``None`` where nothing could be tested
    high: float | None = None
    p: float | None = None  # two-sided
    why: str = ""  # nothing could be tested


def over_seeds(system: Mapping[int, float], baseline: Mapping[int, float]) -> OverSeeds | None:
    """The paired t-test over seeds: t = d̄ / √(s²/n) of n seeds' differences d.

    A seed is a block: it gives both systems the same batches in the same order, and what it does to one (translations
    that are too long, for instance) it mostly does to the other. Seeds of one side alone do not count; returns ``None``
    if none is in common.
    """
    differences = [value - baseline[seed] for seed, value in system.items() if seed in baseline]
    if not differences:
        return None
    difference = fmean(differences)
    if len(differences) < 2:
        return OverSeeds(difference=difference, why="1 seed in common, 2 are needed")
    if len(set(differences)) == 1:
        return OverSeeds(difference=difference, why="no seed differs from another")

    from scipy.stats import ttest_1samp

    found = ttest_1samp(differences, 0.0)
    interval = found.confidence_interval(1 - ALPHA)
    return OverSeeds(difference=difference, low=float(interval.low), high=float(interval.high), p=float(found.pvalue))


def over_seeds_and_sentences(
    system: Mapping[int, Sequence[Sequence[float]]],
    baseline: Mapping[int, Sequence[Sequence[float]]],
    *,
    samples: int = 10_000,
) -> OverSeeds | None:
    """The bootstrap of a difference over the seeds that both have, and over sentences.

    A sample draws seeds, and independently of them sentences, which are the same for all seeds and both systems. Its
    difference is the mean over its seeds of Σ(system's numerators − baseline's) / Σ denominators. So the interval is
    that of other sentences of this kind, where that of :func:`over_seeds` takes the sentences as given. Of n
    seeds a sample varies by (n − 1)/n of the variance that seeds have: with five, what seeds add to the interval's
    width is 11% too narrow. Deterministic.

    Args:
        system: by seed, of each sentence a numerator and a denominator (bits and tokens, for instance).
        baseline: likewise, with the same denominators.

    Returns:
        the interval from the 2.5th to the 97.5th percentile, and p = 2·min(share of samples ≤ 0, share ≥ 0), at least
        2 / `samples`; ``None`` if they have no seed in common.

    Raises:
        ValueError: they are not of the same sentences.
    """
    seeds = [seed for seed in system if seed in baseline]
    if not seeds:
        return None
    ours, theirs = (np.array([of[seed] for seed in seeds], float) for of in (system, baseline))
    if ours.shape != theirs.shape or np.ptp([*ours[..., 1], *theirs[..., 1]], axis=0).any():
        raise ValueError("expected the same sentences of both systems, found others")
    numerators, denominators = ours[..., 0] - theirs[..., 0], ours[0, :, 1]
    difference = float((numerators.sum(1) / denominators.sum()).mean())
    if len(seeds) < 2:
        return OverSeeds(difference=difference, why="1 seed in common, 2 are needed")
    random = np.random.default_rng(12345)
    found = np.empty(samples)
    count = len(denominators)
    for i in range(samples):
        drawn = np.bincount(random.integers(count, size=count), minlength=count)
        of_seeds = numerators @ drawn / (denominators @ drawn)
        found[i] = of_seeds[random.integers(len(seeds), size=len(seeds))].mean()
    low, high = np.quantile(found, [ALPHA / 2, 1 - ALPHA / 2])
    p = min(1.0, 2 * max(min((found <= 0).mean(), (found >= 0).mean()), 1 / samples))
    return OverSeeds(difference=difference, low=float(low), high=float(high), p=float(p))


def adjust(p: Mapping[_Key, float]) -> dict[_Key, float]:
    """Adjust p-values of one family of comparisons (Benjamini and Hochberg, 1995).

    A p ≤ 0.05 afterwards: of all differences called significant this way, 5% are expected to be none.
    """
    if not p:
        return {}

    from scipy.stats import false_discovery_control

    return dict(zip(p, map(float, false_discovery_control(list(p.values()), method="bh")), strict=True))

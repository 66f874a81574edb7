"""What stands under a table: what its numbers are, what is missing, and what they rest on."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import version

from harness.results import Results, System
from harness.run_record import Run
from harness.significance import ADJUSTMENT, ALPHA


def make_caption(
    results: Results, *, runs: Sequence[Run], systems: Sequence[System], seeds: Sequence[int], compared: str
) -> list[str]:
    """Statements, one a line; of tests that could not be made those in the metric `compared` are named."""
    lines = ["±: standard deviation over seeds (n − 1)."] if len(seeds) > 1 else []
    return [
        *lines,
        *_tests(results, systems=systems, compared=compared),
        *_missing(runs, systems=systems, seeds=seeds),
        *_signatures(results),
        *_within_seeds(results),
        *_not_compared(results, systems=systems),
        *_software(runs),
    ]


def _tests(results: Results, *, systems: Sequence[System], compared: str) -> list[str]:
    labels = {system.name: system.label for system in systems}
    family: dict[str, int] = {}
    untested: dict[str, list[str]] = {}
    for (baseline, name, metric), of in results.differences.items():
        if metric == compared and of.adjusted is not None:
            family[baseline] = family.get(baseline, 0) + 1
        if metric == compared and of.over and of.over.why:
            untested.setdefault(of.over.why, []).append(f"{labels[name]} to {labels[baseline]}")
    lines = []
    if family:
        sizes = ", ".join(f"{count} with {labels[baseline]}" for baseline, count in family.items())
        lines.append(
            "Δ: mean difference over the seeds that both have, with its 95% confidence interval (not adjusted); p: "
            f"paired t-test over seeds (SciPy {version('scipy')}), adjusted by {ADJUSTMENT} for all systems that are "
            f"compared with one baseline in one metric ({sizes})."
        )
    return lines + [f"Not tested over seeds ({why}): {'; '.join(pairs)}." for why, pairs in untested.items()]


def _missing(runs: Sequence[Run], *, systems: Sequence[System], seeds: Sequence[int]) -> list[str]:
    have = {system.label: {run.seed for run in runs if run.system == system.name} for system in systems}
    lines = []
    if missing := [
        f"{label} (seed {', '.join(str(seed) for seed in seeds if seed not in found)})"
        for label, found in have.items()
        if 0 < len(found) < len(seeds)
    ]:
        lines.append(f"Missing runs: {'; '.join(missing)}.")
    if nothing := [label for label, found in have.items() if not found]:
        lines.append(f"No runs: {'; '.join(nothing)}.")
    return lines


def _signatures(results: Results) -> list[str]:
    """Of each metric; of what one command measures together."""
    together: dict[str, list[str]] = {}
    for metric, signature in results.signatures.items():
        together.setdefault(signature if metric in results.measured else metric, []).append(metric)
    return [f"{'; '.join(metrics)}: `{results.signatures[metrics[0]]}`" for metrics in together.values()]


def _within_seeds(results: Results) -> list[str]:
    """What the tests within a seed are; of their signatures what is not in that of the metric."""
    own: dict[str, dict[str, None]] = {}
    for (metric, test), signature in results.tests.items():
        of_metric = results.signatures[metric].split("|")
        own.setdefault(test, {})["|".join(part for part in signature.split("|") if part not in of_metric)] = None
    if not own:
        return []
    signatures = {test: " or ".join(f"`{signature}`" for signature in found) for test, found in own.items()}
    return [
        f"Within a seed: bs, paired bootstrap resampling ({signatures['bootstrap']}), and ar, approximate "
        f"randomisation ({signatures['randomisation']}), both sacreBLEU's. In how many of the seeds compared "
        f"p < {ALPHA}, + with a greater score than the baseline's, − with a smaller; p itself of one seed."
    ]


def _not_compared(results: Results, *, systems: Sequence[System]) -> list[str]:
    """Seeds in which both were scored and not compared; nothing of a baseline that nobody was compared with."""
    labels = {system.name: system.label for system in systems}
    compared = {(baseline, metric) for (baseline, _, metric), of in results.differences.items() if of.within}
    lacking: dict[str, None] = {}
    for (baseline, name, metric), of in results.differences.items():
        if (baseline, metric) not in compared:
            continue
        both = results.values[name].get(metric, {}).keys() & results.values[baseline].get(metric, {}).keys()
        if seeds := sorted(both - of.within.keys()):
            lacking[f"{labels[name]} to {labels[baseline]} (seed {', '.join(map(str, seeds))})"] = None
    return [f"Missing comparisons within a seed: {'; '.join(lacking)}."] if lacking else []


def _software(runs: Sequence[Run]) -> list[str]:
    if not runs:
        return []
    found: dict[str, set[str]] = {}
    for run in runs:
        for package, number in run.versions.items():
            found.setdefault(package, set()).add(number)
    versions = ", ".join(f"{package} {' and '.join(sorted(numbers))}" for package, numbers in found.items())
    devices = " and ".join(sorted({run.device for run in runs}))
    return [f"Software: {versions}.", f"Words/s (target words of training) and hours of training on: {devices}."]

"""What stands under a table: what its numbers are, what is missing, and what they rest on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.metadata import version

from syntax_experiments.results import Results, System
from syntax_experiments.run_record import Run
from syntax_experiments.significance import ADJUSTMENT, ALPHA

#: Beside the number of a system's runs: the gates of some were never trained.
NEVER_TRAINED = "†"


def make_caption(
    results: Results,
    *,
    runs: Sequence[Run],
    systems: Sequence[System],
    seeds: Mapping[str, Sequence[int]],
    compared: str,
    family: Mapping[str, int],
    part: bool = False,
    published: bool = False,
) -> list[str]:
    """Statements, one a line.

    Args:
        compared: of tests that could not be made, those in this metric are named.
        family: how many differences p was adjusted for, by metric.
        part: the table is of a part of a test set.
        published: there are rows of what others report.
    """
    lines = ["±: standard deviation over seeds (n − 1)."] if any(len(of) > 1 for of in seeds.values()) else []
    return [
        *lines,
        *_tests(results, systems=systems, compared=compared, family=family),
        *(["A part of a test set was not chosen beforehand to decide anything: look for a pattern."] if part else []),
        *_of_papers(systems, published=published),
        *_missing(runs, systems=systems, seeds=seeds),
        *_never_trained(runs, systems=systems),
        *_signatures(results),
        *_within_seeds(results),
        *_not_compared(results, systems=systems),
        *_validation(runs),
        *_software(runs),
    ]


def _tests(results: Results, *, systems: Sequence[System], compared: str, family: Mapping[str, int]) -> list[str]:
    labels = {system.name: system.label for system in systems}
    untested: dict[str, list[str]] = {}
    for (baseline, name, metric), of in results.differences.items():
        if metric == compared and of.over and of.over.why:
            untested.setdefault(of.over.why, []).append(f"{labels[name]} to {labels[baseline]}")
    lines = []
    if compared in family:
        lines.append(
            "Δ: mean difference over the seeds that both have, with its 95% confidence interval (not adjusted); p: "
            f"paired t-test over seeds (SciPy {version('scipy')}), adjusted by {ADJUSTMENT} for all differences in a "
            f"metric that these tables have on this test set ({family[compared]} in {compared})."
        )
    return lines + [f"Not tested over seeds ({why}): {'; '.join(pairs)}." for why, pairs in untested.items()]


def _of_papers(systems: Sequence[System], *, published: bool) -> list[str]:
    if not published and not any(system.paper for system in systems):
        return []
    return ["(paper): as published; papers tokenise and score in their own ways, so take no difference to ours."]


def _missing(runs: Sequence[Run], *, systems: Sequence[System], seeds: Mapping[str, Sequence[int]]) -> list[str]:
    have = {system.name: {run.seed for run in runs if run.system == system.name} for system in systems}
    lines = []
    if missing := [
        f"{system.label} (seed {', '.join(str(seed) for seed in lacking)})"
        for system in systems
        if have[system.name] and (lacking := [seed for seed in seeds[system.name] if seed not in have[system.name]])
    ]:
        lines.append(f"Missing runs: {'; '.join(missing)}.")
    if nothing := [system.label for system in systems if not have[system.name]]:
        lines.append(f"No runs: {'; '.join(nothing)}.")
    return lines


def _never_trained(runs: Sequence[Run], *, systems: Sequence[System]) -> list[str]:
    """Systems whose gates are as they began: what they score is no result of gating."""
    found: dict[str, list[int]] = {}
    for run in runs:
        if run.gates_never_trained:
            found.setdefault(run.system, []).append(run.seed)
    of = [
        f"{system.label} (seed {', '.join(map(str, sorted(found[system.name])))})"
        for system in systems
        if system.name in found
    ]
    if not of:
        return []
    return [
        f"{NEVER_TRAINED}: gates never trained, since the checkpoint that translates is not later than "
        f"`--gate-warmup-epochs`: {'; '.join(of)}."
    ]


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
        f"p < {ALPHA}, + with a greater score than the baseline's, − with a smaller; p itself of one seed. Of the two, "
        "go by ar: bs looks at one side only, and so calls 10% of equal systems different."
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


def _validation(runs: Sequence[Run]) -> list[str]:
    """What the loss is, and whether trainings were long enough."""
    if not (seen := [run.epochs for run in runs if run.epochs]):
        return []
    last = sum(min(epochs, key=lambda epoch: epoch["valid_loss"]) is epochs[-1] for epochs in seen)
    return [
        "Validation loss: of the training's criterion, label smoothing included, at the best epoch, whose checkpoint "
        f"translates. The best epoch was the last one in {last} of {len(seen)} runs."
    ]


def _software(runs: Sequence[Run]) -> list[str]:
    if not runs:
        return []
    found: dict[str, set[str]] = {}
    for run in runs:
        for package, number in run.versions.items():
            found.setdefault(package, set()).add(number)
    versions = ", ".join(f"{package} {' and '.join(sorted(numbers))}" for package, numbers in found.items())
    devices = " and ".join(sorted({run.device for run in runs}))
    costs = f"Words/s (target words, in a training's fastest epoch) and hours of training on: {devices}."
    return [f"Software: {versions}.", f"{costs} Hours depend on what else the machine did."]

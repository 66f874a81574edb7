"""Notes under tables: definitions, missing runs, signatures and software."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.metadata import version
from typing import Any

import pandas as pd

from syntax_experiments.metric_names import NEVER_TRAINED, OF_LABELS, number
from syntax_experiments.results import Results
from syntax_experiments.significance import ADJUSTMENT, ALPHA, OF_TRANSLATIONS, POWER


def make_notes(
    results: Results, settings: Mapping[str, Any], differences: pd.DataFrame, compared: Sequence[str]
) -> list[str]:
    """Return notes, one a line; `differences` in the first metric `compared` are counted.

    See :func:`syntax_experiments.tables.table_settings` and :class:`syntax_experiments.tables.Tables`.
    """
    table, first = results.table, compared[0]
    whole = differences[(differences["subset"] == "") & differences["test"].isin(["", settings["tests"][0]])]
    count = whole[whole["metric"] == first]["p"].notna().sum()
    powers = whole.dropna(subset=["detectable"]).groupby("metric")["detectable"].median()
    found = [f"{number(powers[metric], metric)} in {metric}" for metric in compared if metric in powers]
    reasons = [why for why in differences["why"].unique() if why]
    papers = settings["published"] or any(of["published"] for of in settings["systems"].values())
    notes = {
        "±: standard deviation over seeds (n − 1).": table["seed"].nunique() > 1,
        "Δ: mean difference over the seeds that both have, with its 95% confidence interval (not adjusted); p: "
        f"paired t-test over seeds (SciPy {version('scipy')}), adjusted by {ADJUSTMENT} for all differences in a "
        f"metric on a test set ({count} in {first}).": count,
        f"A difference of {', '.join(found)} has {POWER:.0%} power (t-test over seeds, median of the comparisons): "
        "smaller ones have less.": found,
        "Primary comparisons are those that the recipe names; their p is adjusted by Holm's method for them alone. All "
        "others are exploratory.": settings["primary"],
        "within ±: yes where the 90% interval is within the smallest difference that matters (two one-sided tests at "
        "5%). Where it is not, no significant difference is not the same as no difference.": settings["equivalence"],
        f"Without an interval: {'; '.join(reasons)}.": reasons,
        "Seeds and sentences resampled: mean difference over the seeds that both have, with the interval and p of a "
        "bootstrap of seeds and sentences together; p is not adjusted.": len(results.sentences),
        "Parts were not chosen beforehand to decide anything: look for a pattern.": settings["subsets"],
        "(paper): as published; papers tokenise and score in their own ways: take no difference to ours.": papers,
    }
    return [
        *(note for note, applies in notes.items() if applies),
        *_runs(table, settings),
        *_signatures(results),
        *_validation(results),
        *_software(table, "words" if _is_of_labels(table) else "target words"),
    ]


def _runs(table: pd.DataFrame, settings: Mapping[str, Any]) -> list[str]:
    """Return the runs that are missing, and those whose gates were not trained."""
    wanted = [(name, seed) for name, seeds in settings["seeds"].items() for seed in seeds]
    there = set(zip(table["system"], table["seed"], strict=True))
    untrained = table[(table["metric"] == NEVER_TRAINED) & (table["value"] > 0)]
    never_trained = "†: gates never trained, since the checkpoint that translates is not later than"
    found = {
        "Missing runs": [run for run in wanted if run not in there],
        f"{never_trained} `--gate-warmup-epochs`": list(zip(untrained["system"], untrained["seed"], strict=True)),
    }
    notes = []
    for note, runs in found.items():
        seeds: dict[str, list[str]] = {}
        for name, seed in runs:
            seeds.setdefault(name, []).append(str(seed))
        named = [f"{name} (seed {', '.join(of)})" for name, of in seeds.items()]
        notes += [f"{note}: {'; '.join(named)}."] if named else []
    return notes


def _signatures(results: Results) -> list[str]:
    """Return the signatures of metrics and of the tests within a seed."""
    table, comparisons = results.table, results.comparisons
    signatures = dict(table[table["signature"] != ""].drop_duplicates("metric")[["metric", "signature"]].values)
    metrics: dict[str, list[str]] = {}
    for metric, signature in signatures.items():
        metrics.setdefault(signature, []).append(metric)
    notes = [f"{'; '.join(names)}: `{signature}`" for signature, names in metrics.items()]
    if comparisons.empty:
        return notes
    count = (
        f"in how many of the seeds compared p < {ALPHA}, + with a greater score than the baseline's, − with a smaller"
    )
    row = comparisons.iloc[0]
    if row["mcnemar_signature"]:
        return [*notes, f"Within a seed: McNemar's exact test, {count}; p itself of one seed."]
    own = []
    for test in OF_TRANSLATIONS:
        of_metric = signatures[row["metric"]].split("|")
        own.append("|".join(part for part in row[f"{test}_signature"].split("|") if part not in of_metric))
    return [
        *notes,
        f"Within a seed: bs, paired bootstrap resampling (`{own[0]}`), and ar, approximate randomisation (`{own[1]}`), "
        f"both sacreBLEU's: {count}; p itself of one seed. Prefer ar: bs is one-sided, and calls 10% of equal systems "
        "different.",
    ]


def _validation(results: Results) -> list[str]:
    """Return the loss' definition, and how many trainings ended at the best epoch."""
    epochs = results.epochs
    if epochs.empty:
        return []
    scored = "at its best epoch"
    if not _is_of_labels(results.table):
        scored = "label smoothing included, at the best epoch, whose checkpoint translates"
    runs = [of["valid_loss"] for _, of in epochs.groupby(["system", "seed"])]
    last = sum(of.idxmin() == of.index[-1] for of in runs)
    return [
        f"Validation loss: of the training's criterion, {scored}. The best epoch was the last one in {last} of "
        f"{len(runs)} runs."
    ]


def _is_of_labels(table: pd.DataFrame) -> bool:
    return bool(table["metric"].isin(OF_LABELS).any())


def _software(table: pd.DataFrame, words: str) -> list[str]:
    found: dict[str, dict[str, None]] = {}
    for listed in [*table["versions"].unique(), *(f"code {code}" for code in sorted(table["code"].unique()) if code)]:
        for package, _, of_package in (of.partition(" ") for of in listed.split(", ") if of):
            found.setdefault(package, {})[of_package] = None
    versions = ", ".join(f"{package} {' and '.join(numbers)}" for package, numbers in found.items())
    devices = " and ".join(sorted(filter(None, table["device"].unique())))
    costs = f"Words/s ({words}, in a training's fastest epoch) and hours of training on: {devices}."
    return [f"Software: {versions}.", f"{costs} Hours depend on what else the machine did."] if versions else []

"""Results on one test set: values of runs and differences between systems, refused where they do not fit together."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from syntax_experiments.run_record import Run
from syntax_experiments.significance import ALPHA, WITHIN, OverSeeds, over_seeds

#: The name of the validation loss among metrics.
LOSS = "valid_loss"
#: What a run costs.
COSTS = ("parameters", "updates", "words_per_second", "hours")
#: sacreBLEU's metrics, which every translation is scored by.
SACREBLEU = ("BLEU", "chrF2", "TER")
#: BLEU of tokens as the recipe's text has them, against tokens: what multi-bleu.perl and fairseq-generate count.
TOKENISED = "tokenised BLEU"
#: In percent, of translations that are the reference.
EXACT_MATCH = "exact match"

_Key = TypeVar("_Key", bound=Hashable)


@dataclass(frozen=True, kw_only=True)
class System:
    """A row of the table.

    Args:
        name: in run records, scores and comparisons.
        label: what readers see; `code` of Markdown may be in it.
        group: the heading that the row stands under; ``None``: none.
        paper: what a paper reports, by metric.
    """

    name: str
    label: str
    group: str | None = None
    paper: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Difference:
    """A system against a baseline in one metric.

    Args:
        over: difference over seeds and the test of it; ``None``: they have no seed in common.
        adjusted: its p, adjusted over a family of differences (:func:`syntax_experiments.families.adjust_together`).
        within: of each seed both have been compared in, the comparison that
            :func:`syntax_experiments.significance.compare` made.
    """

    over: OverSeeds | None
    within: Mapping[int, Mapping[str, Any]]
    adjusted: float | None = None

    def significant(self, test: str) -> tuple[int, int]:
        """In how many seeds a test within the seed gives p < 0.05, with a greater score and with a smaller one."""
        found = [one["difference"] for one in self.within.values() if one[test]["p"] < ALPHA]
        return sum(value > 0 for value in found), sum(value < 0 for value in found)


@dataclass(frozen=True, kw_only=True)
class Results:
    """All values and differences.

    Args:
        metrics: names of scores, sacreBLEU's first.
        measured: names of what the recipe's own commands measure of each model.
        values: by system, metric (also what is measured, :data:`LOSS` and :data:`COSTS`) and seed.
        differences: by baseline, system and metric.
        signatures: by metric; of what is measured the command.
        tests: signatures of the tests within a seed, by metric and test.
    """

    metrics: Sequence[str]
    measured: Sequence[str]
    values: Mapping[str, Mapping[str, Mapping[int, float]]]
    differences: Mapping[tuple[str, str, str], Difference]
    signatures: Mapping[str, str]
    tests: Mapping[tuple[str, str], str]


def gather(
    runs: Sequence[Run],
    comparisons: Sequence[Mapping[str, Any]],
    *,
    scores: Sequence[Mapping[str, Any]],
    measurements: Sequence[Mapping[str, Any]] = (),
    systems: Sequence[System],
    baselines: Sequence[str],
    seeds: Mapping[str, Sequence[int]],
) -> Results:
    """The results of one test set, or subset; arguments as those of :func:`syntax_experiments.table.make_table`.

    Raises :class:`ValueError` for a system, baseline or seed that is not known, for what is there twice, and for scores
    that do not belong together: of other signatures, or other than a comparison found.
    """
    names = [system.name for system in systems]
    _once("system", names)
    for name in names:
        _once(f"seed of {name}", seeds[name])
    _once("run", [(run.system, run.seed) for run in runs])
    for baseline in baselines:
        if baseline not in names:
            raise ValueError(f"expected a baseline among the systems {', '.join(names)}, found {baseline!r}")
    values, signatures = _values(runs, scores, names=names, seeds=seeds)
    in_papers = [metric for system in systems for metric in system.paper if metric != LOSS]
    measured = _measured(measurements, values=values, signatures=signatures)
    metrics = [m for m in dict.fromkeys([*SACREBLEU, *signatures, *in_papers]) if m not in measured]
    here = [one for one in comparisons if one["baseline"] in baselines]
    within, tests = _within_seeds(here, values=values)
    differences = {}
    for baseline in baselines:
        for metric in [*metrics, *measured, LOSS]:
            of_baseline = values[baseline].get(metric, {})
            over = {name: over_seeds(values[name].get(metric, {}), of_baseline) for name in names if name != baseline}
            for name, one in over.items():
                differences[baseline, name, metric] = Difference(
                    over=one, within=within.get((baseline, name, metric), {})
                )
    return Results(
        metrics=metrics, measured=measured, values=values, differences=differences, signatures=signatures, tests=tests
    )


def _values(
    runs: Sequence[Run],
    scores: Sequence[Mapping[str, Any]],
    *,
    names: Sequence[str],
    seeds: Mapping[str, Sequence[int]],
) -> tuple[dict[str, dict[str, dict[int, float]]], dict[str, str]]:
    """Values by system, metric and seed, and the signatures of scores."""
    values: dict[str, dict[str, dict[int, float]]] = {name: {} for name in names}
    signatures: dict[str, str] = {}
    ran = {(run.system, run.seed) for run in runs}
    _once("score", [(one["system"], one["seed"]) for one in scores])
    for run in runs:
        if run.system not in names or run.seed not in seeds[run.system]:
            raise ValueError(f"expected runs of the systems and seeds given, found {_place(run.system, run.seed)}")
    for one in sorted(scores, key=lambda one: one["seed"]):
        system, seed = one["system"], one["seed"]
        if (system, seed) not in ran:
            raise ValueError(f"expected scores of runs, found those of {_place(system, seed)}, and no run of it")
        for metric, of in one["metrics"].items():
            _agree(signatures, metric, of["signature"])
            values[system].setdefault(metric, {})[seed] = of["score"]
    for run in sorted(runs, key=lambda run: run.seed):
        for metric in (LOSS, *COSTS):
            values[run.system].setdefault(metric, {})[run.seed] = getattr(run, metric)
    for name in names:
        if len(found := set(values[name].get("parameters", {}).values())) > 1:
            raise ValueError(f"expected as many parameters in all runs of {name}, found {sorted(found)}")
    return values, signatures


def _measured(
    measurements: Sequence[Mapping[str, Any]],
    *,
    values: Mapping[str, dict[str, dict[int, float]]],
    signatures: dict[str, str],
) -> list[str]:
    """Puts what is measured of runs into `values`, the commands into `signatures`; returns the names of columns."""
    columns: dict[str, None] = {}
    for one in sorted(measurements, key=lambda one: one["seed"]):
        for column, value in one["values"].items():
            of_system = values[one["system"]].setdefault(column, {})
            if one["seed"] in of_system:
                raise ValueError(f"measurements: expected another name than {column!r}, which is measured already")
            of_system[one["seed"]] = value
            _agree(signatures, column, one["command"])
            columns[column] = None
    return list(columns)


def _within_seeds(
    comparisons: Sequence[Mapping[str, Any]], *, values: Mapping[str, Mapping[str, Mapping[int, float]]]
) -> tuple[dict[tuple[str, str, str], dict[int, Mapping[str, Any]]], dict[tuple[str, str], str]]:
    """Comparisons by baseline, system, metric and seed, and the signatures of their tests."""
    _once("comparison", [(one["system"], one["baseline"], one["seed"]) for one in comparisons])
    found: dict[tuple[str, str, str], dict[int, Mapping[str, Any]]] = {}
    signatures: dict[tuple[str, str], str] = {}
    for one in sorted(comparisons, key=lambda one: one["seed"]):
        for metric, of in one["metrics"].items():
            for side in ("system", "baseline"):
                if one[side] not in values:
                    raise ValueError(f"expected comparisons of the systems given, found {one[side]!r}")
                score = values[one[side]].get(metric, {}).get(one["seed"])
                if score is None or abs(score - of[side]) > 1e-6:
                    raise ValueError(
                        f"expected the comparison of {one['system']} with {one['baseline']} to be of the texts that "
                        f"were scored, found {metric} {of[side]} there and {score} of {_place(one[side], one['seed'])}"
                    )
            for test in WITHIN:
                _agree(signatures, (metric, test), of[test]["signature"])
            found.setdefault((one["baseline"], one["system"], metric), {})[one["seed"]] = of
    return found, signatures


def _agree(signatures: dict[_Key, str], key: _Key, signature: str) -> None:
    if signatures.setdefault(key, signature) != signature:
        raise ValueError(f"expected one signature of {key}, found {signatures[key]} and {signature}")


def _once(what: str, keys: Iterable[Any]) -> None:
    seen = set()
    for key in keys:
        if key in seen:
            raise ValueError(f"expected each {what} once, found {key} again")
        seen.add(key)


def _place(system: str, seed: int) -> str:
    return f"{system}, seed {seed}"

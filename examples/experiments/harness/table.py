"""The table of an experiment: systems in rows, means over seeds, differences to baselines, costs, and what they rest on.

It is put together of run records, scores and comparisons that are there already, and computes no score itself.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from typing import Any

from harness.grid import Grid, latex
from harness.run_record import Run
from harness.significance import ADJUSTMENT, ALPHA, WITHIN, OverSeeds, Spread, adjust, over_seeds, spread

LOSS = "valid_loss"
_COSTS = ("parameters", "updates", "words_per_second", "hours")
_HEADINGS = {
    "BLEU": "BLEU ↑",
    "chrF2": "chrF2 ↑",
    "TER": "TER ↓",
    LOSS: "valid. loss (bits) ↓",
    "parameters": "parameters",
    "words_per_second": "words/s",
    "hours": "hours",
}
_LONG = ("system", "seed", "test", "subset", "metric", "value")
_SUMMARY = (
    *("system", "label", "group", "test", "subset", "metric", "mean", "sd", "n", "seeds", "paper"),
    *("baseline", "difference", "low", "high", "p", "p_adjusted", "not_tested"),
    *(f"{name}_{what}" for name in WITHIN for what in ("n", "better", "worse", "p_by_seed")),
)


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
        over: difference over seeds and Welch's test of it; ``None``: one of both has no run.
        adjusted: its p, adjusted over all systems compared with this baseline in this metric.
        within: of each seed both have been compared in, the comparison of :func:`harness.significance.compare`.
    """

    over: OverSeeds | None
    adjusted: float | None
    within: Mapping[int, Mapping[str, Any]]

    def significant(self, test: str) -> tuple[int, int]:
        """In how many seeds a test within the seed gives p < 0.05, with a greater score and with a smaller one."""
        found = [one["difference"] for one in self.within.values() if one[test]["p"] < ALPHA]
        return sum(value > 0 for value in found), sum(value < 0 for value in found)


@dataclass(frozen=True, kw_only=True)
class Table:
    """The numbers of one test set, or of a subset of it; made by :func:`make_table`.

    Args:
        test: name of the test set.
        subset: name of the subset; ``None``: all sentences.
        systems: in the recipe's order.
        baselines: names of those that others are compared with.
        seeds: those that each system is to have.
        metrics: columns of scores.
        compared: those metrics, and :data:`LOSS`, whose differences are shown; the CSV has all.
        values: by system, metric (also :data:`LOSS` and costs) and seed.
        differences: by baseline, system and metric.
        caption: what the numbers are and rest on, one statement a line.
    """

    test: str
    subset: str | None
    systems: Sequence[System]
    baselines: Sequence[str]
    seeds: Sequence[int]
    metrics: Sequence[str]
    compared: Sequence[str]
    values: Mapping[str, Mapping[str, Mapping[int, float]]]
    differences: Mapping[tuple[str, str, str], Difference]
    caption: Sequence[str]

    @property
    def title(self) -> str:
        """The test set and the subset."""
        return self.test if self.subset is None else f"{self.test}, {self.subset}"

    def grids(self) -> list[Grid]:
        """The table itself, and one of differences for each baseline."""
        return [self._main(), *(self._against(baseline) for baseline in self.baselines)]

    def markdown(self) -> str:
        """Tables under headings of level 3, and the caption as a list."""
        parts = [f"### {grid.title}\n\n{grid.markdown()}" for grid in self.grids()]
        return "\n".join([*parts, "".join(f"- {line}\n" for line in self.caption)])

    def latex(self) -> str:
        """A ``table`` of the package booktabs for each of :meth:`grids`; the first has the caption."""
        tables = []
        for number, grid in enumerate(self.grids()):
            said = " ".join([f"{grid.title}.", *(self.caption if number == 0 else ())])
            tables.append(
                "\\begin{table}\n\\centering\n" + grid.latex() + f"\\caption{{{latex(said)}}}\n\\end{{table}}\n"
            )
        return "\n".join(tables)

    def csv(self, *, heading: bool = True) -> str:
        """Every number: a row for each system, seed and metric. Loss and costs belong to no test set."""
        rows = []
        for system in self.systems:
            for metric, of in self.values[system.name].items():
                place = (self.test, self.subset) if metric in self.metrics else (None, None)
                rows += [(system.name, seed, *place, metric, value) for seed, value in of.items()]
        return _csv(_LONG if heading else None, rows)

    def summary_csv(self, *, heading: bool = True) -> str:
        """Every mean, and every difference: a row for each system, metric and baseline (none for the mean alone)."""
        rows = []
        for system in self.systems:
            for metric in [*self.metrics, LOSS, *_COSTS]:
                if metric not in self.values[system.name] and metric not in system.paper:
                    continue
                found = self._spread(system, metric)
                row = [system.name, system.label, system.group, self.test, self.subset, metric]
                row += [found.mean, found.sd, found.n] if found else [None, None, 0]
                row += [len(self.seeds), system.paper.get(metric)]
                rows.append([*row, *[None] * (len(_SUMMARY) - len(row))])
                for baseline in self.baselines:
                    if difference := self.differences.get((baseline, system.name, metric)):
                        rows.append([*row, baseline, *_details(difference)])
        return _csv(_SUMMARY if heading else None, rows)

    def _spread(self, system: System, metric: str) -> Spread | None:
        return spread(list(self.values[system.name].get(metric, {}).values()))

    def _runs(self, system: System) -> int:
        return len({seed for of in self.values[system.name].values() for seed in of})

    def _main(self) -> Grid:
        whole = self.subset is None  # loss and costs belong to runs: once is enough
        paper = [name for name in [*self.metrics, LOSS] if any(name in system.paper for system in self.systems)]
        columns = [*self.metrics, *([LOSS] if whole else [])]
        headings = ["system"]
        for metric in columns:
            headings += [_heading(metric), *([f"{_name(metric)} (paper)"] if metric in paper else [])]
        first = self.compared[0]
        headings += [text for one in self.baselines for text in (f"Δ {_name(first)} to {self._label(one)}", "p")]
        headings += ["seeds", *(["parameters", "words/s", "hours"] if whole else [])]

        def cells(system: System) -> list[str]:
            row = [system.label]
            for metric in columns:
                row.append(self._cell(system, metric))
                row += [_number(system.paper.get(metric), metric)] if metric in paper else []
            for baseline in self.baselines:
                found = self.differences.get((baseline, system.name, first))
                over = found.over if found else None
                row += [_signed(over.difference, first) if over else "", _p(found.adjusted) if found else ""]
            runs = self._runs(system)
            row.append(str(runs) if runs == len(self.seeds) else f"{runs} of {len(self.seeds)}")
            if whole:
                row += [self._cell(system, cost) for cost in ("parameters", "words_per_second", "hours")]
            return row

        return Grid(headings=headings, rows=self._grouped(self.systems, cells), title=self.title)

    def _against(self, baseline: str) -> Grid:
        compared = [metric for metric in self.compared if metric != LOSS or self.subset is None]
        headings = ["system"]
        for metric in compared:
            headings += [f"Δ {_name(metric)} [95%]", "p"]
            headings += ["bs", "ar"] if self._compared_within(baseline, metric) else []

        def cells(system: System) -> list[str]:
            row = [system.label]
            for metric in compared:
                found = self.differences[baseline, system.name, metric]
                row += [_interval(found.over, metric), _p(found.adjusted)]
                if self._compared_within(baseline, metric):
                    row += [_within(found, test) for test in WITHIN]
            return row

        others = [system for system in self.systems if system.name != baseline]
        return Grid(
            headings=headings, rows=self._grouped(others, cells), title=f"{self.title}, against {self._label(baseline)}"
        )

    def _compared_within(self, baseline: str, metric: str) -> bool:
        return any(of.within for (to, _, what), of in self.differences.items() if (to, what) == (baseline, metric))

    def _label(self, name: str) -> str:
        return next(system.label for system in self.systems if system.name == name)

    def _cell(self, system: System, metric: str) -> str:
        found = self._spread(system, metric)
        if not found:
            return ""
        if metric in _COSTS:
            return _number(found.mean, metric)
        text = _number(found.mean, metric)
        if found.sd is not None:
            text += f" ± {_number(found.sd, metric, scale=found.mean)}"
        runs = self._runs(system)
        return text if found.n == runs else f"{text} ({found.n} of {runs})"

    @staticmethod
    def _grouped(systems: Iterable[System], cells: Any) -> list[list[str] | str]:
        rows: list[list[str] | str] = []
        group = None
        for system in systems:
            if system.group != group:
                group = system.group
                rows += [group] if group is not None else []
            rows.append(cells(system))
        return rows


def make_table(
    runs: Sequence[Run],
    comparisons: Sequence[Mapping[str, Any]],
    *,
    scores: Sequence[Mapping[str, Any]],
    systems: Sequence[System],
    baselines: Sequence[str],
    seeds: Sequence[int],
    test: str,
    subset: str | None = None,
    compared: Sequence[str] = ("BLEU", LOSS),
) -> Table:
    """The table of a test set.

    Args:
        runs: records of all runs that there are; each of a system and a seed.
        comparisons: of :func:`harness.significance.compare`, each with ``system``, ``baseline``, ``seed``, ``test`` and
            ``subset`` (``None``: all sentences); those of other test sets, subsets and baselines are left out.
        scores: of :func:`harness.scores.score`, each with ``system``, ``seed``, ``test`` and ``subset``.
        systems: rows, in this order.
        baselines: names of systems.
        seeds: those that each system is to have; what is missing is said.
        test: name of the test set.
        subset: name of the subset; ``None``: all sentences.
        compared: metrics whose differences are shown, the most important first.

    Raises :class:`ValueError` for a system, baseline or seed that is not known, for what is there twice, and for scores
    that do not belong together: of other signatures, or other than a comparison found.
    """
    names = [system.name for system in systems]
    _once("system", names)
    _once("seed", seeds)
    _once("run", [(run.system, run.seed) for run in runs])
    for baseline in baselines:
        if baseline not in names:
            raise ValueError(f"expected a baseline among the systems {', '.join(names)}, found {baseline!r}")
    values: dict[str, dict[str, dict[int, float]]] = {name: {} for name in names}
    known = {(name, seed) for name in names for seed in seeds}

    def add(system: str, metric: str, seed: int, value: float) -> None:
        values[system].setdefault(metric, {})[seed] = value

    here = [one for one in scores if (one["test"], one["subset"]) == (test, subset)]
    _once("score", [(one["system"], one["seed"]) for one in here])
    signatures: dict[str, str] = {}
    ran = {(run.system, run.seed) for run in runs}
    for one in sorted(here, key=lambda one: one["seed"]):
        place = (one["system"], one["seed"])
        if place not in ran:
            raise ValueError(f"expected scores of runs, found one of {_place(*place)}, which there is no run of")
        for metric, of in one["metrics"].items():
            if signatures.setdefault(metric, of["signature"]) != of["signature"]:
                raise ValueError(
                    f"expected {metric} of one signature, found {signatures[metric]} and {of['signature']} "
                    f"({_place(*place)})"
                )
            add(*(one["system"], metric, one["seed"], of["score"]))
    for run in sorted(runs, key=lambda run: run.seed):
        if (run.system, run.seed) not in known:
            raise ValueError(f"expected runs of the systems and seeds given, found {_place(run.system, run.seed)}")
        for metric in (LOSS, *_COSTS):
            add(run.system, metric, run.seed, getattr(run, metric))
    for name in names:
        if len(found := set(values[name].get("parameters", {}).values())) > 1:
            raise ValueError(f"expected as many parameters in all runs of {name}, found {sorted(found)}")
    metrics = list(signatures)
    for metric in compared:
        if metric not in [*metrics, LOSS] and here:
            raise ValueError(f"expected metrics among {', '.join([*metrics, LOSS])} to compare, found {metric!r}")
    within = _within_seeds(
        [one for one in comparisons if (one["test"], one["subset"]) == (test, subset)],
        values=values,
        baselines=baselines,
        signatures=signatures,
    )
    differences = {}
    for baseline in baselines:
        for metric in dict.fromkeys([*metrics, LOSS, *compared]):
            of_baseline = list(values[baseline].get(metric, {}).values())
            over = {
                name: over_seeds(list(values[name].get(metric, {}).values()), of_baseline)
                for name in names
                if name != baseline
            }
            adjusted = adjust({name: one.p for name, one in over.items() if one and one.p is not None})
            for name, one in over.items():
                differences[baseline, name, metric] = Difference(
                    over=one, adjusted=adjusted.get(name), within=within.get((baseline, name, metric), {})
                )
    return Table(
        test=test,
        subset=subset,
        systems=systems,
        baselines=baselines,
        seeds=seeds,
        metrics=metrics,
        compared=compared,
        values=values,
        differences=differences,
        caption=_caption(
            runs, systems=systems, seeds=seeds, signatures=signatures, differences=differences, compared=compared
        ),
    )


def _within_seeds(
    comparisons: Sequence[Mapping[str, Any]],
    *,
    values: Mapping[str, Mapping[str, Mapping[int, float]]],
    baselines: Sequence[str],
    signatures: dict[str, str],
) -> dict[tuple[str, str, str], dict[int, Mapping[str, Any]]]:
    """Comparisons by baseline, system, metric and seed; adds the signatures of their tests."""
    here = [one for one in comparisons if one["baseline"] in baselines]
    _once("comparison", [(one["system"], one["baseline"], one["seed"]) for one in here])
    found: dict[tuple[str, str, str], dict[int, Mapping[str, Any]]] = {}
    for one in sorted(here, key=lambda one: one["seed"]):
        for metric, of in one["metrics"].items():
            for side in ("system", "baseline"):
                if one[side] not in values:
                    raise ValueError(f"expected comparisons of the systems given, found {one[side]!r}")
                score = values[one[side]].get(metric, {}).get(one["seed"])
                if score is None or abs(score - of[side]) > 1e-6:
                    raise ValueError(
                        f"expected the comparison of {one['system']} with {one['baseline']} to be of the texts that "
                        f"were scored, found {metric} {of[side]} and {score} of {_place(one[side], one['seed'])}"
                    )
            for name in WITHIN:
                signature = signatures.setdefault(f"{metric}, {name}", of[name]["signature"])
                if signature != of[name]["signature"]:
                    raise ValueError(
                        f"expected {name} of {metric} of one signature, found {signature} and {of[name]['signature']}"
                    )
            found.setdefault((one["baseline"], one["system"], metric), {})[one["seed"]] = of
    return found


def _caption(
    runs: Sequence[Run],
    *,
    systems: Sequence[System],
    seeds: Sequence[int],
    signatures: Mapping[str, str],
    differences: Mapping[tuple[str, str, str], Difference],
    compared: Sequence[str],
) -> list[str]:
    lines = []
    if len(seeds) > 1:
        lines.append("±: standard deviation over seeds (n − 1).")
    if any(of.adjusted is not None for of in differences.values()):
        family = {baseline: 0 for baseline, _, _ in differences}
        for (baseline, _, metric), of in differences.items():
            family[baseline] += metric == compared[0] and of.adjusted is not None
        lines.append(
            "Δ: difference of the means over seeds and its 95% confidence interval; p: Welch's t-test over seeds "
            f"(SciPy {version('scipy')}), adjusted by {ADJUSTMENT} over all systems compared with one baseline in one "
            f"metric ({', '.join(f'{label}: {family[name]}' for name, label in _labels(systems, family))})."
        )
    if any(of.within for of in differences.values()):
        lines.append(
            "bs, ar: in how many of the seeds compared paired bootstrap and approximate randomisation within the seed "
            f"give p < {ALPHA}, + with a greater score than the baseline's and − with a smaller; of one seed p itself."
        )
    untested: dict[str, list[str]] = {}
    for (baseline, name, metric), of in differences.items():
        if of.over and of.over.why and metric == compared[0]:
            untested.setdefault(of.over.why, []).append(f"{name} against {baseline}")
    lines += [f"Not tested over seeds ({why}): {'; '.join(which)}." for why, which in untested.items()]
    missing = []
    for system in systems:
        have = {run.seed for run in runs if run.system == system.name}
        if have and (lacking := [str(seed) for seed in seeds if seed not in have]):
            missing.append(f"{system.name} seed {', '.join(lacking)}")
    if missing:
        lines.append(f"Missing runs: {'; '.join(missing)}.")
    if none := [system.name for system in systems if not any(run.system == system.name for run in runs)]:
        lines.append(f"Nothing ran of: {', '.join(none)}.")
    lines += [f"{name}: `{signature}`" for name, signature in signatures.items()]
    software: dict[str, set[str]] = {}
    for run in runs:
        for package, number in run.versions.items():
            software.setdefault(package, set()).add(number)
    if runs:
        numbers = ", ".join(f"{package} {' and '.join(sorted(found))}" for package, found in software.items())
        devices = " and ".join(sorted({run.device for run in runs}))
        lines.append(f"Software: {numbers}. Words/s (target words) and hours of training on: {devices}.")
    return lines


def _labels(systems: Sequence[System], names: Iterable[str]) -> list[tuple[str, str]]:
    labels = {system.name: system.label for system in systems}
    return [(name, labels[name]) for name in names]


def _details(difference: Difference) -> list[Any]:
    over = difference.over
    row: list[Any] = [None] * 4 if over is None else [over.difference, over.low, over.high, over.p]
    row += [difference.adjusted, over.why if over else "no runs"]
    for test in WITHIN:
        by_seed = " ".join(f"{seed}:{of[test]['p']:.6g}" for seed, of in difference.within.items())
        row += [len(difference.within), *difference.significant(test), by_seed] if by_seed else [None] * 4
    return row


def _csv(headings: Sequence[str] | None, rows: Iterable[Sequence[Any]]) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerows([*([headings] if headings else []), *rows])
    return out.getvalue()


def _once(what: str, keys: Iterable[Any]) -> None:
    seen = set()
    for key in keys:
        if key in seen:
            raise ValueError(f"expected each {what} once, found {key} again")
        seen.add(key)


def _place(system: str, seed: int) -> str:
    return f"{system}, seed {seed}"


def _name(metric: str) -> str:
    return "loss" if metric == LOSS else metric


def _heading(metric: str) -> str:
    return _HEADINGS.get(metric, metric)


def _number(value: float | None, metric: str, *, scale: float | None = None) -> str:
    """A number as it is read; of metrics that are not ours 2 places from 10 on (`scale`, or the value itself), or 4."""
    if value is None:
        return ""
    if metric == "parameters":
        return f"{value / 1e6:.2f} M"
    if metric == "words_per_second":
        return f"{value:,.0f}"
    if metric == LOSS:
        return f"{value:.3f}"
    if metric in _HEADINGS or abs(value if scale is None else scale) >= 10:
        return f"{value:.2f}"
    return f"{value:.4f}"


def _signed(value: float, metric: str) -> str:
    text = _number(abs(value), metric)
    return text if not text.strip("0.") else ("+" if value > 0 else "−") + text


def _interval(over: OverSeeds | None, metric: str) -> str:
    if over is None:
        return ""
    text = _signed(over.difference, metric)
    if over.low is None or over.high is None:
        return text
    return f"{text} [{_signed(over.low, metric)}, {_signed(over.high, metric)}]"


def _p(value: float | None) -> str:
    if value is None:
        return ""
    return "<0.001" if value < 0.001 else f"{value:.3f}"


def _within(difference: Difference, test: str) -> str:
    found = difference.within
    if not found:
        return ""
    if len(found) == 1:
        return _p(next(iter(found.values()))[test]["p"])
    better, worse = difference.significant(test)
    signs = " ".join(f"{sign}{count}" for sign, count in (("+", better), ("−", worse)) if count)
    return f"{signs or 0} of {len(found)}"

"""The table of an experiment: systems in rows, means over seeds, differences to baselines, costs, what they rest on.

It is put together of run records, scores and comparisons that are there already, and computes no score itself.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

from syntax_experiments.caption import NEVER_TRAINED, make_caption
from syntax_experiments.cells import heading, interval, number, p_value, short_name, signed, within
from syntax_experiments.grid import Grid, latex
from syntax_experiments.results import COSTS, LOSS, SACREBLEU, Difference, Results, System, gather
from syntax_experiments.run_record import Run
from syntax_experiments.significance import WITHIN, Spread, spread

_SHOWN_COSTS = ("parameters", "words_per_second", "hours")
#: Metrics whose differences are shown, unless a recipe says others.
COMPARED = ("BLEU", LOSS)
_LONG = ("system", "seed", "test", "subset", "metric", "value")
_SUMMARY = (
    *("system", "label", "group", "test", "subset", "metric", "mean", "sd", "n", "seeds", "paper"),
    *("baseline", "difference", "low", "high", "p", "p_adjusted", "not_tested"),
    *(f"{name}_{what}" for name in WITHIN for what in ("n", "greater", "smaller", "p_by_seed")),
)


@dataclass(frozen=True, kw_only=True)
class Table:
    """The numbers of one test set, or of a subset of it; made by :func:`make_table`.

    Args:
        test: name of the test set.
        subset: name of the subset; ``None``: all sentences.
        systems: in the recipe's order.
        baselines: names of those that others are compared with.
        seeds: those that each system is to have.
        compared: metrics whose differences are shown, the most important first; the CSV has all.
        runs: their records.
        results: values, differences, signatures.
        published: rows of what others report, without runs; their numbers are in `paper`.
        bounds: rows of what is possible: numbers by metric, by label.
        family: how many differences p was adjusted for, by metric.
    """

    test: str
    subset: str | None
    systems: Sequence[System]
    baselines: Sequence[str]
    seeds: Mapping[str, Sequence[int]]
    compared: Sequence[str]
    runs: Sequence[Run]
    results: Results
    published: Sequence[System] = ()
    bounds: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    family: Mapping[str, int] = field(default_factory=dict)

    @property
    def title(self) -> str:
        """The test set and the subset."""
        return self.test if self.subset is None else f"{self.test}, {self.subset}"

    @property
    def caption(self) -> list[str]:
        """What the numbers are and rest on, one statement a line."""
        return make_caption(
            self.results,
            runs=self.runs,
            systems=self.systems,
            seeds=self.seeds,
            compared=self.compared[0],
            family=self.family,
            part=self.subset is not None,
            published=bool(self.published),
        )

    def grids(self) -> list[Grid]:
        """The table itself, and one of differences for each baseline."""
        return [self._main(), *(self._against(baseline) for baseline in self.baselines)]

    def markdown(self, *, said: Sequence[str] = ()) -> str:
        """Tables under headings of level 3, and the caption as a list, without the lines `said` elsewhere."""
        parts = [f"### {grid.title}\n\n{grid.markdown()}" for grid in self.grids()]
        lines = [f"- {line}\n" for line in self.caption if line not in said]
        return "\n".join([*parts, *(["".join(lines)] if lines else [])])

    def latex(self) -> str:
        """A ``table`` of the package booktabs for each of :meth:`grids`; the first has the caption."""
        tables = []
        for place, grid in enumerate(self.grids()):
            said = " ".join([f"{grid.title}.", *(self.caption if place == 0 else ())])
            tables.append(
                "\\begin{table}\n\\centering\n" + grid.latex() + f"\\caption{{{latex(said)}}}\n\\end{{table}}\n"
            )
        return "\n".join(tables)

    def csv(self) -> str:
        """See :func:`long_csv`."""
        return long_csv([self])

    def summary_csv(self) -> str:
        """See :func:`summary_csv`."""
        return summary_csv([self])

    def long_rows(self) -> list[tuple[Any, ...]]:
        """Rows of :func:`long_csv`."""
        rows: list[tuple[Any, ...]] = []
        for system in self.systems:
            for metric, of in self.results.values[system.name].items():
                rows += [(system.name, seed, *self._place(metric), metric, value) for seed, value in of.items()]
        return rows

    def summary_rows(self) -> list[tuple[Any, ...]]:
        """Rows of :func:`summary_csv`."""
        rows: list[tuple[Any, ...]] = []
        for one in self.published:
            for metric, value in one.paper.items():
                place = self._place(metric)
                rows.append(_summary(one.name, one.label, "published", *place, metric, None, None, 0, 0, value))
        for label, values in self.bounds.items():
            for metric, value in values.items():
                rows.append(_summary(label, label, "bound", *self._place(metric), metric, value))
        for system in self.systems:
            for metric in [*self.results.metrics, *self.results.measured, LOSS, *COSTS]:
                found = self._spread(system, metric)
                row: list[Any] = [system.name, system.label, system.group, *self._place(metric), metric]
                row += [found.mean, found.sd, found.n] if found else [None, None, 0]
                row += [len(self.seeds[system.name]), system.paper.get(metric)]
                rows.append(_summary(*row))
                for baseline in self.baselines:
                    if difference := self.results.differences.get((baseline, system.name, metric)):
                        rows.append((*row, baseline, *_details(difference)))
        return rows

    def _place(self, metric: str) -> tuple[str | None, str | None]:
        # What is measured, loss and costs are of the run, whatever it translated.
        return (self.test, self.subset) if metric in self.results.metrics else (None, None)

    def _spread(self, system: System, metric: str) -> Spread | None:
        return spread(list(self.results.values[system.name].get(metric, {}).values()))

    def _runs(self, system: System) -> int:
        return len({seed for of in self.results.values[system.name].values() for seed in of})

    @property
    def _only_published(self) -> set[str]:
        """Metrics that papers report, and that no score here is of."""
        ours = {*SACREBLEU, *self.results.signatures, *(name for values in self.bounds.values() for name in values)}
        return set(self.results.metrics) - ours

    def _main(self) -> Grid:
        whole = self.subset is None  # what is measured, loss and costs belong to runs: once is enough
        columns = [*self.results.metrics, *([*self.results.measured, LOSS] if whole else [])]
        reported = [*self.systems, *self.published]
        paper = [name for name in columns if any(name in one.paper for one in reported)]
        ours = [name for name in columns if name not in self._only_published]
        headings = ["system"]
        for metric in columns:
            headings += [heading(metric)] if metric in ours else []
            headings += [f"{short_name(metric)} (paper)"] if metric in paper else []
        first = self.compared[0]
        headings += [text for one in self.baselines for text in (f"Δ {short_name(first)} to {self._label(one)}", "p")]
        headings += ["seeds", *(map(heading, _SHOWN_COSTS) if whole else ())]

        def row_of(system: System) -> list[str]:
            row = [system.label]
            for metric in columns:
                row += [self._cell(system, metric)] if metric in ours else []
                row += [number(system.paper.get(metric), metric)] if metric in paper else []
            for baseline in self.baselines:
                found = self.results.differences.get((baseline, system.name, first))
                over = found.over if found else None
                row += [signed(over.difference, first) if over else "", p_value(found.adjusted) if found else ""]
            runs, wanted = self._runs(system), len(self.seeds[system.name])
            never_trained = any(run.gates_never_trained for run in self.runs if run.system == system.name)
            row.append((str(runs) if runs == wanted else f"{runs} of {wanted}") + f" {NEVER_TRAINED}" * never_trained)
            if whole:
                row += [self._cell(system, cost) for cost in _SHOWN_COSTS]
            return row

        def row_without_runs(label: str, possible: Mapping[str, float], papers: Mapping[str, float]) -> list[str]:
            row = [label]
            for metric in columns:
                row += [number(possible.get(metric), metric)] if metric in ours else []
                row += [number(papers.get(metric), metric)] if metric in paper else []
            return [*row, *[""] * (len(headings) - len(row))]

        rows = _grouped(self.systems, row_of)
        if self.bounds:
            rows += ["bound", *(row_without_runs(label, values, {}) for label, values in self.bounds.items())]
        if self.published:
            rows += ["published", *(row_without_runs(one.label, {}, one.paper) for one in self.published)]
        return Grid(headings=headings, rows=rows, title=self.title)

    def _against(self, baseline: str) -> Grid:
        of_runs = [LOSS, *self.results.measured]  # whatever they translated
        compared = [metric for metric in self.compared if metric not in of_runs or self.subset is None]
        headings = ["system"]
        for metric in compared:
            headings += [f"Δ {short_name(metric)} [95%]", "p"]
            headings += ["bs", "ar"] if self._compared_within(baseline, metric) else []

        def row_of(system: System) -> list[str]:
            row = [system.label]
            for metric in compared:
                found = self.results.differences[baseline, system.name, metric]
                row += [interval(found.over, metric), p_value(found.adjusted)]
                if self._compared_within(baseline, metric):
                    row += [within(found, test) for test in WITHIN]
            return row

        others = [system for system in self.systems if system.name != baseline]
        return Grid(
            headings=headings, rows=_grouped(others, row_of), title=f"{self.title}, against {self._label(baseline)}"
        )

    def _compared_within(self, baseline: str, metric: str) -> bool:
        found = self.results.differences
        return any(of.within for (to, _, what), of in found.items() if (to, what) == (baseline, metric))

    def _label(self, name: str) -> str:
        return next(system.label for system in self.systems if system.name == name)

    def _cell(self, system: System, metric: str) -> str:
        found = self._spread(system, metric)
        if not found:
            return ""
        if metric in COSTS:
            return number(found.mean, metric)
        text = number(found.mean, metric)
        if found.sd is not None:
            text += f" ± {number(found.sd, metric, scale=found.mean)}"
        runs = self._runs(system)
        return text if found.n == runs else f"{text} ({found.n} of {runs})"


def make_table(
    runs: Sequence[Run],
    comparisons: Sequence[Mapping[str, Any]],
    *,
    scores: Sequence[Mapping[str, Any]],
    measurements: Sequence[Mapping[str, Any]] = (),
    systems: Sequence[System],
    baselines: Sequence[str],
    seeds: Mapping[str, Sequence[int]],
    test: str,
    subset: str | None = None,
    compared: Sequence[str] = COMPARED,
    published: Sequence[System] = (),
    bounds: Mapping[str, Mapping[str, float]] | None = None,
) -> Table:
    """The table of a test set.

    Args:
        runs: records of all runs that there are; each of a system and a seed.
        comparisons: of :func:`syntax_experiments.significance.compare`, each with ``system``, ``baseline``, ``seed``,
            ``test`` and ``subset`` (``None``: all sentences); those of other test sets, subsets and baselines are left
            out.
        scores: of :func:`syntax_experiments.scores.score`, each with ``system``, ``seed``, ``test`` and ``subset``.
        measurements: of runs, each with ``system``, ``seed``, ``values`` (numbers by column) and ``command``.
        systems: rows, in this order; those without a group come first.
        baselines: names of systems.
        seeds: by system, those that it is to have; what is missing is said.
        test: name of the test set.
        subset: name of the subset; ``None``: all sentences.
        compared: metrics whose differences are shown, the most important first: scores, what is measured, or
            :data:`LOSS`.
        published: rows of what others report, by metric in `paper`; they have no runs.
        bounds: rows of what is possible: numbers by metric, by label.

    Raises :class:`ValueError` for a system, baseline or seed that is not known, for what is there twice, and for scores
    that do not belong together: of other signatures, or other than a comparison found.
    """
    if not compared:
        raise ValueError("expected a metric to compare, found none")
    for before, after in pairwise(systems):
        if before.group is not None and after.group is None:
            raise ValueError(f"expected systems without a group first, found {after.name} after {before.name}")

    def here(one: Mapping[str, Any]) -> bool:
        return (one["test"], one["subset"]) == (test, subset)

    results = gather(
        runs,
        [one for one in comparisons if here(one)],
        scores=[one for one in scores if here(one)],
        measurements=measurements,
        systems=systems,
        baselines=baselines,
        seeds=seeds,
    )
    known = {*results.metrics, *results.measured, LOSS}
    published_only = dict.fromkeys(metric for one in published for metric in one.paper if metric not in known)
    # All kinds of BLEU side by side.
    metrics = sorted([*results.metrics, *published_only], key=lambda metric: "BLEU" not in metric)
    results = replace(results, metrics=metrics)
    comparable = [*results.metrics, *results.measured, LOSS]
    for metric in compared:
        if metric not in comparable:
            raise ValueError(f"expected metrics to compare among {comparable}, found {metric!r}")
    bounds = bounds or {}
    for label, values in bounds.items():
        if unknown := [metric for metric in values if metric not in comparable]:
            raise ValueError(f"expected a bound of one of {comparable}, found {unknown[0]!r} of {label!r}")
    return Table(
        test=test,
        subset=subset,
        systems=systems,
        baselines=baselines,
        seeds=seeds,
        compared=compared,
        runs=runs,
        results=results,
        published=published,
        bounds=bounds,
    )


def long_csv(tables: Sequence[Table]) -> str:
    """Every number: a row for each system, seed, test set, subset and metric. Loss and costs are of no test set."""
    return _csv(_LONG, [row for table in tables for row in table.long_rows()])


def summary_csv(tables: Sequence[Table]) -> str:
    """Every mean and every difference.

    For each system, test set, subset and metric one row with an empty ``baseline``, and one for each baseline. ``low``
    to ``high`` is the 95% confidence interval of the difference. ``bootstrap_greater``: in how many of ``bootstrap_n``
    seeds p < 0.05 with a greater score than the baseline's; ``bootstrap_smaller``: with a smaller one, better in TER.
    """
    return _csv(_SUMMARY, [row for table in tables for row in table.summary_rows()])


def _grouped(systems: Iterable[System], row_of: Callable[[System], list[str]]) -> list[list[str] | str]:
    rows: list[list[str] | str] = []
    group = None
    for system in systems:
        if system.group is not None and system.group != group:
            rows.append(system.group)
        group = system.group
        rows.append(row_of(system))
    return rows


def _summary(*cells: Any) -> tuple[Any, ...]:
    """A row of :func:`summary_csv` of which only these cells, the first ones, are known."""
    return (*cells, *[None] * (len(_SUMMARY) - len(cells)))


def _details(difference: Difference) -> list[Any]:
    over = difference.over
    row: list[Any] = [None] * 4 if over is None else [over.difference, over.low, over.high, over.p]
    row += [difference.adjusted, over.why if over else "no runs"]
    for test in WITHIN:
        by_seed = " ".join(f"{seed}:{of[test]['p']:.6g}" for seed, of in difference.within.items())
        row += [len(difference.within), *difference.significant(test), by_seed] if by_seed else [None] * 4
    return row


def _csv(headings: Sequence[str], rows: Iterable[tuple[Any, ...]]) -> str:
    out = io.StringIO()
    # What belongs to no test set comes with each of them.
    csv.writer(out, lineterminator="\n").writerows(dict.fromkeys([headings, *rows]))
    return out.getvalue()

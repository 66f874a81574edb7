"""Tables of a comparison: means over seeds, differences to baselines, and notes.

    python -m syntax_experiments.tables examples/experiments/measured/*/

prints the tables of recipes that were run before, from CSV files: table.csv, comparisons.csv, epochs.csv and, if there
is one, sentences.csv.xz. Those of a finished experiment are in WORK/recipes/RECIPE/table_of_RECIPE….
"""

from __future__ import annotations

import argparse
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd

from syntax_data.commands.main import command, command_line
from syntax_data.errors import InputError
from syntax_experiments.metric_names import (
    COMPARED,
    COSTS,
    EXACT_MATCH,
    LOSS,
    NEVER_TRAINED,
    heading,
    number,
    p_value,
    short_name,
    signed,
)
from syntax_experiments.notes import make_notes
from syntax_experiments.recipe import Recipe, read_recipe
from syntax_experiments.results import Results, read_results
from syntax_experiments.significance import (
    ALPHA,
    WITHIN,
    OverSeeds,
    adjust,
    holm,
    over_seeds,
    over_seeds_and_sentences,
)

_SHOWN_COSTS = ("parameters", "words_per_second", "hours")
_PART = ["test", "subset", "metric"]
#: A heading and its cells, by system or label.
Column = tuple[str, pd.Series]


def table_settings(recipe: Recipe) -> dict[str, Any]:
    """Return the parts of a recipe that tables depend on, as JSON has them."""
    return {
        "recipe": recipe.name,
        "title": recipe.title or recipe.name,
        "about": recipe.about,
        "systems": {
            name: {"label": system.label or name, "group": system.group, "published": system.published}
            for name, system in recipe.systems.items()
        },
        "seeds": {name: system.seeds or recipe.seeds for name, system in recipe.systems.items()},
        "tables": {title: asdict(table) for title, table in recipe.of_tables.items()},
        "tests": recipe.scored,
        "subsets": list(recipe.subsets),
        "published": recipe.published,
        "compared": recipe.compared,
        "bounds": recipe.bounds,
        "primary": recipe.primary
        and {
            "metric": recipe.primary.metric,
            "pairs": [[*pair, " − ".join(recipe.full_labels[name] for name in pair)] for pair in recipe.primary.pairs],
        },
        "equivalence": recipe.equivalence,
        "measurements": recipe.measurements,
    }


@dataclass(frozen=True)
class Grid:
    """A title and a table of strings."""

    title: str
    cells: pd.DataFrame

    def markdown(self) -> str:
        """Return a heading of level 3 and the table."""
        align = ("left", *["right"] * (len(self.cells.columns) - 1))
        bar = re.compile(r"(?<!\\)\|")
        cells = self.cells.map(lambda cell: bar.sub(r"\|", cell)).rename(columns=lambda name: bar.sub(r"\|", name))
        return f"### {self.title}\n\n{cells.to_markdown(index=False, disable_numparse=True, colalign=align)}\n"

    def latex(self, notes: Sequence[str] = ()) -> str:
        """Return a ``table`` (booktabs), with title and notes as its caption."""
        cells = self.cells.map(latex)
        cells.columns = pd.Index(range(len(cells.columns)))  # headings may be alike
        return cells.to_latex(
            index=False,
            header=[latex(name).replace("{", "{{").replace("}", "}}") for name in self.cells.columns],  # of str.format
            column_format="l" + "r" * (len(cells.columns) - 1),
            caption=latex(" ".join([f"{self.title}.", *notes])),
        )


class Tables:
    """The tables of a recipe: of the results of its runs, under :func:`table_settings`.

    Attributes:
        means: ``mean, sd, n`` over seeds of each ``system, test, subset, metric``.
        differences: the fields of :class:`.OverSeeds` and ``p_adjusted`` of each of them and each ``baseline``. p is
            adjusted for all differences in a metric on a part of a test set, whichever table they are in: a reader who
            looks for the smallest p looks at all of them.

    Raises:
        ValueError: there are results of a system or a seed that the recipe has not, or there is nothing to compare.
    """

    def __init__(self, results: Results, settings: Mapping[str, Any]):
        self.results, self.settings = results, settings
        self._labels = {name: " ".join(of["label"].split()) for name, of in settings["systems"].items()}
        self._sections = {
            title: ([name for name in self._labels if name in (of["systems"] or self._labels)], of["baselines"])
            for title, of in settings["tables"].items()
        }
        table = results.table
        known = {(name, seed) for name, seeds in settings["seeds"].items() for seed in seeds}
        results.refuse(
            "table",
            table[[place not in known for place in zip(table["system"], table["seed"], strict=True)]],
            lambda row: f"expected a system and a seed of the recipe, found {row.system}, seed {row.seed}",
        )
        metrics = {*table["metric"], LOSS}
        default = COMPARED if "BLEU" in metrics else (EXACT_MATCH, *COMPARED)
        self._compared = [metric for metric in settings["compared"] or default if metric in metrics]
        if not self._compared:
            raise ValueError(f"compared: expected one of {', '.join(sorted(metrics))}, found {settings['compared']}")
        of_parts = table.groupby(["system", *_PART], sort=False)["value"]
        self.means = of_parts.agg(mean="mean", sd="std", n="count").reset_index()
        pairs = [(s, b) for names, baselines in self._sections.values() for b in baselines for s in names if s != b]
        self.differences = _differences(table, list(dict.fromkeys(pairs)))
        runs = table.groupby("system")["seed"].nunique()
        self._mean_cells = self.means.assign(cell=[_mean(row, runs[row.system]) for row in self.means.itertuples()])
        self._difference_cells = _with_cells(self.differences).merge(
            _within_seeds(results.comparisons), how="left", on=["system", "baseline", *_PART]
        )
        untrained = {*table[(table["metric"] == NEVER_TRAINED) & (table["value"] > 0)]["system"]}
        self._seeds = pd.Series(dtype=str)
        for name, wanted in settings["seeds"].items():
            of = "" if (count := runs.get(name, 0)) == len(wanted) else f" of {len(wanted)}"
            self._seeds[name] = f"{count}{of}{' †' if name in untrained else ''}"

    @cached_property
    def sections(self) -> dict[str, list[Grid]]:
        """The tables of each test set, by section."""
        tests = self.settings["tests"]
        found: dict[str, list[Grid]] = {}
        for title, (names, baselines) in self._sections.items():
            grids = []
            for test in tests:
                of_test = self.means[self.means["test"] == test]
                scored = set(zip(of_test["metric"], of_test["subset"], strict=True))
                parts = [(m, s) for m in self._compared for s in self.settings["subsets"] if (m, s) in scored]
                grids.append(self._main(names, baselines, test, with_papers=not found and test == tests[0]))
                grids += [self._by_part(names, test, parts)] if parts else []
                for baseline in baselines:
                    grids.append(self._against(names, baseline, test, [(metric, "") for metric in self._compared]))
                    grids += [self._against(names, baseline, test, parts)] if parts else []
            found[title] = [*grids, *self._resampled(names, baselines)]
        return found

    def markdown(self) -> str:
        """Return all sections, and notes at the end."""
        parts = [f"# {self.settings['title']}\n", _paragraph(self.settings["about"])]
        parts += [grid.markdown() for grid in self.primary]
        for title, grids in self.sections.items():
            heading = f"{title} (exploratory)" if self.primary else title
            parts += [f"## {heading.strip()}\n" if heading else "", _paragraph(self.settings["tables"][title]["about"])]
            parts += [grid.markdown() for grid in grids]
        parts.append("### Notes\n\n" + "".join(f"- {note}\n" for note in self.notes()))
        return "\n".join(part for part in parts if part)

    def latex(self) -> str:
        """Return all tables; the caption of the first has the notes."""
        grids = [*self.primary, *(grid for of_section in self.sections.values() for grid in of_section)]
        return "\n".join(grid.latex(() if i else self.notes()) for i, grid in enumerate(grids))

    def notes(self) -> list[str]:
        """Return notes on the numbers, one a line."""
        return make_notes(self.results, self.settings, self.differences, self._compared)

    @cached_property
    def primary(self) -> list[Grid]:
        """The table of the primary comparisons, if the recipe names some."""
        if self.settings["primary"] is None:
            return []
        metric = self.settings["primary"]["metric"]
        labels = {(system, baseline): label for system, baseline, label in self.settings["primary"]["pairs"]}
        tested = {pair: of for pair in labels if (of := self._difference(metric, *pair)) is not None}
        p = holm({pair: of.p for pair, of in tested.items() if of.p is not None})
        bound = self.settings["equivalence"].get(metric)
        rows = []
        for pair, of in tested.items():
            shown = [signed(n, metric) for n in (of.difference, of.low, of.high, of.low_90, of.high_90)]
            cells = [f"{shown[0]} [{shown[1]}, {shown[2]}]", p_value(p[pair])] if pair in p else [shown[0], ""]
            cells += [f"[{shown[3]}, {shown[4]}]" if pair in p else "", number(of.detectable, metric)]
            rows.append([labels[pair], *cells, _conclusion(of, p.get(pair), bound)])
        columns = ["comparison", f"Δ {short_name(metric)} [95%]", "p (Holm)", "[90%]", "80% power at", "conclusion"]
        how = "seeds and sentences resampled" if self._by_sentence(metric) else "t-test over seeds"
        return [Grid(f"Primary comparisons: {short_name(metric)}, {how}", pd.DataFrame(rows, columns=columns))]

    def _difference(self, metric: str, system: str, baseline: str) -> OverSeeds | None:
        """Return a difference over seeds and, where these have numbers, sentences; ``None`` without runs of both."""
        if by_sentence := self._by_sentence(metric):
            return self._over_sentences(metric, *(by_sentence.get(name, {}) for name in (system, baseline)))
        table = self.results.table
        here = table["test"].isin(["", self.settings["tests"][0]]) & (table["subset"] == "")
        of_metric = table[here & (table["metric"] == metric)]
        by_seed = [of_metric[of_metric["system"] == name].set_index("seed")["value"] for name in (system, baseline)]
        return over_seeds(*(of.to_dict() for of in by_seed))

    def _by_sentence(self, metric: str) -> dict[str, dict[int, Any]]:
        """Return numerators and denominators of a metric, by system and seed."""
        found: dict[str, dict[int, Any]] = {}
        sentences = self.results.sentences
        for (name, seed), of in sentences[sentences["metric"] == metric].groupby(["system", "seed"]):
            found.setdefault(name, {})[seed] = of.sort_values("sentence")[["numerator", "denominator"]].to_numpy()
        return found

    def _over_sentences(self, metric: str, *sides: dict[int, Any]) -> OverSeeds | None:
        try:
            return over_seeds_and_sentences(*sides)
        except ValueError:
            message = f"expected the same sentences of all systems and seeds in {metric}, found others"
            raise InputError(str(self.results.folder / "sentences.csv.xz"), None, message) from None

    def _main(self, names: Sequence[str], baselines: Sequence[str], test: str, *, with_papers: bool) -> Grid:
        """Return means, differences in the first metric compared, and costs."""
        there = self.means[self.means["system"].isin(names) & (self.means["subset"] == "")]
        measured = [m for m in there[there["test"] == ""]["metric"].unique() if m not in (LOSS, NEVER_TRAINED, *COSTS)]
        bounds = self.settings["bounds"] if with_papers else {}
        published = self.settings["published"] if with_papers else {}
        papers = {name: self.settings["systems"][name]["published"] for name in names if with_papers} | published
        in_papers = dict.fromkeys(metric for of in papers.values() for metric in of)
        ours = [*there[there["test"] == test]["metric"], *(metric for of in bounds.values() for metric in of)]
        of_texts = [metric for metric in dict.fromkeys([*ours, *in_papers]) if metric not in (*measured, LOSS)]
        columns: list[Column] = []
        for metric in [*sorted(of_texts, key=lambda name: "BLEU" not in name), *measured, LOSS]:
            if metric in (*ours, *measured, LOSS):
                cells = _pick(self._mean_cells, "cell", test, metric)
                columns.append((heading(metric), pd.concat([cells, _numbers(bounds, metric)])))
            if metric in in_papers:
                columns.append((f"{short_name(metric)} (paper)", _numbers(papers, metric)))
        first = self._compared[0]
        for baseline in baselines:
            title = f"Δ {short_name(first)} to {self._labels[baseline]}"
            cells = self._difference_cells[self._difference_cells["baseline"] == baseline]
            columns += [(title, _pick(cells, "short", test, first)), ("p", _pick(cells, "p_cell", test, first))]
        columns.append(("seeds", self._seeds))
        columns += [(heading(cost), _pick(self._mean_cells, "cell", test, cost)) for cost in _SHOWN_COSTS]
        return self._grid(test, names, columns, bound=bounds, published=published)

    def _by_part(self, names: Sequence[str], test: str, parts: Sequence[tuple[str, str]]) -> Grid:
        """Return means of metrics and subsets."""
        columns = [(f"{short_name(m)}, {s}", _pick(self._mean_cells, "cell", test, m, s)) for m, s in parts]
        return self._grid(f"{test}, by part", names, columns)

    def _against(self, names: Sequence[str], baseline: str, test: str, of: Sequence[tuple[str, str]]) -> Grid:
        """Return differences to a baseline in metrics and subsets."""
        others = [name for name in names if name != baseline]
        cells = self._difference_cells
        cells = cells[(cells["baseline"] == baseline) & cells["system"].isin(others)]
        columns: list[Column] = []
        for metric, subset in of:
            title = f"Δ {', '.join(filter(None, [short_name(metric), subset]))} [95%]"
            shown = [(title, "cell"), ("p", "p_cell"), *((name, name) for name in WITHIN.values())]
            if (bound := self.settings["equivalence"].get(metric)) is not None:
                cells = cells.assign(within=_within(cells, bound))
                shown.append((f"within ±{bound:g}", "within"))
            for name, cell in shown:
                column = _pick(cells, cell, test, metric, subset)
                columns += [(name, column)] if cell.endswith(("cell", "within")) or column.notna().any() else []
        part = ", by part" if of[0][1] else ""
        return self._grid(f"{test}{part}, against {self._labels[baseline]}", others, columns)

    def _resampled(self, names: Sequence[str], baselines: Sequence[str]) -> list[Grid]:
        """Return differences over seeds and sentences, where these have numbers."""
        grids = []
        for metric in self.results.sentences["metric"].unique():
            numbers = self._by_sentence(metric)
            for baseline in [name for name in baselines if name in numbers]:
                others = [name for name in names if name in numbers and name != baseline]
                rows = []
                for name in others:
                    found = self._over_sentences(metric, numbers[name], numbers[baseline])
                    rows += [{"system": name, "metric": metric, **asdict(found)}] if found else []
                if rows:
                    cells = _with_cells(pd.DataFrame(rows).assign(p_adjusted=lambda of: of["p"])).set_index("system")
                    title = f"Seeds and sentences resampled, against {self._labels[baseline]}"
                    columns = [(f"Δ {metric} [95%]", cells["cell"]), ("p", cells["p_cell"])]
                    if (bound := self.settings["equivalence"].get(metric)) is not None:
                        columns.append((f"within ±{bound:g}", _within(cells, bound)))
                    grids.append(self._grid(title, others, columns))
        return grids

    def _grid(self, title: str, names: Sequence[str], columns: Sequence[Column], **more: Iterable[str]) -> Grid:
        """Return rows of systems, and of more labels, under their groups' headings."""
        rows = [(self.settings["systems"][name]["group"], name, self._labels[name]) for name in names]
        rows += [(group, label, label) for group, labels in more.items() for label in labels]
        cells = pd.concat([column for _, column in columns], axis=1).reindex([key for _, key, _ in rows]).fillna("")
        lines, above = [], ""
        for (group, _, label), values in zip(rows, cells.to_numpy().tolist(), strict=True):
            if group and group != above:
                lines.append([f"**{group}**", *[""] * len(columns)])
            lines.append([label, *values])
            above = group
        return Grid(title, pd.DataFrame(lines, columns=["system", *(name for name, _ in columns)]))


def _differences(table: pd.DataFrame, pairs: Sequence[tuple[str, str]]) -> pd.DataFrame:
    table = table[~table["metric"].isin([*COSTS, NEVER_TRAINED])]
    groups = table.groupby(["system", *_PART])
    by_seed = {key: dict(zip(of["seed"], of["value"], strict=True)) for key, of in groups}
    rows = [
        {"system": system, **dict(zip(_PART, part, strict=True)), "baseline": baseline, **asdict(found)}
        for part in table[_PART].drop_duplicates().itertuples(index=False, name=None)
        for system, baseline in pairs
        if (found := over_seeds(by_seed.get((system, *part), {}), by_seed.get((baseline, *part), {})))
    ]
    frame = pd.DataFrame(rows, columns=["system", *_PART, "baseline", *(of.name for of in fields(OverSeeds))])
    adjusted = [pd.Series(adjust(p.dropna().to_dict()), dtype=float) for _, p in frame.groupby(_PART)["p"]]
    return frame.assign(p_adjusted=pd.concat(adjusted) if adjusted else [])


def _within_seeds(comparisons: pd.DataFrame) -> pd.DataFrame:
    """Return in how many seeds tests find a greater score (+), a smaller (−); or p."""

    def cell(seeds: pd.DataFrame, test: str) -> str | float:
        seeds = seeds.dropna(subset=test)
        if len(seeds) < 2:
            return p_value(seeds[test].iloc[0]) if len(seeds) else math.nan
        found = seeds[seeds[test] < ALPHA]["difference"]
        counts = {"+": (found > 0).sum(), "−": (found < 0).sum()}
        return f"{' '.join(f'{sign}{n}' for sign, n in counts.items() if n) or 0} of {len(seeds)}"

    keys = ["system", "baseline", *_PART]
    groups = comparisons.assign(subset="").groupby(keys)
    rows = [[*key, *(cell(seeds, test) for test in WITHIN)] for key, seeds in groups]
    return pd.DataFrame(rows, columns=[*keys, *WITHIN.values()])


def _within(differences: pd.DataFrame, bound: float) -> pd.Series:
    """Return whether 90% intervals are within a bound, ``yes`` or ``no``; empty without an interval."""
    inside = (-bound < differences["low_90"]) & (differences["high_90"] < bound)
    return inside.map({True: "yes", False: "no"}).where(differences["low_90"].notna(), "")


def _conclusion(of: OverSeeds, p: float | None, bound: float | None) -> str:
    """Return what a test shows; that there is no difference only where it is surely within the bound."""
    within = bound is not None and of.is_within(bound)
    if p is not None and p < ALPHA:
        return f"a difference within ±{bound:g}" if within else "a difference"
    return of.why or (f"no difference (within ±{bound:g})" if within else "undecided")


def _mean(row: Any, runs: int) -> str:
    """Format mean ± sd; ``(n of N)`` where runs have no number."""
    text = number(row.mean, row.metric)
    if row.metric in COSTS:
        return text
    text += f" ± {number(row.sd, row.metric, scale=row.mean)}" if row.n > 1 else ""
    return text + (f" ({row.n} of {runs})" if row.n < runs else "")


def _with_cells(differences: pd.DataFrame) -> pd.DataFrame:
    """Return differences with columns ``short, cell`` (with the interval), ``p_cell``."""
    rows = [[signed(n, of.metric) for n in (of.difference, of.low, of.high)] for of in differences.itertuples()]
    return differences.assign(
        short=[difference for difference, _, _ in rows],
        cell=[f"{difference} [{low}, {high}]" if low else difference for difference, low, high in rows],
        p_cell=differences["p_adjusted"].map(p_value),
    )


def _pick(frame: pd.DataFrame, cell: str, test: str, metric: str, subset: str = "") -> pd.Series:
    """Return the cells of a part of a test set, or of runs, by system."""
    here = frame["test"].isin(["", test]) & (frame["metric"] == metric) & (frame["subset"] == subset)
    return frame[here].set_index("system")[cell]


def _numbers(values: Mapping[str, Mapping[str, float]], metric: str) -> pd.Series:
    return pd.Series({label: number(of.get(metric), metric) for label, of in values.items()}, dtype=str)


_IN_LATEX = str.maketrans(
    {
        **{char: f"\\{char}" for char in "&%$#_{}"},
        **{"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"},
        **{"<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar{}\allowbreak{}", "[": "{[}"},
        **{"±": r"$\pm$", "−": "$-$", "×": r"$\times$", "†": r"$\dagger$", "…": r"\dots{}", "→": r"$\rightarrow$"},
        **{"≤": r"$\leq$", "≥": r"$\geq$", "↑": r"$\uparrow$", "↓": r"$\downarrow$", "Δ": r"$\Delta$", "τ": r"$\tau$"},
    }
)


def latex(text: str) -> str:
    """Return Markdown's text, with `code` and **strong** text, for LaTeX."""
    found = text.translate(_IN_LATEX)
    found = re.sub(r"`([^`]+)`", r"\\texttt{\1}", found)
    return re.sub(r"\*\*(.+)\*\*", r"\\textbf{\1}", found)


def _paragraph(text: str) -> str:
    return " ".join(text.split()) + "\n" if text.strip() else ""


def main(argv: Sequence[str] | None = None) -> None:
    """Run the command line."""
    name = "python -m syntax_experiments.tables"
    with command(name):
        parser = command_line(name, __doc__)
        parser.add_argument("folders", nargs="+", type=Path, metavar="FOLDER", help="with table.csv")
        parser.add_argument("--recipe", help="name or YAML file (default: the one that table.csv names)")
        parser.add_argument("--latex", action="store_true", help="print LaTeX instead of Markdown")
        args: argparse.Namespace = parser.parse_args(argv)
        for folder in args.folders:
            results = read_results(folder)
            tables = Tables(results, table_settings(read_recipe(args.recipe or results.recipe)))
            print(tables.latex() if args.latex else tables.markdown())


if __name__ == "__main__":
    main()

"""Tables of a comparison: means over seeds, differences to baselines, and what they rest on.

    python -m syntax_experiments.tables examples/experiments/measured/*

prints the tables of recipes that were run before. Each folder has the CSV files of
:mod:`syntax_experiments.results`, as a finished experiment has.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from syntax_data.commands.main import command, command_line
from syntax_experiments.metric_names import (
    COMPARED,
    COSTS,
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
from syntax_experiments.significance import ALPHA, WITHIN, adjust, over_seeds, over_seeds_and_sentences

_SHOWN_COSTS = ("parameters", "words_per_second", "hours")
_PART = ["test", "subset", "metric"]
#: A heading and the cells below it, by system or label.
Column = tuple[str, Mapping[str, str]]


def table_settings(recipe: Recipe) -> dict[str, Any]:
    """Return what tables depend on beside results, as JSON has it."""
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
        "tests": recipe.tests,
        "subsets": list(recipe.subsets),
        "published": recipe.published,
        "compared": recipe.compared,
        "bounds": recipe.bounds,
        "measurements": recipe.measurements,
    }


@dataclass(frozen=True)
class Grid:
    """A table of strings under a title."""

    title: str
    cells: pd.DataFrame

    def markdown(self) -> str:
        """Return a heading of level 3 and the table."""
        align = ("left", *["right"] * (len(self.cells.columns) - 1))

        def escaped(cell: str) -> str:
            return re.sub(r"(?<!\\)\|", r"\\|", cell)

        cells = self.cells.map(escaped).rename(columns=escaped)
        return f"### {self.title}\n\n{cells.to_markdown(index=False, disable_numparse=True, colalign=align)}\n"

    def latex(self, notes: Sequence[str] = ()) -> str:
        """Return a ``table`` of the package booktabs, with the title and the notes as its caption."""
        cells = self.cells.map(latex)
        cells.columns = pd.Index(range(len(cells.columns)))  # headings may be alike
        return cells.to_latex(
            index=False,
            header=[latex(name).replace("{", "{{").replace("}", "}}") for name in self.cells.columns],  # of str.format
            column_format="l" + "r" * (len(cells.columns) - 1),
            caption=latex(" ".join([f"{self.title}.", *notes])),
        )


class Tables:
    """The tables of a recipe.

    Args:
        results: of its runs.
        settings: see :func:`table_settings`.

    Attributes:
        means: ``mean, sd, n`` over seeds of each ``system, test, subset, metric``.
        differences: ``difference, low, high, p, why, p_adjusted`` of each of them and each ``baseline``. p is adjusted
            for all differences in a metric on a part of a test set, whichever table they are in: a reader who looks for
            the smallest p looks at all of them.

    Raises:
        InputError: there are results of a system or a seed that the recipe has not.
        ValueError: there is nothing to compare.
    """

    def __init__(self, results: Results, settings: Mapping[str, Any]):
        self.results = results
        self.settings = settings
        self._labels = {name: " ".join(of["label"].split()) for name, of in settings["systems"].items()}
        self._sections = {
            title: ([n for n in self._labels if n in (table["systems"] or self._labels)], table["baselines"])
            for title, table in settings["tables"].items()
        }
        table = results.table
        known = {(name, seed) for name, seeds in settings["seeds"].items() for seed in seeds}
        results.refuse(
            "table",
            table[[place not in known for place in zip(table["system"], table["seed"], strict=True)]],
            lambda row: f"expected a system and a seed of the recipe, found {row.system}, seed {row.seed}",
        )
        there = {*table["metric"], LOSS}
        self._compared = [metric for metric in settings.get("compared") or COMPARED if metric in there]
        if not self._compared:
            raise ValueError(f"compared: expected one of {', '.join(sorted(there))}, found {settings['compared']}")
        of_parts = table.groupby(["system", *_PART], sort=False)["value"]
        self.means = of_parts.agg(mean="mean", sd="std", n="count").reset_index()
        pairs = [(s, b) for names, baselines in self._sections.values() for b in baselines for s in names if s != b]
        self.differences = _differences(table, list(dict.fromkeys(pairs)))
        self._mean = {tuple(row[1:5]): row for row in self.means.itertuples()}
        self._difference = {tuple(row[1:6]): row for row in self.differences.itertuples()}
        self._seeds = table.groupby("system")["seed"].nunique().to_dict()
        self._never_trained = {*table[(table["metric"] == NEVER_TRAINED) & (table["value"] > 0)]["system"]}

    def sections(self) -> dict[str, list[Grid]]:
        """Return the tables of each test set, by section."""
        tests = self.settings["tests"]
        found: dict[str, list[Grid]] = {}
        for title, (names, baselines) in self._sections.items():
            grids = []
            for test in tests:
                grids.append(self._main(names, baselines, test, with_papers=not found and test == tests[0]))
                scored = {(row.metric, row.subset) for row in self.means.itertuples() if row.test == test}
                parts = [(m, s) for m in self._compared for s in self.settings["subsets"] if (m, s) in scored]
                if parts:
                    columns = [(f"{short_name(m)}, {s}", self._cells(names, test, s, m)) for m, s in parts]
                    grids.append(self._grid(f"{test}, by part", names, columns))
                for baseline in baselines:
                    grids.append(self._against(names, baseline, test, [(metric, "") for metric in self._compared]))
                    if parts:
                        grids.append(self._against(names, baseline, test, parts))
            found[title] = [*grids, *self._resampled(names, baselines)]
        return found

    def markdown(self) -> str:
        """Return all sections, and notes at the end."""
        parts = [f"# {self.settings['title']}\n", _paragraph(self.settings["about"])]
        for title, grids in self.sections().items():
            parts += [f"## {title}\n" if title else "", _paragraph(self.settings["tables"][title].get("about", ""))]
            parts += [grid.markdown() for grid in grids]
        parts.append("### Notes\n\n" + "".join(f"- {note}\n" for note in self.notes()))
        return "\n".join(part for part in parts if part)

    def latex(self) -> str:
        """Return all tables; the caption of the first has the notes."""
        grids = [grid for of_section in self.sections().values() for grid in of_section]
        return "\n".join(grid.latex(() if i else self.notes()) for i, grid in enumerate(grids))

    def summary(self) -> pd.DataFrame:
        """Return each mean, with its difference to each baseline (a row each) or without (one row)."""
        both = self.means.merge(self.differences, how="left", on=["system", *_PART])
        both.insert(1, "label", both["system"].map(self._labels))
        return both

    def notes(self) -> list[str]:
        """Return what the numbers are and rest on, one statement a line."""
        return make_notes(self.results, self.settings, self.differences, self._compared[0])

    def _main(self, names: Sequence[str], baselines: Sequence[str], test: str, *, with_papers: bool) -> Grid:
        """Return means, differences in the first metric compared, and costs."""
        there = self.means[self.means["system"].isin(names) & (self.means["subset"] == "")]
        of_run = dict.fromkeys(there[there["test"] == ""]["metric"])
        measured = [metric for metric in of_run if metric not in (LOSS, NEVER_TRAINED, *COSTS)]
        systems = self.settings["systems"].items() if with_papers else ()
        bounds = self.settings.get("bounds", {}) if with_papers else {}
        published = self.settings["published"] if with_papers else {}
        papers = {name: of["published"] for name, of in systems if name in names} | published
        in_papers = {metric for values in papers.values() for metric in values}
        ours = dict.fromkeys([*there[there["test"] == test]["metric"], *(m for of in bounds.values() for m in of)])
        scores = dict.fromkeys([*ours, *(metric for of in papers.values() for metric in of)])
        columns: list[Column] = []
        of_texts = [metric for metric in scores if metric not in (*measured, LOSS)]
        for metric in [*sorted(of_texts, key=lambda name: "BLEU" not in name), *measured, LOSS]:
            if metric in (*ours, *measured, LOSS):
                of_bounds = {label: number(of.get(metric), metric) for label, of in bounds.items()}
                columns.append((heading(metric), self._cells(names, test, "", metric) | of_bounds))
            if metric in in_papers:
                columns.append((f"{short_name(metric)} (paper)", _numbers(papers, metric)))
        first = self._compared[0]
        for baseline in baselines:
            found = {name: self._find(self._difference, name, test, "", first, baseline) for name in names}
            there = {name: row for name, row in found.items() if row}
            label = f"Δ {short_name(first)} to {self._labels[baseline]}"
            columns.append((label, {name: signed(row.difference, first) for name, row in there.items()}))
            columns.append(("p", {name: p_value(row.p_adjusted) for name, row in there.items()}))
        columns.append(("seeds", {name: self._count(name) for name in names}))
        for cost in _SHOWN_COSTS:
            columns.append((heading(cost), self._cells(names, test, "", cost)))
        return self._grid(test, names, columns, more={"bound": bounds, "published": published})

    def _against(self, names: Sequence[str], baseline: str, test: str, of: Sequence[tuple[str, str]]) -> Grid:
        """Return differences to a baseline in metrics and subsets."""
        within = self.results.comparisons
        within = within[(within["baseline"] == baseline) & (within["test"] == test)]
        others = [name for name in names if name != baseline]
        columns: list[Column] = []
        for metric, subset in of:
            rows = {name: self._find(self._difference, name, test, subset, metric, baseline) for name in others}
            found = {name: row for name, row in rows.items() if row}
            name = f"Δ {', '.join(filter(None, [short_name(metric), subset]))} [95%]"
            columns.append((name, {name: _interval(row, metric) for name, row in found.items()}))
            columns.append(("p", {name: p_value(row.p_adjusted) for name, row in found.items()}))
            seeds = within[(within["metric"] == metric) & within["system"].isin(others)]
            if len(seeds) and not subset:
                for short, test_within in zip(("bs", "ar"), WITHIN, strict=True):
                    columns.append((short, {name: _within(s, test_within) for name, s in seeds.groupby("system")}))
        part = ", by part" if any(subset for _, subset in of) else ""
        return self._grid(f"{test}{part}, against {self._labels[baseline]}", others, columns)

    def _resampled(self, names: Sequence[str], baselines: Sequence[str]) -> list[Grid]:
        """Return differences over seeds and sentences, of metrics with numbers of each sentence."""
        grids = []
        for metric, of_metric in self.results.sentences.groupby("metric", sort=False):
            numbers: dict[str, dict[int, Any]] = {}
            for (name, seed), of in of_metric.groupby(["system", "seed"]):
                numbers.setdefault(name, {})[seed] = of.sort_values("sentence")[["numerator", "denominator"]].to_numpy()
            for baseline in [name for name in baselines if name in numbers]:
                others = [name for name in names if name in numbers and name != baseline]
                found = {name: over_seeds_and_sentences(numbers[name], numbers[baseline]) for name in others}
                there = {name: one for name, one in found.items() if one}
                columns = [
                    (f"Δ {metric} [95%]", {name: _interval(one, metric) for name, one in there.items()}),
                    ("p", {name: p_value(one.p) for name, one in there.items()}),
                ]
                title = f"Seeds and sentences resampled, against {self._labels[baseline]}"
                grids += [self._grid(title, others, columns)] if others else []
        return grids

    def _grid(
        self,
        title: str,
        names: Sequence[str],
        columns: Sequence[Column],
        more: Mapping[str, Iterable[str]] | None = None,
    ) -> Grid:
        """Return rows of systems, and of further labels, under the headings of their groups."""
        rows = [(name, self._labels[name], self.settings["systems"][name]["group"]) for name in names]
        rows += [(label, label, group) for group, labels in (more or {}).items() for label in labels]
        cells, above = [], None
        for key, label, group in rows:
            if group and group != above:
                cells.append([f"**{group}**", *[""] * len(columns)])
            cells.append([label, *(of.get(key, "") for _, of in columns)])
            above = group
        return Grid(title, pd.DataFrame(cells, columns=["system", *(name for name, _ in columns)]))

    def _cells(self, names: Sequence[str], test: str, subset: str, metric: str) -> dict[str, str]:
        """Return mean ± sd, by system; ``(n of N)`` where seeds have no number."""
        cells = {}
        for name in names:
            if not (row := self._find(self._mean, name, test, subset, metric)):
                continue
            cells[name] = number(row.mean, metric)
            if metric not in COSTS:
                cells[name] += f" ± {number(row.sd, metric, scale=row.mean)}" if row.n > 1 else ""
                cells[name] += f" ({row.n} of {self._seeds[name]})" if row.n < self._seeds[name] else ""
        return cells

    def _find(self, rows: Mapping[Any, Any], name: str, test: str, subset: str, metric: str, *more: str) -> Any:
        """Return a row of a part of a test set, or of the run, whatever it translated."""
        return rows.get((name, test, subset, metric, *more)) or rows.get((name, "", subset, metric, *more))

    def _count(self, name: str) -> str:
        runs, wanted = self._seeds.get(name, 0), len(self.settings["seeds"][name])
        return (str(runs) if runs == wanted else f"{runs} of {wanted}") + " †" * (name in self._never_trained)


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
    frame = pd.DataFrame(rows, columns=["system", *_PART, "baseline", "difference", "low", "high", "p", "why"])
    adjusted = [pd.Series(adjust(p.dropna().to_dict()), dtype=float) for _, p in frame.groupby(_PART)["p"]]
    return frame.assign(p_adjusted=pd.concat(adjusted) if adjusted else [])


def _numbers(values: Mapping[str, Mapping[str, float]], metric: str) -> dict[str, str]:
    return {label: number(of.get(metric), metric) for label, of in values.items()}


def _interval(found: Any, metric: str) -> str:
    text = signed(found.difference, metric)
    if found.low is None or pd.isna(found.low):
        return text
    return f"{text} [{signed(found.low, metric)}, {signed(found.high, metric)}]"


def _within(seeds: pd.DataFrame, test: str) -> str:
    """Return in how many seeds a test finds a greater score and a smaller one; of one seed p."""
    if len(seeds) == 1:
        return p_value(seeds[test].iloc[0])
    found = seeds[seeds[test] < ALPHA]["difference"]
    counts = {"+": (found > 0).sum(), "−": (found < 0).sum()}
    return f"{' '.join(f'{sign}{n}' for sign, n in counts.items() if n) or 0} of {len(seeds)}"


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
    """Return Markdown's text for LaTeX: characters with a meaning are escaped, `code` and **strong** text is set so."""
    pieces = re.split(r"(`[^`]+`|\*\*.+\*\*)", text)
    found = []
    for piece in pieces:
        name = "texttt" if piece.startswith("`") and len(piece) > 1 else "textbf" if piece.startswith("**") else ""
        escaped = piece.strip("`*" if name else "").translate(_IN_LATEX)
        found.append(f"\\{name}{{{escaped}}}" if name else escaped)
    return "".join(found)


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

"""Results that are shipped: read with all checks, and the digits of the documentation's pages."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

pytest.importorskip("pandas")
pytest.importorskip("scipy")

from places import ROOT
from syntax_experiments.metric_names import LOSS, p_value, signed
from syntax_experiments.recipe import read_recipe
from syntax_experiments.results import read_results
from syntax_experiments.tables import Tables, main, table_settings
from tiers import others_nightly

MEASURED = ROOT / "examples/experiments/measured"
LOSSES = ["loss, valid and test", "test loss", "BLEU"]


def tables_of(folder: Path) -> Tables:
    results = read_results(folder)
    return Tables(results, table_settings(read_recipe(results.recipe)))


#: Of the largest tables, and of a classifier's; the others run nightly.
ORDINARY = {"cola", "depth", "multi30k_en_de_labels"}


@pytest.mark.parametrize(
    "name", others_nightly(sorted(path.parent.name for path in MEASURED.glob("*/table.csv")), ORDINARY)
)
def test_shipped_results_are_those_of_their_recipe(name):
    folder = MEASURED / name
    tables = tables_of(folder)
    assert folder.name == tables.results.recipe
    assert len(tables.means)
    assert all(os.path.getsize(file) < 1_000_000 for file in folder.iterdir())


def test_the_page_of_systems_has_the_digits_of_the_shipped_results():
    table = read_results(MEASURED / "systems").table
    page = (ROOT / "docs/systems.md").read_text(encoding="utf-8")
    exact = table[table["metric"] == "exact match"].groupby("system")["value"]
    assert len(exact) == 24
    for system, values in exact:
        assert f"| {values.mean():.1f} ({values.min():.1f}) |" in page, system


@pytest.mark.parametrize(
    ("recipe", "heading", "shown"),
    [
        ("multi30k_en_de", "25 systems, five seeds", 5),
        ("multi30k_en_de_systems", "The systems of the papers", 18),
    ],
)
def test_the_page_of_results_has_the_digits_of_the_shipped_results(capsys, recipe, heading, shown):
    main([str(MEASURED / recipe)])
    printed = re.sub(" +", " ", capsys.readouterr().out)
    differences = tables_of(MEASURED / recipe).differences
    known = set()
    for row in differences[differences["subset"] == ""].itertuples():
        for metric in (row.metric, LOSS):  # test loss with 4 decimals, or with 3
            difference, low, high = (signed(value, metric) for value in (row.difference, row.low, row.high))
            known.add(cells := f"{difference} [{low}, {high}] |")
            whole = f"{cells} {p_value(row.p_adjusted)} |"
            assert metric != row.metric or row.metric not in ("BLEU", "test loss") or whole in printed
    page = (ROOT / "docs/results.md").read_text(encoding="utf-8")
    section = page.partition(f"## {heading}")[2].partition("\n## ")[0]
    found = re.findall(r"[+−]?[\d.]+ \[[^|]*\] \|", section)
    assert len(found) == shown
    assert [cells for cells in found if cells not in known] == []


@pytest.mark.parametrize(
    ("recipe", "heading", "columns", "shown"),
    [
        ("multi30k_en_de_positions", "Relative positions in the decoder, too", LOSSES, 5),
        ("multi30k_en_de_labels", "Labels", ["loss, valid and test", "BLEU"], 12),
        ("multi30k_en_de_converged", "Labels, 24 epochs", LOSSES, 4),
        ("multi30k_en_de_128", "Labels, 128 dimensions", LOSSES, 4),
        ("tanaka_en_ja", "English to Japanese", [*LOSSES, "word order (τ)"], 4),
        ("depth", "Depth", [("exact match", test) for test in ("test", "phrases3")], 23),
    ],
)
def test_the_page_of_results_has_the_means_of_the_shipped_results(recipe, heading, columns, shown):
    table = read_results(MEASURED / recipe).table
    of_metric = [table[table["metric"] == (c if isinstance(c, str) else c[0])] for c in columns]
    chosen = [t if isinstance(c, str) else t[t["test"] == c[1]] for t, c in zip(of_metric, columns, strict=True)]
    means = [of_column.groupby("system")["value"].mean() for of_column in chosen]
    decimals = [3 if "loss" in column else 1 for column in columns]
    known = {tuple(f"{mean[s]:.{d}f}" for mean, d in zip(means, decimals, strict=True)) for s in means[0].index}
    page = (ROOT / "docs/results.md").read_text(encoding="utf-8")
    section = page.partition(f"## {heading}\n")[2].partition("\n## ")[0]
    rows = [tuple(cell.strip() for cell in line.split("|")[2:-1]) for line in section.splitlines()]
    found = [row for row in rows if len(row) == len(columns) and all(re.fullmatch(r"[\d.]+", cell) for cell in row)]
    assert len(found) == shown
    assert [row for row in found if row not in known] == []

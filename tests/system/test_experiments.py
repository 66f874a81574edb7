"""Every recipe from its files to its table, made small, without a network or a parser's model."""

from __future__ import annotations

import csv
import json
import subprocess
from pathlib import Path

import pytest

from experiment import experiment, run_here
from syntax_experiments.recipe import read_recipe
from syntax_experiments.schema import recipe_names

#: The one that is run as users do, with four systems, six trainings in all; the others by forks, with two systems.
WHOLE = "iwslt14_de_en"
#: Between them they have all kinds of steps; the others run nightly.
ORDINARY = {"gate_normalisation", "multi30k_en_de", "multi30k_en_de_high", "wmt18_en_tr"}


@pytest.fixture(autouse=True)
def offline_without_data(monkeypatch):
    for name in ("http_proxy", "https_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")  # a use of the network fails
    monkeypatch.delenv("FAIRSEQ_SYNTAX_DATA", raising=False)


def run(recipe: str, *options: object, cwd: Path) -> str:
    """What a smoke test of a recipe prints."""
    command = experiment(recipe, "--smoke", *options, "--cores", 2)
    done = subprocess.run(**command, stdin=subprocess.DEVNULL, capture_output=True, cwd=cwd)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    output: str = done.stdout
    return output


@pytest.fixture(scope="module")
def shared(tmp_path_factory) -> Path:
    """A folder in which recipes that have something in common make it once."""
    return tmp_path_factory.mktemp("experiments")


@pytest.mark.parametrize(
    "recipe", [pytest.param(name, marks=() if name in ORDINARY else pytest.mark.nightly) for name in recipe_names()]
)
def test_smoke(recipe, shared, tmp_path, monkeypatch, capsys):
    systems = 4 if recipe == WHOLE else 2
    options = ["--smoke-systems", systems]
    folder = tmp_path if recipe == WHOLE else shared
    if recipe == WHOLE:
        printed = run(recipe, *options, "--work", folder, cwd=tmp_path)
    else:
        run_here(recipe, "--smoke", *options, "--work", folder, monkeypatch=monkeypatch, cwd=tmp_path)
        printed = capsys.readouterr().out
    work = folder / "smoke"
    with open(work / "recipes" / recipe / "table.csv") as file:
        rows = list(csv.DictReader(file))
    full = read_recipe(recipe)
    found = {row["system"] for row in rows}
    assert found <= full.systems.keys()
    assert len(found) == systems
    assert any(full.systems[name].parser != "none" for name in found)
    for name in found:
        metrics = {row["metric"] for row in rows if row["system"] == name}
        assert ("tokenised BLEU" in metrics) == full.score.tokenized
        assert metrics >= {"BLEU", "chrF2", "TER", "valid_loss", "parameters"}
        assert (full.systems[name].label or name) in printed
    if full.pictures:
        assert list((work / "recipes" / recipe / "pictures").glob("*/index.html"))
    for label in (*full.published, *full.bounds):
        assert f"| {label}" in printed
    assert not list(work.glob("*/.[0-9a-f]*[0-9a-f]")), "nothing is half done"
    for record in work.glob("runs/*/run.json"):
        epochs = json.loads(record.read_text())["epochs"]
        assert epochs[-1]["valid_loss"] < epochs[0]["valid_loss"], "it learns"
    if recipe == WHOLE:
        assert len(list(work.glob("runs/*/run.json"))) == 6
        assert "p < 0.05" in printed, "two seeds are compared"
        assert "†: gates never trained" in printed, "its 2 epochs are of 80 in which they are frozen"
        (counts,) = (json.loads(path.read_text()) for path in work.glob("text/*/counts.json"))
        assert (counts["train"]["pairs"], counts["valid"]["pairs"]) == (287, 13), "each 23rd of 300 is for validation"

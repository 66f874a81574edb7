"""Every recipe from its files to its table, made small, without a network or a parser's model."""

from __future__ import annotations

import csv
import json
import subprocess

import pytest

from experiment import experiment
from harness.recipe import RECIPES, read_recipe

#: The one that is run with four systems, six trainings in all; the others with two.
WHOLE = "iwslt14_de_en"


@pytest.mark.parametrize("recipe", sorted(path.stem for path in RECIPES.glob("*.yaml")))
def test_smoke(recipe, tmp_path):
    systems = 4 if recipe == WHOLE else 2
    options = ["--smoke", "--smoke-systems", systems, "--work", tmp_path, "--cores", 2]
    nowhere = "http://127.0.0.1:9"  # whoever would use the network fails
    command = experiment(recipe, *options, http_proxy=nowhere, https_proxy=nowhere)
    command["env"].pop("FAIRSEQ_SYNTAX_DATA", None)
    done = subprocess.run(**command, stdin=subprocess.DEVNULL, capture_output=True, cwd=tmp_path)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    work = tmp_path / "smoke"
    with open(work / "recipes" / recipe / "table.csv") as file:
        rows = list(csv.DictReader(file))
    full = read_recipe(recipe)
    found = {row["system"] for row in rows}
    assert found <= full.systems.keys()
    assert len(found) == systems
    assert any(full.systems[name].parser != "none" for name in found)
    for name in found:
        metrics = {row["metric"] for row in rows if row["system"] == name}
        assert metrics >= {"BLEU", "chrF2", "TER", "valid_loss", "parameters"}
        assert (full.systems[name].label or name) in done.stdout
    if full.pictures:
        assert list((work / "recipes" / recipe / "pictures").glob("*/index.html"))
    for label in full.published:
        assert f"| {label}" in done.stdout
    assert not list(work.glob("*/.[0-9a-f]*[0-9a-f]")), "nothing is half done"
    for record in work.glob("runs/*/run.json"):
        epochs = json.loads(record.read_text())["epochs"]
        assert epochs[-1]["valid_loss"] < epochs[0]["valid_loss"], "it learns"
    if recipe == WHOLE:
        assert len(list(work.glob("runs/*/run.json"))) == 6
        assert "p < 0.05" in done.stdout, "two seeds are compared"
        (counts,) = (json.loads(path.read_text()) for path in work.glob("text/*/counts.json"))
        assert (counts["train"]["pairs"], counts["valid"]["pairs"]) == (287, 13), "each 23rd of 300 is for validation"

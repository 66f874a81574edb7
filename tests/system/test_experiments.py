"""Recipes from a made-up corpus to their tables, without a network or a parser's model."""

from __future__ import annotations

import csv
import json
import subprocess
from pathlib import Path

import pytest

from experiment import experiment, run_here
from syntax_experiments.metric_names import SACREBLEU
from syntax_experiments.recipe import read_recipe
from syntax_experiments.schema import recipe_names
from tiers import others_nightly

ORDINARY = {"multi30k_en_de"}  # the others run nightly
SCORES = {
    "sentence_prediction": ["accuracy", "MCC"],
    "sentence_ranking": ["accuracy"],
    "span_prediction": ["exact match", "F1"],
    "masked_lm": ["accuracy"],
}


@pytest.fixture(autouse=True)
def offline_without_data(monkeypatch):
    for name in ("http_proxy", "https_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")  # a use of the network fails
    monkeypatch.delenv("FAIRSEQ_SYNTAX_DATA", raising=False)


def assert_table(work: Path, name: str, systems: int, printed: str) -> None:
    recipe = read_recipe(name)
    with open(work / "recipes" / name / "table.csv") as file:
        rows = list(csv.DictReader(file))
    found = {row["system"] for row in rows}
    assert found <= recipe.systems.keys()
    assert len(found) == systems
    assert any(recipe.systems[of].parser != "none" for of in found)
    for of in found:
        metrics = {row["metric"] for row in rows if row["system"] == of}
        assert ("tokenised BLEU" in metrics) == recipe.score.tokenized
        assert metrics >= {"valid_loss", "parameters", *SCORES.get(recipe.task, SACREBLEU)}
        assert (recipe.systems[of].label or of) in printed
    for label in (*recipe.published, *recipe.bounds):
        assert f"| {label}" in printed
    assert all(Path(folder, "metadata.json").exists() for folder in work.glob("*/" + 16 * "[0-9a-f]"))
    for record in work.glob("runs/*/run.json"):  # a classifier learns nothing in ten updates
        epochs = json.loads(record.read_text())["epochs"]
        assert epochs[-1]["valid_loss"] < epochs[0]["valid_loss"], "it learns"


@pytest.mark.nightly
def test_smoke_as_users_run_it(tmp_path):
    command = experiment("iwslt14_de_en", "--smoke", "--work", tmp_path, "--cores", 2)
    done = subprocess.run(**command, stdin=subprocess.DEVNULL, capture_output=True, cwd=tmp_path)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    begun, *lines, end = done.stderr.splitlines()
    assert begun.startswith(f"{len(lines)} steps to do; log: {tmp_path}/smoke/.snakemake/log/")
    assert lines[-1].endswith(f" {len(lines)} of {len(lines)}: table of iwslt14_de_en")
    assert end.startswith("tables, CSV and LaTeX: ")
    assert done.stdout.startswith("# IWSLT14")
    work = tmp_path / "smoke"
    assert_table(work, "iwslt14_de_en", 4, done.stdout)
    assert len(list(work.glob("runs/*/run.json"))) == 6
    assert "p < 0.05" in done.stdout, "two seeds are compared"
    assert "†: gates never trained" in done.stdout, "its 2 epochs are of 80 in which they are frozen"
    (counts,) = (json.loads(path.read_text()) for path in work.glob("text/*/counts.json"))
    assert (counts["train"]["pairs"], counts["valid"]["pairs"]) == (287, 13), "each 23rd of 300 is for validation"


@pytest.mark.parametrize("recipe", others_nightly(recipe_names(), ORDINARY))
def test_smoke(recipe, tmp_path, monkeypatch, capsys):
    options = ["--smoke", "--smoke-systems", 2, "--work", tmp_path]
    run_here(recipe, *options, monkeypatch=monkeypatch, cwd=tmp_path)
    work = tmp_path / "smoke"
    assert_table(work, recipe, 2, capsys.readouterr().out)
    if read_recipe(recipe).pictures:
        assert list((work / "recipes" / recipe / "pictures").glob("*/index.html"))

"""The step of the table writes runs, scores and measurements as rows and tables."""

from __future__ import annotations

import json

import pytest
from small_recipe import settings_of_tables
from steps_in import step_in

pytest.importorskip("pandas")

import pandas as pd

from syntax_experiments.recipe import Selection, System
from syntax_experiments.steps import table

RUN = {"parameters": 1234567, "updates": 1440, "words_per_second": 5400.0, "hours": 0.24, "valid_loss": 4.357}
RECORD = {
    **{"system": "slr", "seed": 1, "device": "a CPU", "tests": ["test"], "gates_never_trained": False},
    **{"versions": {"torch": "2.7", "python": "3.11", "code": "11"}, **RUN},
    "epochs": [{"epoch": 1, "updates": 180, "train_loss": 9.1, "valid_loss": 7.5, "gates": {"gate_slr_l1": 0.5}}],
}
SCORE = {"test": "test", "subset": None, "metrics": {"BLEU": {"score": 30.5, "signature": "case:lc"}}}
FILES = {
    "run/run.json": json.dumps(RECORD),
    "run/test.txt": "Ein Hund läuft.\n\nZwei\u2028Kinder.\n",
    "scores/scores.json": json.dumps([SCORE, {**SCORE, "subset": "long"}]),
    "one/measured.json": "2.5",
    "one/output": "2.5\n",
    "two/measured.json": '{"loss": 1.5}',
    "two/output": '{"sentences": {"loss": [[1, 1], [4, 2]]}}\n{"loss": 1.5}\n',
}
SETTINGS = settings_of_tables(
    {"tree": System("tree_bias_transformer", label="a tree")},
    seeds=[3],
    subsets={"long": Selection(words=[9, None])},
    measurements={"the one": "wc {model}", "the two": "wc -l {model}"},
)


def test_runs_become_rows_and_tables(tmp_path):
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    inputs = {"run tree 3": tmp_path / "run", "scores tree 3": tmp_path / "scores", "text": tmp_path}
    inputs |= {f"measurement tree 3 the {name}": tmp_path / name for name in ("one", "two")}
    table.write(step_in(tmp_path / "table", SETTINGS, inputs=inputs))

    def read(name):
        return pd.read_csv(tmp_path / "table" / name, keep_default_na=False)

    found = read("table.csv")
    for column, value in {"system": "tree", "seed": 3, "versions": "torch 2.7, python 3.11", "code": 11}.items():
        assert set(found[column]) == {value}
    of_run = {**RUN, "gates_never_trained": 0, "the one": 2.5, "loss": 1.5, "BLEU": 30.5}
    assert dict(zip(found["metric"], found["value"], strict=True)) == of_run
    assert found[found["metric"] == "BLEU"][["test", "subset"]].values.tolist() == [["test", ""], ["test", "long"]]
    sentences = read("sentences.csv.xz")[["metric", "numerator", "denominator"]].values.tolist()
    assert sentences == [["loss", 1, 1], ["loss", 4, 2]]
    assert read("translations.csv.xz")["tree 3"].tolist() == ["Ein Hund läuft.", "", "Zwei\u2028Kinder."]
    assert json.loads(read("epochs.csv")["gates"][0]) == {"gate_slr_l1": 0.5}
    for name in ("table.md", "table.tex"):
        assert "a tree" in (tmp_path / "table" / name).read_text()

"""A run record is read whole, or refused with the file; the step of the table writes it as rows."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from steps_in import step_in

from syntax_data.errors import InputError
from syntax_experiments.run_record import load_run, read_sentences

RECORD = {
    "system": "slr",
    "seed": 1,
    "parameters": 1234567,
    "updates": 1440,
    "words_per_second": 5400.0,
    "hours": 0.24,
    "device": "a CPU",
    "versions": {"torch": "2.7", "python": "3.11", "code": "11"},
    "valid_loss": 4.357,
    "epochs": [{"epoch": 1, "updates": 180, "train_loss": 9.1, "valid_loss": 7.5, "gates": {"gate_slr_l1": 0.5}}],
    "tests": ["test"],
}


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "run.json").write_text(json.dumps(RECORD))
    (tmp_path / "test.txt").write_text("Ein Hund läuft.\n\nZwei\u2028Kinder.\n", encoding="utf-8")
    return tmp_path


def test_a_record_and_its_translations(folder):
    assert read_sentences(str(folder / "test.txt")) == ["Ein Hund läuft.", "", "Zwei\u2028Kinder."]
    run = load_run(folder)
    assert {name: getattr(run, name) for name in RECORD} == RECORD
    assert not run.gates_never_trained, "the default of records without the key"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (json.dumps(RECORD | {"seed": "1"}), "found '1' as seed, which is int"),
        (json.dumps(RECORD | {"seed": True}), "found True as seed, which is int"),
        (json.dumps(RECORD | {"valid_loss": float("nan")}), "found nan as valid_loss, which is int or float"),
        (json.dumps(RECORD | {"hours": 10**400}), "found int too large to convert to float"),
        (json.dumps(RECORD | {"versions": None}), "found None as versions, which is dict"),
        (json.dumps(RECORD | {"gates_never_trained": 1}), "found 1 as gates_never_trained, which is bool"),
        ("{}", "found no 'system'"),
        ("[]", "found 'list' object is not a mapping"),
        ('{\n"a"', "found no JSON"),
    ],
)
def test_what_is_no_record_is_refused(folder, text, expected):
    (folder / "run.json").write_text(text)
    with pytest.raises(InputError, match=re.escape(f"{folder}/run.json: expected a run record, {expected}")):
        load_run(folder)


def test_files_that_are_missing_or_not_whole_are_refused(folder):
    path = str(folder / "test.txt")
    with pytest.raises(InputError, match=re.escape(f"{path}: expected 4 sentences, found 3")):
        read_sentences(path, sentences=4)
    (folder / "test.txt").write_text("")
    with pytest.raises(InputError, match=re.escape(f"{path}: expected one sentence a line, found an empty")):
        read_sentences(path)
    (folder / "test.txt").unlink()
    (folder / "run.json").unlink()
    for read, what in ((lambda: read_sentences(path), "a text"), (lambda: load_run(folder), "a run record")):
        with pytest.raises(InputError, match=f"expected {what}, found no file"):
            read()


def test_runs_become_rows_and_tables(folder):
    pd = pytest.importorskip("pandas")
    from syntax_experiments.steps import table

    score = {"test": "test", "subset": None, "metrics": {"BLEU": {"score": 30.5, "signature": "case:lc"}}}
    files = {
        "scores/scores.json": json.dumps([score, {**score, "subset": "long"}]),
        "one/measured.json": "2.5",
        "one/output": "2.5\n",
        "two/measured.json": '{"loss": 1.5}',
        "two/output": '{"sentences": {"loss": [[1, 1], [4, 2]]}}\n{"loss": 1.5}\n',
    }
    for name, text in files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    inputs = {"run tree 3": folder, "scores tree 3": folder / "scores", "text": folder}
    inputs |= {f"measurement tree 3 the {name}": folder / name for name in ("one", "two")}
    settings = {
        **{"recipe": "small", "title": "Small", "about": "", "seeds": {"tree": [3]}, "tests": ["test"]},
        **{"systems": {"tree": {"label": "a tree", "group": "", "published": {}}}, "subsets": ["long"]},
        **{"tables": {"": {"systems": [], "baselines": [], "about": ""}}, "published": {}, "compared": []},
        **{"bounds": {}, "measurements": {"the one": "wc", "the two": "wc -l"}},
    }
    table.write(step_in(folder / "table", settings, inputs=inputs))

    def read(name):
        return pd.read_csv(folder / "table" / name, keep_default_na=False)

    found = read("table.csv")
    for column, value in {"system": "tree", "seed": 3, "versions": "torch 2.7, python 3.11", "code": 11}.items():
        assert set(found[column]) == {value}
    of_run = {name: RECORD[name] for name in ("valid_loss", "parameters", "updates", "words_per_second", "hours")}
    of_run |= {"gates_never_trained": 0, "the one": 2.5, "loss": 1.5, "BLEU": 30.5}
    assert dict(zip(found["metric"], found["value"], strict=True)) == of_run
    assert found[found["metric"] == "BLEU"][["test", "subset"]].values.tolist() == [["test", ""], ["test", "long"]]
    assert read("sentences.csv.xz")[["metric", "numerator", "denominator"]].values.tolist() == [
        ["loss", 1, 1],
        ["loss", 4, 2],
    ]
    assert read("translations.csv.xz")["tree 3"].tolist() == ["Ein Hund läuft.", "", "Zwei\u2028Kinder."]
    assert json.loads(read("epochs.csv")["gates"][0]) == {"gate_slr_l1": 0.5}
    for name in ("table.md", "table.tex", "summary.csv"):
        assert "a tree" in Path(folder, "table", name).read_text()

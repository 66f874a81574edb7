"""A run record is read whole, or refused with the file."""

from __future__ import annotations

import json
import re

import pytest

from syntax_data.errors import InputError
from syntax_experiments.run_record import load_run

RECORD = {
    "system": "slr",
    "seed": 1,
    "parameters": 1234567,
    "updates": 1440,
    "words_per_second": 5400.0,
    "hours": 0.24,
    "device": "a CPU",
    "versions": {"torch": "2.7"},
    "valid_loss": 4.357,
    "epochs": [{"epoch": 1, "updates": 180, "train_loss": 9.1, "valid_loss": 7.5, "gates": {}}],
    "tests": ["test"],
}


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "run.json").write_text(json.dumps(RECORD))
    (tmp_path / "test.txt").write_text("Ein Hund läuft.\n\nZwei\u2028Kinder.\n", encoding="utf-8")
    return tmp_path


def test_a_record_and_its_translations(folder):
    run = load_run(folder)
    assert {name: getattr(run, name) for name in RECORD} == RECORD
    assert not run.gates_never_trained, "older records do not say"
    assert run.hypotheses("test") == run.hypotheses("test", sentences=3) == ["Ein Hund läuft.", "", "Zwei\u2028Kinder."]


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"seed": "1"}, "expected a whole number as seed, found '1'"),
        ({"seed": True}, "expected a whole number as seed, found True"),
        ({"valid_loss": float("nan")}, "expected a finite number as valid_loss, found nan"),
        ({"versions": None}, "expected an object as versions, found None"),
        ({"gates_never_trained": 1}, "expected true or false as gates_never_trained, found 1"),
        ({"tests": "test"}, "expected a list as tests, found 'test'"),
    ],
)
def test_wrong_types_are_refused(folder, change, expected):
    (folder / "run.json").write_text(json.dumps(RECORD | change))
    with pytest.raises(InputError, match=re.escape(f"{folder}/run.json: {expected}")):
        load_run(folder)


@pytest.mark.parametrize(
    ("text", "expected"),
    [("{}", "found no system, seed, parameters"), ("[]", "expected an object, found []"), ('{\n"a"', "run.json:2: ")],
)
def test_what_is_no_record_is_refused(folder, text, expected):
    (folder / "run.json").write_text(text)
    with pytest.raises(InputError, match=re.escape(expected)):
        load_run(folder)
    (folder / "run.json").unlink()
    with pytest.raises(InputError, match=r"run.json: expected the record of a run, found no file"):
        load_run(folder)


def test_translations_that_are_not_all_there_are_refused(folder):
    run = load_run(folder)
    with pytest.raises(InputError, match=re.escape(f"{folder}/test.txt: expected 4 sentences, found 3")):
        run.hypotheses("test", sentences=4)
    with pytest.raises(InputError, match="expected test set 'flickr' in"):
        run.hypotheses("flickr")
    (folder / "test.txt").write_text("")
    with pytest.raises(InputError, match=re.escape(f"{folder}/test.txt: expected one sentence a line, found an empty")):
        run.hypotheses("test")
    (folder / "test.txt").unlink()
    with pytest.raises(InputError, match=r"test.txt: expected a text, found no file"):
        run.hypotheses("test")

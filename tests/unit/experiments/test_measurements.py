"""What a recipe asks of each trained model by a command of its own, and code of a system's own."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest

from syntax_data.errors import InputError
from syntax_experiments.make import Step
from syntax_experiments.plan import Plan, make_plan
from syntax_experiments.recipe import read_recipe
from syntax_experiments.resampled import read_sentences, section
from syntax_experiments.results import System
from syntax_experiments.steps import measurements

RECIPE = """\
source: en
target: de
corpus:
  folder: "{here}"
  splits:
    train: {source: [a], target: [b]}
    valid: {source: [a], target: [b]}
    test: {source: [a], target: [b]}
seeds: [1, 2]
systems:
  one: {architecture: transformer, parser: none}
"""
MEASURED = RECIPE + 'measurements: {size: "python {here}/size.py {model} {data}"}\n'


def plan(folder: Path, recipe: str, **files: str) -> Plan:
    folder.mkdir(exist_ok=True)
    for name, text in {"a": "a\n", "b": "b\n", "recipe.yaml": recipe, **files}.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    return make_plan(read_recipe(str(folder / "recipe.yaml")))


def keys(made: Plan, kind: str) -> list[str]:
    return [artefact.key for artefact in made.artefacts if artefact.kind == kind]


def test_a_measurement_is_of_one_model_and_changes_none(tmp_path):
    bare, measured = plan(tmp_path, RECIPE), plan(tmp_path, MEASURED, **{"size.py": "1"})
    assert [keys(measured, kind) for kind in ("models", "runs", "scores")] == [
        keys(bare, kind) for kind in ("models", "runs", "scores")
    ]
    assert list(measured.measurements) == [("one", 1, "size"), ("one", 2, "size")]
    found = measured.measurements["one", 2, "size"]
    assert found.inputs == {name: measured.runs["one", 2].inputs[name] for name in ("model", "data")}
    assert measured.table.inputs["measurement one 2 size"] is found


def test_a_measurement_counts_by_what_its_script_says_and_not_where_it_lies(tmp_path):
    before = keys(plan(tmp_path / "here", MEASURED, **{"size.py": "1"}), "measurements")
    assert keys(plan(tmp_path / "there", MEASURED, **{"size.py": "1"}), "measurements") == before
    spaced = plan(tmp_path / "over there", MEASURED, **{"size.py": "1"})
    assert keys(spaced, "measurements") == before
    found = shlex.split(spaced.measurements["one", 1, "size"].places["command"])
    assert found == ["python", str(tmp_path / "over there/size.py"), "{model}", "{data}"]
    assert keys(plan(tmp_path / "here", MEASURED, **{"size.py": "2"}), "measurements") != before


def test_here_is_the_folder_of_the_file_that_says_so(tmp_path):
    plan(tmp_path / "base", MEASURED, **{"size.py": "1"})
    extended = plan(tmp_path / "own", "extends: ../base/recipe.yaml\nseeds: [3]\n")
    [found] = extended.measurements.values()
    assert found.places["command"] == f"python {tmp_path / 'base'}/size.py {{model}} {{data}}"
    assert found.settings["scripts"]


def test_a_measurement_of_parts_depends_on_which_lines_they_are(tmp_path):
    parts = RECIPE + "subsets: {long: {words: [9, ~]}}\n"
    whole, of_parts = (
        parts + f'measurements: {{size: "wc {{model}} {more}"}}\n' for more in ("", "{subsets}/test.json")
    )
    found = plan(tmp_path, of_parts).measurements["one", 1, "size"]
    assert found.inputs["subsets"].settings["subsets"] == {"long": {"words": [9, None]}}
    assert "subsets" not in plan(tmp_path, whole).measurements["one", 1, "size"].inputs
    for recipe, same in ((whole, True), (of_parts, False)):
        changed = plan(tmp_path, recipe.replace("9", "8"))
        assert (keys(changed, "measurements") == keys(plan(tmp_path, recipe), "measurements")) is same


def test_a_measurement_of_parts_that_are_not_there_is_refused(tmp_path):
    with pytest.raises(
        InputError, match=r"measurements.size: expected subsets, which \{subsets\} stands for, found none"
    ):
        plan(tmp_path, RECIPE + 'measurements: {size: "wc {model} {subsets}"}\n')


def test_a_measurement_that_takes_no_model_is_refused(tmp_path):
    with pytest.raises(InputError, match=r"measurements.size: expected a command with \{model\}, found 'wc'"):
        plan(tmp_path, RECIPE + "measurements: {size: wc}\n")


def test_code_of_a_system_counts_by_what_it_says_and_not_where_it_lies(tmp_path):
    recipe = RECIPE.replace("none}", 'none, options: {user-dir: "{here}/own"}}')
    here = plan(tmp_path / "here", recipe, **{"own/__init__.py": "1"})
    there = plan(tmp_path / "there", recipe, **{"own/__init__.py": "1"})
    assert keys(there, "models") == keys(here, "models")
    for artefact in (there.runs["one", 1], there.runs["one", 1].inputs["model"]):  # it also knows how to translate
        assert artefact.places["options"] == {"user-dir": str(tmp_path / "there/own")}
    assert keys(plan(tmp_path / "here", recipe, **{"own/__init__.py": "2"}), "models") != keys(here, "models")


def test_models_that_keep_their_epochs_are_others(tmp_path):
    bare = keys(plan(tmp_path, RECIPE), "models")
    assert keys(plan(tmp_path, RECIPE + "keep_epochs: false\n"), "models") == bare
    assert not set(bare) & set(keys(plan(tmp_path, RECIPE + "keep_epochs: true\n"), "models"))


def measured(folder: Path, monkeypatch, printed: str) -> object:
    """What the step writes where the command prints so; the command's words."""
    words: list[str] = []

    def run(*command: str, stdout: Path, **_: object) -> None:
        words.extend(command)
        stdout.write_text(printed)

    monkeypatch.setattr(measurements, "run", run)
    inputs = {"model": Path("models/a b"), "data": Path("data/c")}
    places = {"command": "python 'my size.py' {model}/checkpoint.pt {data} {x}"}
    measurements.measure(Step({}, inputs, places, 1, folder))
    assert words == ["python", "my size.py", "models/a b/checkpoint.pt", "data/c", "{x}"]
    return json.loads((folder / "measured.json").read_text())


@pytest.mark.parametrize(
    ("printed", "expected"),
    [("a remark\n3.5\n", 3.5), ('{"depth": 1, "width": -2e3}\n\n', {"depth": 1, "width": -2000})],
)
def test_a_number_or_several_are_read(tmp_path, monkeypatch, printed, expected):
    assert measured(tmp_path, monkeypatch, printed) == expected


@pytest.mark.parametrize("printed", ["", "3.5\nready", "NaN", "true", '"3"', "[1]", "{}", '{"a": null}', '{"a": NaN}'])
def test_all_else_is_refused(tmp_path, monkeypatch, printed):
    with pytest.raises(InputError, match="expected a finite number, or a JSON object of them, as the last line, found"):
        measured(tmp_path, monkeypatch, printed)


def test_what_is_measured_of_sentences_is_resampled(tmp_path):
    pytest.importorskip("scipy")
    output = tmp_path / "output"
    found: dict[str, dict[int, object]] = {"tree": {}, "none": {}}
    for name, bits in (("tree", 1), ("none", 2)):
        for seed in (1, 2):
            output.write_text(json.dumps({"sentences": {"loss": [[bits, 1], [bits, 1]]}}) + '\n{"loss": 1.0}\n')
            found[name][seed] = read_sentences(output)["loss"]
    systems = [System(name="none", label="no tree"), System(name="tree", label="a tree")]
    (table, about) = section({"loss": found}, systems, ["none"])
    assert "| a tree | −1.0000 [−1.0000, −1.0000] | <0.001 |" in " ".join(table.split())
    assert "resamples seeds and sentences together" in about
    assert section({"loss": found}, systems[:1], ["none"]) == []
    output.write_text("2.5\n")
    assert read_sentences(output) == {}

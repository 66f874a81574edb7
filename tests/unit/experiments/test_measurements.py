"""Commands of a recipe that measure each trained model: what they depend on, and what they may print."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import pytest
from steps_in import step_in

from syntax_data.errors import InputError
from syntax_experiments.plan import make_plan
from syntax_experiments.recipe import read_recipe
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
PARTS = RECIPE + "subsets: {long: {words: [9, ~]}}\n" + 'measurements: {size: "wc {model} {subsets}/test.json"}\n'


def inputs(folder: Path, recipe: str, **files: str) -> dict[str, Any]:
    """Return what the recipe's table depends on, by name."""
    folder.mkdir(exist_ok=True)
    for name, text in {"a": "a\n", "b": "b\n", "recipe.yaml": recipe, **files}.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    found: dict[str, Any] = make_plan(read_recipe(str(folder / "recipe.yaml"))).table.inputs
    return found


def keys(found: dict[str, Any], kind: str) -> list[str]:
    return [one.key for name, one in found.items() if name.startswith(f"{kind} ")]


def test_a_measurement_depends_on_its_model_and_script_and_not_on_the_folder(tmp_path):
    bare, measured = inputs(tmp_path, RECIPE), inputs(tmp_path, MEASURED, **{"size.py": "1"})
    assert [keys(measured, kind) for kind in ("run", "scores")] == [keys(bare, kind) for kind in ("run", "scores")]
    found = measured["measurement one 2 size"]
    assert found.inputs == {name: measured["run one 2"].inputs[name] for name in ("model", "data")}
    spaced = inputs(tmp_path / "over there", MEASURED, **{"size.py": "1"})
    assert keys(spaced, "measurement") == keys(measured, "measurement")
    changed = inputs(tmp_path, MEASURED, **{"size.py": "2"})
    assert keys(changed, "measurement") != keys(measured, "measurement")


def test_here_is_the_folder_of_the_file_that_names_it(tmp_path):
    inputs(tmp_path / "the base", MEASURED, **{"size.py": "1"})
    found = inputs(tmp_path / "own", "extends: ../the base/recipe.yaml\nseeds: [3]\n")["measurement one 3 size"]
    expected = ["python", str(tmp_path / "the base/size.py"), "{model}", "{data}"]
    assert shlex.split(found.local["command"]) == expected
    assert found.settings["scripts"]


def test_a_measurement_of_parts_depends_on_their_lines(tmp_path):
    found = inputs(tmp_path, PARTS)
    assert found["measurement one 1 size"].inputs["subsets"].settings["subsets"] == {"long": {"words": [9, None]}}
    changed = inputs(tmp_path, PARTS.replace("9", "8"))
    assert keys(changed, "measurement") != keys(found, "measurement")
    whole = PARTS.replace("{subsets}/test.json", "")
    found, changed = inputs(tmp_path, whole), inputs(tmp_path, whole.replace("9", "8"))
    assert keys(changed, "measurement") == keys(found, "measurement")


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ('"wc {model} {subsets}"', r"expected subsets, which \{subsets\} stands for, found none"),
        ("wc", r"expected a command with \{model\}, found 'wc'"),
    ],
)
def test_a_command_without_a_model_or_subsets_is_refused(tmp_path, command, expected):
    with pytest.raises(InputError, match=f"measurements.size: {expected}"):
        inputs(tmp_path, RECIPE + f"measurements: {{size: {command}}}\n")


@pytest.fixture
def measure(tmp_path, monkeypatch):
    """Return what the step writes where the command prints some lines."""

    def measured(printed: str) -> object:
        def run(*command: str, stdout: Path, **_: object) -> None:
            assert command == ("python", "my size.py", "models/a b/checkpoint.pt", "data/c", "{x}")
            stdout.write_text(printed)

        monkeypatch.setattr(measurements, "run", run)
        of = {"model": Path("models/a b"), "data": Path("data/c")}
        command = {"command": "python 'my size.py' {model}/checkpoint.pt {data} {x}"}
        measurements.measure(step_in(tmp_path, {}, inputs=of, local=command))
        return json.loads((tmp_path / "measured.json").read_text())

    return measured


@pytest.mark.parametrize(
    ("printed", "expected"),
    [("a remark\n3.5\n", 3.5), ('{"depth": 1, "width": -2e3}\n\n', {"depth": 1, "width": -2000})],
)
def test_a_number_or_several_are_read(measure, printed, expected):
    assert measure(printed) == expected


@pytest.mark.parametrize(
    "printed", ["", "3.5\nready", "NaN", "true", '"3"', "[1]", "{}", '{"a": NaN}', "[" * 10**5, f"{10**400}"]
)
def test_everything_else_is_refused(measure, printed):
    with pytest.raises(InputError, match="expected a finite number, or a JSON object of them, as the last line, found"):
        measure(printed)

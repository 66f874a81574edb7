"""Commands of a recipe that measure each trained model: what they depend on, and what they may print."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest
from small_recipe import SMALL, plan_of
from steps_in import step_in

from syntax_data.errors import InputError
from syntax_experiments.steps import measurements

MEASURED = SMALL + 'measurements: {size: "python {here}/size.py {model} {data}"}\n'
PARTS = SMALL + "subsets: {long: {words: [9, ~]}}\n" + 'measurements: {size: "wc {model} {subsets}/test.json"}\n'


def planned(folder: Path, recipe: str, script: str = "1", kind: str = "measurement"):
    """Return the targets of a kind, by name."""
    folder.mkdir(exist_ok=True)
    (folder / "size.py").write_text(script)
    inputs = plan_of(folder, below=recipe).table.inputs
    return {name: of for name, of in inputs.items() if name.startswith(f"{kind} ")}


def keys(*arguments: object, **more: str) -> list[str]:
    return [target.key for target in planned(*arguments, **more).values()]


def test_a_measurement_depends_on_its_model_and_script_and_not_on_the_folder(tmp_path):
    for kind in ("run", "scores"):
        assert keys(tmp_path, SMALL, kind=kind) == keys(tmp_path, MEASURED, kind=kind)
    found, runs = planned(tmp_path, MEASURED), planned(tmp_path, MEASURED, kind="run")
    assert found["measurement gated 2 size"].inputs == {of: runs["run gated 2"].inputs[of] for of in ("model", "data")}
    assert keys(tmp_path / "over there", MEASURED) == keys(tmp_path, MEASURED) != keys(tmp_path, MEASURED, script="2")


def test_here_is_the_folder_of_the_file_that_names_it(tmp_path):
    planned(tmp_path / "the base", MEASURED)
    found = planned(tmp_path / "own", "extends: ../the base/below.yaml\nseeds: [3]\n")["measurement gated 3 size"]
    expected = ["python", str(tmp_path / "the base/size.py"), "{model}", "{data}"]
    assert shlex.split(found.local["command"]) == expected
    assert found.settings["scripts"]


def test_a_measurement_of_parts_depends_on_their_lines(tmp_path):
    found = planned(tmp_path, PARTS)["measurement gated 1 size"]
    assert found.inputs["subsets"].settings["subsets"] == {"long": {"words": [9, None]}}
    assert keys(tmp_path, PARTS) != keys(tmp_path, PARTS.replace("9", "8"))
    whole = PARTS.replace("{subsets}/test.json", "")
    assert keys(tmp_path, whole) == keys(tmp_path, whole.replace("9", "8"))


def test_a_measurement_may_read_translations_text_and_subwords(tmp_path):
    plain = planned(tmp_path, MEASURED)["measurement gated 1 size"]
    for name, kind in (("run", "runs"), ("text", "text"), ("subwords", "subwords")):
        found = planned(tmp_path, MEASURED.replace("{data}", f"{{data}} {{{name}}}/x"))["measurement gated 1 size"]
        assert {**plain.inputs, name: found.inputs[name]} == found.inputs
        assert found.inputs[name].kind == kind


def test_a_measurement_is_told_the_code_of_its_system(tmp_path, monkeypatch):
    asked = MEASURED.replace("{data}", "{data} --user-dir {user_dir}")
    (tmp_path / "own").mkdir()
    found = planned(
        tmp_path, asked.replace("syntax_transformer}", 'syntax_transformer, options: {user-dir: "{here}/own"}}')
    )
    commands = []
    monkeypatch.setattr(
        measurements, "run", lambda *command, stdout, **_: commands.append(command) or stdout.write_text("1")
    )
    for system, expected in {"stock": "fairseq_syntax", "gated": str(tmp_path / "own")}.items():
        of = {"model": Path("m"), "data": Path("d")}
        step = step_in(tmp_path / system, {}, inputs=of, local=found[f"measurement {system} 1 size"].local)
        measurements.measure(step)
        assert commands[-1][2:] == ("m", "d", "--user-dir", expected)


def test_a_measurement_of_a_masked_lm_reads_the_data_bin_of_its_text(tmp_path, monkeypatch):
    commands = []
    monkeypatch.setattr(
        measurements, "run", lambda *command, stdout, **_: commands.append(command) or stdout.write_text("1")
    )
    settings, local = {"task": "masked_lm", "inputs": ["input0"]}, {"command": "x {data}"}
    measurements.measure(step_in(tmp_path, settings, inputs={"data": Path("d")}, local=local))
    assert commands == [("x", "d/input0")]


@pytest.mark.parametrize(
    ("printed", "expected"),
    [
        ("a remark\n3.5\n", 3.5),
        ('{"depth": 1, "width": -2e3}\n\n', {"depth": 1, "width": -2000}),
        *((text, None) for text in ("", "3.5\nready", "NaN", "true", '"3"', "[1]", "{}", '{"a": NaN}', "[" * 10**5)),
        (f"{10**400}", None),
    ],
)
def test_a_number_or_several_are_read_and_everything_else_refused(tmp_path, monkeypatch, printed, expected):
    def run(*command: str, stdout: Path, **_: object) -> None:
        assert command == ("python", "my size.py", "models/a b/checkpoint.pt", "data/c", "{x}")
        stdout.write_text(printed)

    monkeypatch.setattr(measurements, "run", run)
    of = {"model": Path("models/a b"), "data": Path("data/c")}
    step = step_in(tmp_path, {}, inputs=of, local={"command": "python 'my size.py' {model}/checkpoint.pt {data} {x}"})
    if expected is None:
        with pytest.raises(InputError, match="expected a finite number, or a JSON object of them, as the last line"):
            measurements.measure(step)
    else:
        measurements.measure(step)
        assert json.loads((tmp_path / "measured.json").read_text()) == expected

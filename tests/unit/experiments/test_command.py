"""fairseq-syntax-experiment before it makes anything, and how it hands over to Snakemake."""

from __future__ import annotations

import importlib.util
import json
import os
from pathlib import Path

import pytest

from syntax_experiments import entry, workflow
from syntax_experiments.__main__ import main
from syntax_experiments.schema import RECIPES


@pytest.fixture
def commands(tmp_path, monkeypatch) -> list[list[str]]:
    """The command lines of Snakemake, which is not run; the current folder is a new one."""
    found: list[list[str]] = []
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(workflow, "run_snakemake", lambda words: found.append(words) or 0)
    monkeypatch.setattr("syntax_experiments.__main__.refuse_unknown", lambda plan: None)
    return found


def run(*words: str) -> None:
    here = os.getcwd()
    with pytest.raises(SystemExit, match=r"^0$"):
        main(words)
    os.chdir(here)


def test_list_has_every_recipe_with_its_title(capsys):
    with pytest.raises(SystemExit, match=r"^0$"):
        main(["--list"])
    titles = dict(line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines())
    assert list(titles) == sorted(path.stem for path in RECIPES.glob("*.yaml"))
    assert titles["quickstart"] == "Does the parse reach the translation?"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("quickstat", r".*/quickstat\.yaml: .* quickstart, "),
        ("./...yaml", r".*/\.\.\.yaml: expected .* begins with no dot"),  # its folder would be the work directory
        ("my.yaml", r"my: its pictures need matplotlib: .*fairseq-syntax\[analysis\]"),
    ],
)
def test_a_recipe_that_cannot_be_is_refused_before_anything_is_made(commands, monkeypatch, name, message):
    monkeypatch.setattr("syntax_experiments.__main__.find_spec", lambda name: None if name == "matplotlib" else "there")
    Path("...yaml").write_text("extends: quickstart")
    Path("my.yaml").write_text("extends: quickstart\npictures: {systems: [gated]}\n")
    with pytest.raises(SystemExit, match=f"^fairseq-syntax-experiment: error: {message}"):
        main([name])
    assert commands == []


def test_without_the_extra_one_line_says_what_to_install(monkeypatch):
    found = importlib.util.find_spec
    monkeypatch.setattr(entry, "find_spec", lambda name: None if name == "snakemake" else found(name))
    with pytest.raises(SystemExit, match=r"snakemake not installed: pip install 'fairseq-syntax\[experiments\]'$"):
        entry.main()


@pytest.mark.parametrize(
    ("options", "expected", "not_expected", "lock_is_left"),
    [
        ([], ["--cores all", "--logger steps", "--rerun-incomplete"], "--nolock", False),
        (["--verbose"], ["--cores all"], "--logger", False),
        (["--cores", "3"], ["--cores 3"], "all", False),
        (["-j20", "--executor", "slurm"], ["-j20 --executor slurm"], "--cores", False),
        (["--partial"], ["--nolock"], "--keep-going", True),
        (["-n"], ["--quiet host reason", "-n"], "--logger", True),
    ],
)
def test_options_of_snakemake_and_locks_of_a_killed_run(
    commands, tmp_path, options, expected, not_expected, lock_is_left
):
    locks = tmp_path / "experiments/.snakemake/locks"
    locks.mkdir(parents=True)
    run("quickstart", *options)
    (words,) = commands
    assert all(part in " ".join(words) for part in expected)
    assert not_expected not in words
    assert locks.exists() == lock_is_left


def test_specifications_and_links_are_those_of_the_plan_and_nothing_else_is_touched(commands, tmp_path):
    links = tmp_path / "experiments/recipes/quickstart"
    run("quickstart", "-n")
    assert not links.exists(), "a dry run makes no links"
    (path,) = tmp_path.glob("experiments/specs/generated/*.json")
    spec = json.loads(path.read_text())
    assert spec["settings"]["command"].startswith("python {here}/")
    assert spec["local"]["command"].startswith(f"python {RECIPES}/"), "local paths are no part of the key"
    assert (spec["kind"], spec["key"]) == ("generated", path.stem)
    run("quickstart")
    before = {path.name: os.readlink(path) for path in links.iterdir()}
    assert before["table.md"].startswith("../../tables/")
    (links / "old.1234").symlink_to("../../models/old")
    (links / "notes").write_text("mine")
    run("quickstart")
    assert {path.name: os.readlink(path) for path in links.iterdir() if path.is_symlink()} == before
    assert (links / "notes").read_text() == "mine"

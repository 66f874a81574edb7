"""What fairseq-syntax-experiment says before it does anything."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from syntax_experiments import entry
from syntax_experiments.__main__ import main
from syntax_experiments.schema import RECIPES


def test_list_has_every_recipe_with_its_title(capsys):
    with pytest.raises(SystemExit, match=r"^0$"):
        main(["--list"])
    said = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in said] == sorted(path.stem for path in RECIPES.glob("*.yaml"))
    assert "quickstart                  Does the parse reach the translation?" in said


def test_an_unknown_recipe_is_refused_with_those_that_there_are(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit, match=r"^fairseq-syntax-experiment: error: .*/quickstat\.yaml: .* quickstart, "):
        main(["quickstat"])
    assert not list(tmp_path.iterdir())


def test_without_the_extra_one_line_says_what_to_install(monkeypatch):
    found = importlib.util.find_spec
    monkeypatch.setattr(entry, "find_spec", lambda name: None if name == "snakemake" else found(name))
    with pytest.raises(SystemExit, match=r"snakemake not installed: pip install 'fairseq-syntax\[experiments\]'$"):
        entry.main()


def test_a_recipe_with_pictures_says_what_they_need_before_it_makes_anything(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("syntax_experiments.__main__.find_spec", lambda name: None if name == "matplotlib" else "there")
    Path("my.yaml").write_text("extends: quickstart\npictures: {systems: [gated]}\n")
    with pytest.raises(SystemExit, match=r"my: its pictures need matplotlib: .*fairseq-syntax\[analysis\]"):
        main(["my.yaml"])
    assert not list(tmp_path.glob("experiments/*/*"))

"""A small recipe is the recipe: its files, formats and steps; only less of everything."""

from __future__ import annotations

import gzip
import hashlib
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from steps_in import lines_of, step_in

from syntax_experiments import smoke
from syntax_experiments.plan import make_plan
from syntax_experiments.recipe import read_recipe
from syntax_experiments.schema import recipe_names
from syntax_experiments.steps import corpus, downloads

SHIPPED = recipe_names()


@pytest.fixture(autouse=True)
def no_data(monkeypatch):
    monkeypatch.delenv("FAIRSEQ_SYNTAX_DATA", raising=False)


@pytest.mark.parametrize("name", SHIPPED)
def test_every_recipe_becomes_small_and_offline(tmp_path, name):
    recipe = read_recipe(name)
    small = smoke.small(recipe, tmp_path)
    plan = make_plan(small)
    assert {download.url.partition(":")[0] for download in small.corpus.downloads.values()} <= {"file"}
    assert {parser.name for parser in small.parsers.values()} <= {"control", "files"}
    assert 2 <= len(small.systems) <= 4
    assert any(system.parser != "none" for system in small.systems.values())
    with_controls = any(system.control for system in recipe.systems.values())
    assert any(system.control for system in small.systems.values()) == with_controls
    assert len(plan.runs) == len(small.systems) + 2, "two systems have two seeds"
    shown = {system for table in small.of_tables.values() for system in table.systems or small.systems}
    assert shown == small.systems.keys()
    for run in plan.runs.values():
        options = run.inputs["model"].settings["options"]
        assert options["encoder-embed-dim"] == 32
        assert options["max-update"] == 10


@pytest.mark.parametrize(
    ("number", "kept"),
    [
        (1, ["transformer"]),
        (2, ["transformer", "gated"]),
        (3, ["transformer", "gated", "gated_random"]),
        (4, ["transformer", "position", "gated", "gated_random"]),
    ],
)
def test_which_systems_are_kept(tmp_path, number, kept):
    small = smoke.small(read_recipe("iwslt14_de_en"), tmp_path, systems=number)
    assert list(small.systems) == kept
    assert small.systems["transformer"].seeds == ([1, 2] if number > 2 else [1])


@pytest.mark.parametrize(
    ("name", "lines"),
    [
        ("iwslt14_de_en", {"train": 300, "valid": 300, "test": 25}),  # of five test files
        ("nc11_en_de", {"train": 300, "valid": 24, "newstest2016": 24}),
        ("wmt18_en_tr", {"train": 300, "valid": 24, "newstest2017": 24}),
        ("wmt14_en_de", {"train": 300, "valid": 24, "newstest2014": 24}),
        ("multi30k_en_de_raw", {"train": 300, "valid": 24, "test_2016_flickr": 24}),
        ("multi30k_en_fr", {"train": 300, "valid": 24, "test_2016_flickr": 24}),
    ],
)
def test_the_files_are_read_as_the_recipes_own(tmp_path, name, lines):
    small = smoke.small(read_recipe(name), tmp_path)
    plan = make_plan(small)
    (raw,) = (artefact for artefact in plan.artefacts if artefact.kind == "corpus")
    inputs = {}
    for of, artefact in raw.inputs.items():
        inputs[of] = tmp_path / "downloads" / of
        downloads.download(step_in(inputs[of], dict(artefact.settings), places=artefact.places))
    corpus.collect(step_in(tmp_path / "corpus", dict(raw.settings), inputs=inputs, places=raw.places))
    for split, number in lines.items():
        sides = [lines_of(tmp_path / f"corpus/{split}.{side}") for side in (small.source, small.target)]
        assert [len(side) for side in sides] == [number, number]
        assert all(line.endswith(" .") and line[0].isupper() and "<" not in line for side in sides for line in side)
        assert all(len(a.split()) == len(b.split()) and a != b for a, b in zip(*sides, strict=True))


def test_the_same_files_each_time(tmp_path):
    one, again = (smoke.small(read_recipe("nc11_de_en"), tmp_path / n).corpus.downloads for n in ("one", "again"))
    assert [d.sha256 for d in one.values()] == [d.sha256 for d in again.values()]
    for download in one.values():
        data = Path(urlsplit(download.url).path).read_bytes()
        assert (hashlib.sha256(data).hexdigest(), len(data)) == (download.sha256, download.size)


def test_parses_in_files_are_made_of_the_text(tmp_path):
    small = smoke.small(read_recipe("multi30k_en_de"), tmp_path)
    folder = Path(small.corpus.folder)
    text = gzip.decompress((folder / "tok/val.lc.norm.tok.en.gz").read_bytes()).decode().splitlines()
    assert len(lines_of(folder / "parsed/val.en.trees")) == len(text) == 24
    words = [line.split("\t")[1] for line in lines_of(folder / "parsed/val.en.conllu") if line[:1].isdigit()]
    assert words == " ".join(text).split()


def test_a_corpus_of_a_command_is_made_smaller_by_another():
    small = smoke.small(read_recipe("quickstart"), Path("unused"))
    assert "--train 300 " in small.corpus.command

"""A small recipe is the recipe, with less of everything."""

from __future__ import annotations

import pytest

from syntax_experiments import smoke
from syntax_experiments.plan import make_plan
from syntax_experiments.recipe import read_recipe
from syntax_experiments.schema import recipe_names


@pytest.mark.parametrize("name", recipe_names())
def test_every_recipe_becomes_small_and_offline(monkeypatch, name):
    monkeypatch.delenv("FAIRSEQ_SYNTAX_DATA", raising=False)
    recipe = read_recipe(name)
    small = smoke.small(recipe)
    plan = make_plan(small)
    assert not small.corpus.downloads
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


def test_the_systems_that_are_kept():
    kept = {
        1: ["transformer"],
        2: ["transformer", "gated"],
        3: ["transformer", "gated", "gated_random"],
        4: ["transformer", "position", "gated", "gated_random"],
    }
    recipe = read_recipe("iwslt14_de_en")
    assert {number: list(smoke.small(recipe, systems=number).systems) for number in kept} == kept

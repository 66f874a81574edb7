"""A recipe of two systems, whose text would be downloaded; settings of tables."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from syntax_experiments.plan import Plan, make_plan
from syntax_experiments.recipe import Corpus, Recipe, SplitFiles, System, TableOf, read_recipe

SMALL = """\
source: de
target: en
corpus:
  downloads:
    all: {url: "http://localhost/all.tgz"}
  splits:
    train: {source: ["all!train.de"], target: ["all!train.en"]}
    valid: {source: ["all!valid.de"], target: ["all!valid.en"]}
    test: {source: ["all!test.de"], target: ["all!test.en"]}
seeds: [1, 2]
systems:
  stock: {architecture: transformer, parser: none}
  gated: {architecture: gated_syntax_transformer}
baselines: [stock]
"""


def plan_of(folder: Path, above: str = "", *, below: str = SMALL, **options: Any) -> Plan:
    """Plan a recipe, by default the small one, with some YAML above it."""
    folder.mkdir(exist_ok=True)
    (folder / "below.yaml").write_text(below)
    (folder / "above.yaml").write_text(f"extends: below.yaml\n{above}\n")
    return make_plan(read_recipe(str(folder / "above.yaml")), **options)


def settings_of_tables(systems: dict[str, System], *, test: str = "test", **more: Any) -> dict[str, Any]:
    """Settings of the tables of a recipe ``small``, in one table beside the system ``stock``, if there is one."""
    from syntax_experiments.tables import table_settings

    corpus = Corpus(dict.fromkeys(("train", "valid", test), SplitFiles(source=["x"], target=["y"])))
    tables = {"": TableOf([name for name in systems if name == "stock"])}
    given = {"source": "de", "target": "en", "corpus": corpus, "systems": systems, "tables": tables, "name": "small"}
    return table_settings(Recipe(**given, **more))

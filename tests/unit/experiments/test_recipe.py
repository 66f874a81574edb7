"""A recipe is valid, or refused with file and line."""

from __future__ import annotations

import re

import pytest
from fairseq.models import ARCH_MODEL_REGISTRY
from small_recipe import SMALL

import fairseq_syntax  # noqa: F401  (its architectures)
from syntax_data.errors import InputError
from syntax_experiments.plan import make_plan
from syntax_experiments.recipe import read_recipe
from syntax_experiments.schema import recipe_names

SHIPPED = recipe_names()


def write(folder, text, name="small.yaml"):
    (folder / name).write_text(text, encoding="utf-8")
    return str(folder / name)


def test_labels_that_can_stand_alone(tmp_path):
    systems = """systems:
  plain: {architecture: transformer, parser: none}
  slr: {label: "`slr`", architecture: gated_syntax_transformer, options: &slr {syntax-masks: slr}}
  sdoi: {label: "`sdoi`", architecture: gated_syntax_transformer, options: &sdoi {syntax-masks: sdoi}}
  slr_flat: {label: … flat, architecture: gated_syntax_transformer, options: *slr, control: flat}
  slr_random: {label: … random, architecture: gated_syntax_transformer, options: *slr, control: random}
  sdoi_random: {label: … random, architecture: gated_syntax_transformer, options: *sdoi, control: random}
  sdoi_top: {label: … on top, architecture: gated_syntax_transformer, options: {<<: *sdoi, syntax-layers: top}}
"""
    start, end = SMALL.index("systems:"), SMALL.index("baselines:")
    text = (SMALL[:start] + systems + SMALL[end:]).replace("baselines: [stock]", "baselines: [plain]")
    assert list(read_recipe(write(tmp_path, text)).full_labels.values()) == [
        "plain", "`slr`", "`sdoi`", "`slr`, flat", "`slr`, random", "`sdoi`, random", "`sdoi`, on top",
    ]  # fmt: skip
    twice = text.replace("… random, architecture", "… flat, architecture")
    with pytest.raises(InputError, match=r"systems\.slr_random\.label: expected another than that of slr_flat"):
        read_recipe(write(tmp_path, twice))


@pytest.mark.parametrize(
    ("old", "new", "line", "message"),
    [
        ("seeds:", "sedes:", 10, "found 'sedes'"),
        ("{architecture: transformer, parser: none}", "{architectur: transformer}", 12, "found 'architectur'"),
        ("seeds: [1, 2]", "seeds: [1, two]", 10, "expected seeds: an integer, found 'two'"),
        ("seeds: [1, 2]", "seeds: 1", 10, "expected seeds: a list"),
        ("seeds: [1, 2]", "seeds: [1, 2]\nseeds: [3]", 11, "expected each key once"),
        ("seeds: [1, 2]", "score: {lowercase: maybe}", 10, "expected score.lowercase: true or false"),
        ("seeds: [1, 2]", "title: 7", 10, "expected title: a string, found 7"),
        ("baselines: [stock]", "baselines: [stick]", 1, "found 'stick'"),
        ("baselines: [stock]", "compared: [BELU]", 1, "compared: expected one of BLEU, chrF2, TER"),
        ("baselines: [stock]", "compared: [tokenised BLEU]", 1, "found 'tokenised BLEU'"),  # which nobody scores
        (
            "baselines: [stock]",
            "primary: {metric: BELU, comparisons: {gated: [stock]}}",
            1,
            "primary.metric: expected one",
        ),
        ("baselines: [stock]", "primary: {metric: BLEU, comparisons: {gated: [stick]}}", 1, "found 'stick'"),
        ("seeds: [1, 2]", "primary: {metric: BLEU, comparisons: {gated: [gated]}}", 10, "expected systems with other"),
        ("baselines: [stock]", "equivalence: {BELU: 1}", 1, "equivalence: expected one of BLEU"),
        ("seeds: [1, 2]", "equivalence: {BLEU: 0}", 1, "equivalence.BLEU: expected a difference above 0, found 0"),
        ("baselines: [stock]", "measurements: {size: wc}", 1, "measurements.size: expected a command with {model}"),
        ("baselines: [stock]", "measurements: {n: '{model} {subsets}'}", 1, "measurements.n: expected subsets"),
        ("seeds: [1, 2]", "score: {metrics: {BLEU: 'x {hypotheses}'}}", 10, "metrics.BLEU: expected another name"),
        ("seeds: [1, 2]", "score: {metrics: {own: 'echo 1'}}", 10, "metrics.own: expected a command with {hypotheses}"),
        ("seeds: [1, 2]", "score: {bootstrap: 0}", 10, "expected at least 1 sample"),
        ("seeds: [1, 2]", "score: {tests: [valid]}", 1, "score.tests: expected the first of test, found valid"),
        ("source: de\n", "", 1, "expected source in the recipe, found none"),
        ('train: {source: ["all!', 'train: {source: ["al!', 3, "expected a download before the ! of 'al!train.de'"),
        ("train: {", "train: {format: csv, ", 7, "expected one of lines, iwslt, seg, tmx, found 'csv'"),
        ("train: {", "train: {keep_every: 1, ", 7, "drop_every: expected a number of at least 2"),
        ("seeds: [1, 2]", "text: {words: [1]}", 10, "words: expected two numbers"),
        ("seeds: [1, 2]", "seeds: [1, 2", 11, "expected YAML"),
        ("seeds: [1, 2]", "train: {x: !!binary aGVsbG8=}", 10, "the tag 'tag:yaml.org,2002:binary'"),
        ("seeds: [1, 2]", "title: !foo bar", 10, "the tag '!foo'"),
        ("seeds: [1, 2]", f"seeds: [{'1' * 5000}]", "", "Exceeds the limit"),
        ("seeds: [1, 2]", "train: &own {x: *own}", "", "expected fewer levels"),
        ("seeds: [1, 2]", f"train: {{x: {'[' * 5000}{']' * 5000}}}", "", "expected fewer levels"),
        ("seeds: [1, 2]", "bounds: {x: {BLEU: 1" + "0" * 400 + "}}", 10, "expected bounds.x.BLEU: a number"),
        ("seeds: [1, 2]", "extends: small.yaml", 10, "small.yaml, which extends this one"),
        ("seeds: [1, 2]", "extends: [small.yaml]", 10, "extends: expected a file or a recipe's name"),
        ("seeds: [1, 2]", "extends: none.yaml", 10, "extends: expected a file, found no file at "),
    ],
)
def test_an_invalid_recipe_is_refused_with_its_place(tmp_path, old, new, line, message):
    assert old in SMALL
    path = write(tmp_path, SMALL.replace(old, new, 1))
    with pytest.raises(InputError, match=f"^{re.escape(path)}:?{line}: .*{re.escape(message)}"):
        read_recipe(path)


def test_dates_are_strings_and_mappings_are_merged(tmp_path):
    text = SMALL.replace("seeds: [1, 2]", "title: 2020-13-45\ntrain: {<<: [{a: 1}, {a: 2, b: 3}], b: 2020-11-12}")
    recipe = read_recipe(write(tmp_path, text))
    assert recipe.title == "2020-13-45"
    assert recipe.train == {"a": 1, "b": "2020-11-12"}


def test_a_recipe_extends_another_or_one_of_the_package(tmp_path):
    write(tmp_path, SMALL)
    above = "extends: small.yaml\nseeds: [7]\nsystems:\n  gated: {control: random}\n  stock: ~\nbaselines: ~\n"
    recipe = read_recipe(write(tmp_path, above, "above.yaml"))
    assert (recipe.seeds, list(recipe.systems), recipe.tests) == ([7], ["gated"], ["test"])
    of_gated = recipe.systems["gated"]
    assert (of_gated.architecture, of_gated.control, of_gated.parser) == ("gated_syntax_transformer", "random", None)
    recipe = read_recipe(write(tmp_path, "extends: quickstart\nseeds: [7]\n", "own.yaml"))
    assert (recipe.name, recipe.seeds) == ("own", [7])
    assert recipe.systems == read_recipe("quickstart").systems
    with pytest.raises(InputError, match=r"own\.yaml:1: extends: expected a file, .*recipes/quickstat\.yaml"):
        read_recipe(write(tmp_path, "extends: quickstat\n", "own.yaml"))


def test_a_mistake_is_placed_in_the_file_that_has_it(tmp_path):
    below = write(tmp_path, SMALL.replace("seeds: [1, 2]", "seeds: [1, two]"))
    with pytest.raises(InputError, match=f"^{re.escape(below)}:10: "):
        read_recipe(write(tmp_path, "extends: small.yaml\ntitle: above\n", "above.yaml"))
    write(tmp_path, SMALL)
    above = write(tmp_path, "extends: small.yaml\ntitel: above\n", "above.yaml")
    with pytest.raises(InputError, match=f"^{re.escape(above)}:2: .*'titel'"):
        read_recipe(above)
    above, below = write(tmp_path, "extends: b.yaml", "a.yaml"), write(tmp_path, "#\nextends: a.yaml", "b.yaml")
    with pytest.raises(InputError, match=f"^{re.escape(below)}:2: .*{re.escape(above)}, which extends this one"):
        read_recipe(above)


@pytest.mark.parametrize("name", SHIPPED)
def test_our_recipes_are_valid(name):
    recipe = read_recipe(name)
    ours = [system for system in recipe.systems.values() if "user-dir" not in system.options]
    assert {system.architecture for system in ours} <= ARCH_MODEL_REGISTRY.keys()
    assert all(re.fullmatch("[0-9a-f]{64}", d.sha256) for d in recipe.corpus.downloads.values() if d.sha256)
    for split in recipe.corpus.splits.values():
        assert len(split.source) == len(split.target)
    if recipe.corpus.folder is None and recipe.pretrained is None:  # no files of this machine
        plan = make_plan(recipe)
        assert len(plan.runs) == sum(len(system.seeds or recipe.seeds) for system in recipe.systems.values())


#: By the beginning of published rows' labels.
ARCHITECTURES = {
    "SLA": "sla_transformer",
    "PASCAL": "pascal_transformer",
    "LISA": "lisa_transformer",
    "SG-Net": "sg_net_transformer",
    "syntax-infused": "syntax_infused_transformer",
}
WITH_PAPERS = [name for name in SHIPPED if read_recipe(name).published]


@pytest.mark.parametrize("name", WITH_PAPERS)
def test_systems_whose_published_numbers_are_printed_are_trained_beside_a_control(name):
    recipe = read_recipe(name)
    named = {of for of in ARCHITECTURES for label in recipe.published if label.startswith(of)}
    assert named
    for of in named:
        trained = {n: s for n, s in recipe.systems.items() if s.architecture.startswith(ARCHITECTURES[of])}
        (of_paper,) = (n for n, s in trained.items() if not s.control and not s.options)
        assert of_paper in trained
        # The same but for its parses, or for what it takes of them.
        assert any((s.control or s.options) and s.train == trained[of_paper].train for s in trained.values())
        shown = [set(table.systems) for table in recipe.tables.values() if of_paper in table.systems]
        assert any(names & trained.keys() - {of_paper} for names in shown), "beside its control"
        assert any("transformer" in n for names in shown for n in names - trained.keys()), "beside a stock Transformer"


@pytest.mark.parametrize("name", WITH_PAPERS)
def test_published_numbers_and_settings_are_the_papers(name):
    """Their BLEU is not of our kind; locking epochs of Hou 2024 count updates, so a step has as many tokens."""
    recipe = read_recipe(name)
    published = [*recipe.published.values(), *(s.published for s in recipe.systems.values())]
    assert all(metric != "BLEU" for numbers in published for metric in numbers)
    assert recipe.score.tokenized
    assert recipe.train["max-tokens"] * recipe.train["update-freq"] == 16384

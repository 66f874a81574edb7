"""A changed option makes anew what it concerns, and nothing else."""

from __future__ import annotations

import pytest

from harness.plan import make_plan
from harness.recipe import read_recipe

BASE = """\
source: de
target: en
corpus:
  downloads:
    all: {url: "http://localhost/all.tgz", sha256: "00"}
  splits:
    train: {source: ["all!train.de"], target: ["all!train.en"]}
    valid: {source: ["all!valid.de"], target: ["all!valid.en"]}
    test: {source: ["all!test.de"], target: ["all!test.en"]}
parsers: {stanza: {name: stanza, options: {lang: de}}}
systems:
  stock: {architecture: transformer, parser: none}
  gated: {architecture: gated_syntax_transformer}
baselines: [stock]
"""
RUN = {"runs", "scores", "comparisons", "tables"}
TRAINED = {"models", *RUN}
TOKENS = {"subwords", "tokens", "data", *TRAINED}
TEXT = {"text", "parses", "subsets", *TOKENS}
RAW = {"corpus", *TEXT}


@pytest.fixture
def plan_of(tmp_path):
    """Plans the base, with some YAML above it."""
    (tmp_path / "base.yaml").write_text(BASE)

    def plan(above):
        (tmp_path / "above.yaml").write_text(f"extends: base.yaml\n{above}\n")
        return make_plan(read_recipe(str(tmp_path / "above.yaml")))

    return plan


@pytest.mark.parametrize(
    ("above", "made_anew"),
    [
        ("", set()),
        ("threads: {text: 7, train: 3}", set()),
        ("title: another", {"tables"}),
        ("published: {a paper's: {BLEU: 30}}", {"tables"}),
        ("subsets: {long: {words: [10, ~]}}", {"subsets", "scores", "tables"}),
        ("score: {lowercase: true}", {"scores", "comparisons", "tables"}),
        ("score: {detokenize: false}", RUN),
        ("generate: {beam: 4}", RUN),
        ("train: {lr: 1}", TRAINED),
        ("average: 5", TRAINED),
        ("subwords: {size: 100}", TOKENS),
        ("subwords: {size: 10000, joint: true}", set()),  # the defaults, said
        ("text: {lowercase: true}", TEXT),
        ("text: {words: [1, 80]}", TEXT),
        ("corpus: {splits: {train: {but_every: 23}}}", TEXT),
        ("corpus: {splits: {valid: {limits: false}}}", TEXT),
        ("corpus: {splits: {train: {format: tmx}}}", RAW),
        ("corpus: {splits: {train: {replace: {a: b}}}}", RAW),
        ('corpus: {downloads: {all: {sha256: "01"}}}', {"downloads", *RAW}),
        ('corpus: {downloads: {all: {url: "http://elsewhere/all.tgz"}}}', set()),  # of this hash, it is the same
        ('corpus: {downloads: {all: {mirrors: ["http://elsewhere/all.tgz"], size: 3}}}', set()),
        ("parsers: {stanza: {options: {lang: en}}}", {"parses", "subsets", "data", *TRAINED}),
        ("parsers: {stanza: {options: {download: true, stanza-dir: /models}}}", set()),
        ("parsers: {stanza: {shards: 3}}", {"shards"}),  # the parses are the same
        ("select: {train: {lines: 10}}", {"selections", "selected", "subsets", *TOKENS}),
    ],
)
def test_what_a_change_makes_anew(plan_of, above, made_anew):
    before = {artefact.path for artefact in plan_of("").artefacts}
    assert {artefact.kind for artefact in plan_of(above).artefacts if artefact.path not in before} == made_anew


@pytest.mark.parametrize(
    ("above", "concerned"),
    [
        ("systems: {gated: {options: {syntax-masks: slr}}}", {("gated", 1)}),
        ("systems: {gated: {control: random}}", {("gated", 1)}),
        ("systems: {gated: {label: another}}", set()),
        ("systems: {stock: {train: {lr: 1}}}", {("stock", 1)}),
        ("systems: {again: {architecture: transformer, parser: none}}", set()),  # the same run by another name
        ("seeds: [1, 2]", {("stock", 2), ("gated", 2)}),
        ("seeds: [3]", {("stock", 3), ("gated", 3)}),
        ("parsers: {stanza: {options: {lang: en}}}", {("gated", 1)}),
        ("train: {lr: 1}", {("stock", 1), ("gated", 1)}),
    ],
)
def test_which_runs_a_change_concerns(plan_of, above, concerned):
    before = {run.path for run in plan_of("").runs.values()}
    assert {at for at, run in plan_of(above).runs.items() if run.path not in before} == concerned


def test_recipes_share_what_they_have_in_common(plan_of):
    runs = plan_of("systems: {again: {architecture: transformer, parser: none}}").runs
    assert runs["again", 1].path == runs["stock", 1].path


def test_made_of_comes_first(plan_of):
    artefacts = plan_of("").artefacts
    places = {artefact.path: place for place, artefact in enumerate(artefacts)}
    assert all(places[of.path] < places[a.path] for a in artefacts for of in a.inputs.values())
    assert artefacts[-1].kind == "tables"

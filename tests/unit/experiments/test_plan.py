"""A changed option makes anew what it concerns, and nothing else."""

from __future__ import annotations

import dataclasses
import gzip
import os
from importlib.metadata import PackageNotFoundError

import pytest

from syntax_data.errors import InputError
from syntax_experiments.plan import Artefact, make_plan
from syntax_experiments.recipe import read_recipe

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
        ("score: {tokenized: true}", RUN),
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


def test_another_test_set_trains_and_parses_nothing_anew(plan_of):
    def made(plan, kind):
        return {artefact.path for artefact in plan.artefacts if artefact.kind == kind}

    base = plan_of("")
    more = plan_of('corpus: {splits: {more: {source: ["all!more.de"], target: ["all!more.en"]}}}')
    assert made(more, "models") == made(base, "models")
    assert made(more, "parses") > made(base, "parses")
    assert not made(more, "runs") & made(base, "runs")
    elsewhere = plan_of(
        """corpus:
  downloads: {other: {url: "http://localhost/other.tgz"}}
  splits: {more: {source: ["other!more.de"], target: ["other!more.en"]}}"""
    )
    assert made(elsewhere, "models") == made(base, "models")
    assert made(elsewhere, "parses") > made(base, "parses")


def test_how_a_local_file_is_packed_does_not_matter(tmp_path, plan_of):
    def plan(changed: int):
        for split in ("train", "valid", "test"):
            for language in ("de", "en"):
                with gzip.GzipFile(tmp_path / f"{split}.{language}.gz", "wb", mtime=changed) as file:
                    file.write(b"a line\n")
        os.utime(tmp_path / "train.de.gz", (changed, changed))
        files = ", ".join(f"{s}: {{source: [{s}.de.gz], target: [{s}.en.gz]}}" for s in ("train", "valid", "test"))
        return plan_of(f"corpus: {{downloads: ~, folder: {tmp_path}, splits: {{{files}}}}}")

    first = plan(1)
    before = (tmp_path / "train.de.gz").read_bytes()
    second = plan(2)
    assert (tmp_path / "train.de.gz").read_bytes() != before
    assert [a.path for a in second.artefacts] == [a.path for a in first.artefacts]


def test_each_seed_may_have_a_control_of_its_own(plan_of):
    plan = plan_of('seeds: [1, 2]\nsystems: {gated: {control: "random@{seed}"}}')
    data = {seed: plan.runs["gated", seed].inputs["data"] for seed in (1, 2)}
    assert [data[seed].settings["control"] for seed in (1, 2)] == ["random@1", "random@2"]
    assert data[1].path != data[2].path


def test_without_stanza_a_recipe_that_parses_by_it_says_what_to_install(plan_of, monkeypatch):
    def no_version(package):
        raise PackageNotFoundError(package)

    monkeypatch.setattr("syntax_experiments.plan.version", no_version)
    with pytest.raises(InputError, match=r"above: .*stanza.*pip install 'fairseq-syntax\[stanza\]'"):
        plan_of("")


def test_what_something_that_is_there_was_made_of_is_not_needed(plan_of):
    plan = plan_of("")
    models = [Artefact("models", {"n": n}) for n in range(2)]
    runs = [Artefact("runs", {"n": n}, {"model": model}) for n, model in enumerate(models)]
    table = Artefact("tables", {}, {f"run {n}": run for n, run in enumerate(runs)})
    plan = dataclasses.replace(plan, table=table, pictures=None)
    assert plan.artefacts == [models[0], runs[0], models[1], runs[1], table]
    assert plan.needed({runs[0].path}) == [models[1], runs[1], table]

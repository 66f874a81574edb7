"""A changed option makes again what it concerns, and nothing else."""

from __future__ import annotations

import gzip
from functools import partial
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest
import small_recipe

from syntax_data.errors import InputError

PARSER = "parsers: {stanza: {name: stanza, options: {lang: de}}}"
BASE = small_recipe.SMALL.replace('all.tgz"', 'all.tgz", sha256: "00"').replace("seeds: [1, 2]", PARSER)
RUN = {"runs", "scores", "comparisons", "tables"}
TRAINED = {"models", *RUN}
TOKENS = {"subwords", "tokens", "data", *TRAINED}
TEXT = {"text", "parses", "subsets", *TOKENS}
RAW = {"corpus", *TEXT}


@pytest.fixture
def plan_of(tmp_path):
    return partial(small_recipe.plan_of, tmp_path, below=BASE)


def paths(plan, kind=""):
    return {target.path for target in plan.targets if target.path.startswith(kind)}


@pytest.mark.parametrize(
    ("above", "made_again"),
    [
        ("", set()),
        ("threads: {text: 7, parse: 3, train: 3}", set()),
        ("title: another", {"tables"}),
        ("published: {a paper's: {BLEU: 30}}", {"tables"}),
        ("subsets: {long: {words: [10, ~]}}", {"subsets", "scores", "tables"}),
        ("score: {lowercase: true}", {"scores", "comparisons", "tables"}),
        ("score: {detokenize: false}", RUN),
        ("score: {tokenized: true}", RUN),
        ("generate: {beam: 4}", RUN),
        ("train: {lr: 1}", TRAINED),
        ("average: 5", TRAINED),
        ("keep_epochs: true", TRAINED),
        ("subwords: {size: 100}", TOKENS),
        ("subwords: {size: 10000, joint: true}", set()),  # the defaults, said
        ("text: {words: [1, 80]}", TEXT),
        ("corpus: {splits: {train: {drop_every: 23}}}", TEXT),
        ("corpus: {splits: {valid: {limits: false}}}", TEXT),
        ("corpus: {splits: {train: {replace: {a: b}}}}", RAW),
        ('corpus: {downloads: {all: {sha256: "01"}}}', {"downloads", *RAW}),
        # A file of this hash is the same at every address.
        ('corpus: {downloads: {all: {url: "http://elsewhere/all.tgz", mirrors: ["http://x/all.tgz"]}}}', set()),
        ("parsers: {stanza: {options: {lang: en}}}", {"parses", "subsets", "data", *TRAINED}),
        ("parsers: {stanza: {options: {download: true, stanza-dir: /models}}}", set()),
        ("select: {train: {lines: 10}}", {"selections", "selected", "parses", "subsets", *TOKENS}),
        ("select: {train: {height: [3, ~]}}", {"selections", "selected", "subsets", *TOKENS}),
    ],
)
def test_a_change_makes_again(plan_of, above, made_again):
    before = paths(plan_of())
    assert {target.kind for target in plan_of(above).targets if target.path not in before} == made_again


def test_a_test_set_for_measurements_is_neither_translated_nor_scored(plan_of):
    split = "{source: [all!test.de], target: [all!test.en]}"
    plan = plan_of(f"corpus: {{splits: {{pairs: {split}}}}}\nscore: {{tests: [test]}}")
    tests = {target.kind: target.settings["tests"] for target in plan.targets if "tests" in target.settings}
    assert tests == {kind: ["test", "pairs"] for kind in ("subsets", "tokens", "data")} | {
        kind: ["test"] for kind in ("runs", "scores", "comparisons", "tables")
    }


@pytest.mark.parametrize(
    ("above", "concerned"),
    [
        ("systems: {gated: {options: {syntax-masks: slr}}}", {("gated", 1)}),
        ("systems: {gated: {control: random}}", {("gated", 1)}),
        ("systems: {gated: {label: another}}", set()),
        ("systems: {again: {architecture: transformer, parser: none}}", set()),  # the same run by another name
        ("seeds: [1, 3]", {("stock", 3), ("gated", 3)}),
        ("parsers: {stanza: {options: {lang: en}}}", {("gated", 1)}),
    ],
)
def test_runs_that_a_change_concerns(plan_of, above, concerned):
    before = {run.path for run in plan_of().runs.values()}
    assert {at for at, run in plan_of(above).runs.items() if run.path not in before} == concerned


@pytest.mark.parametrize("select", ["", "select: {train: {words: [3, ~]}}\n", "select: {train: {height: [3, ~]}}\n"])
@pytest.mark.parametrize("archive", ["all", "other"])
def test_another_test_set_trains_and_parses_nothing_again(plan_of, select, archive):
    above = f"""corpus:
  downloads: {{other: {{url: "http://localhost/other.tgz"}}}}
  splits: {{more: {{source: ["{archive}!more.de"], target: ["{archive}!more.en"]}}}}"""
    base, more = plan_of(select), plan_of(select + above)
    assert paths(more, "models/") == paths(base, "models/")
    assert paths(more, "parses/") > paths(base, "parses/")
    assert not paths(more, "runs/") & paths(base, "runs/")


@pytest.mark.parametrize(("measure", "parsed"), [("words", "selected"), ("height", "text")])
def test_only_selected_lines_are_parsed_unless_their_parses_select(plan_of, measure, parsed):
    plan = plan_of(f"select: {{train: {{{measure}: [3, ~]}}}}")
    assert {target.inputs["text"].kind for target in plan.targets if target.kind == "parses"} == {parsed}
    others = paths(plan_of(), "parses/") - paths(plan, "parses/")
    assert len(others) == (parsed == "selected")  # the parses of the other splits are the same


def test_how_a_local_file_is_packed_does_not_matter(tmp_path, plan_of):
    def plan(changed: int):
        folder = tmp_path / str(changed)
        folder.mkdir()
        for name in (f"{split}.{language}.gz" for split in ("train", "valid", "test") for language in ("de", "en")):
            with gzip.GzipFile(folder / name, "wb", mtime=changed) as file:
                file.write(b"a line\n")
        files = ", ".join(f"{s}: {{source: [{s}.de.gz], target: [{s}.en.gz]}}" for s in ("train", "valid", "test"))
        return plan_of(f"corpus: {{downloads: ~, folder: {folder}, splits: {{{files}}}}}")

    assert paths(plan(1)) == paths(plan(2))
    assert len({(tmp_path / f"{changed}/train.de.gz").read_bytes() for changed in (1, 2)}) == 2


def test_each_seed_may_have_a_control_of_its_own(plan_of):
    plan = plan_of('seeds: [1, 2]\nsystems: {gated: {control: "random@{seed}"}}')
    data = {seed: plan.runs["gated", seed].inputs["data"] for seed in (1, 2)}
    assert [data[seed].settings["control"] for seed in (1, 2)] == ["random@1", "random@2"]
    assert data[1].path != data[2].path


def test_a_system_with_a_control_of_the_test_is_another_ones_model_on_other_parses(plan_of):
    swapped = '{architecture: gated_syntax_transformer, test_control: "shuffled@{seed}"}'
    plan = plan_of(f'seeds: [1, 2]\nsystems: {{swapped: {swapped}}}\nmeasurements: {{size: "wc {{model}} {{data}}"}}')
    for seed in (1, 2):
        trained, tested = plan.runs["gated", seed], plan.runs["swapped", seed]
        assert trained.inputs["model"].path == tested.inputs["model"].path
        assert trained.path != tested.path
        assert tested.inputs["data"].settings["control"] == f"shuffled@{seed}"
        assert plan.table.inputs[f"measurement swapped {seed} size"].inputs["data"] == tested.inputs["data"]
    with pytest.raises(InputError, match=r"above\.yaml:2: systems\.swapped: .*expected .*found"):
        plan_of("systems: {swapped: {architecture: x, test_control: none@x}}")


def test_code_of_a_system_counts_by_its_content_and_not_by_where_it_is(tmp_path, plan_of):
    def run(folder: str, code: str):
        (tmp_path / folder).mkdir(exist_ok=True)
        (tmp_path / folder / "__init__.py").write_text(code)
        return plan_of(f'systems: {{gated: {{options: {{user-dir: "{{here}}/{folder}"}}}}}}').runs["gated", 1]

    here, there, other = run("here", "1"), run("there", "1"), run("here", "2")
    assert here.inputs["model"].settings["code"] == there.inputs["model"].settings["code"]
    assert here.inputs["model"].key != other.inputs["model"].key
    for target in (there, there.inputs["model"]):
        assert target.local["options"] == {"user-dir": str(tmp_path / "there")}


def test_options_find_the_model_of_subwords_wherever_it_is_made(plan_of):
    run = plan_of('systems: {sampled: {architecture: transformer, options: {subword-model: "{subwords}/codes"}}}').runs[
        "sampled", 1
    ]
    model = run.inputs["model"]
    assert model.settings["options"]["subword-model"] == "{subwords}/codes"
    subwords = model.inputs["data"].inputs["subwords"]
    assert model.local["options"] == {"subword-model": f"{subwords.path}/codes"}


def test_data_of_words_has_no_parses(plan_of):
    systems = "{words: {architecture: word_position_transformer, parser: words}}"
    found = plan_of(f"systems: {systems}").runs["words", 1].inputs["data"]
    assert found.inputs.keys() == {"tokens", "subwords"}
    assert found.settings["features"] == "word,case,position"
    assert found.label == "data-bin, words"


def test_a_partial_plan_has_the_runs_that_are_made(tmp_path, monkeypatch, plan_of):
    monkeypatch.chdir(tmp_path)
    above = 'measurements: {size: "wc {model}"}'
    made = plan_of(above).runs["gated", 1]
    Path(made.path).mkdir(parents=True)
    Path(made.path, "metadata.json").touch()
    partial = plan_of(above, partial=True)
    assert partial.runs == {("gated", 1): made}
    assert list(partial.table.inputs) == ["run gated 1", "scores gated 1", "text", "subsets"]


def test_without_stanza_a_recipe_that_parses_by_it_says_what_to_install(plan_of, monkeypatch):
    def no_version(package):
        raise PackageNotFoundError(package)

    monkeypatch.setattr("syntax_experiments.plan.version", no_version)
    with pytest.raises(InputError, match=r"above: .*stanza.*pip install 'fairseq-syntax\[stanza\]'"):
        plan_of()


@pytest.mark.parametrize(
    ("above", "key"),
    [
        ("corpus: {downloads: ~, folder: $NOWHERE/data}", "corpus.folder"),
        ("parsers: {stanza: {options: {stanza-dir: $NOWHERE}}}", "parsers.stanza.options.stanza-dir"),
    ],
)
def test_a_variable_that_is_not_set_is_refused_at_its_place(plan_of, above, key):
    splits = ", ".join(f"{split}: {{source: [x.de], target: [x.en]}}" for split in ("train", "valid", "test"))
    above = above.replace("folder:", f"splits: {{{splits}}}, folder:")
    with pytest.raises(InputError, match=rf"above\.yaml:2: {key}: expected a variable .*, found \$NOWHERE"):
        plan_of(above)

"""Recipes of classifiers: what a change makes again, what is refused, their steps and their tables."""

from __future__ import annotations

import json
import re
import shutil
from functools import partial
from random import Random

import pytest
import small_recipe
from fairseq.data.encoders.gpt2_bpe_utils import bytes_to_unicode
from steps_in import step_in

pytest.importorskip("pandas")

from syntax_data.errors import InputError
from syntax_experiments.corpora import attachment
from syntax_experiments.make import read_lines
from syntax_experiments.recipe import SplitFiles, System
from syntax_experiments.results import read_results, write_results
from syntax_experiments.steps import corpus, data, parses, predictions, runs, selection, subwords, table
from syntax_experiments.tables import Tables

TEXTS = ("input0", "input1", "label")
BASE = """\
task: sentence_prediction
source: en
corpus:
  folder: FOLDER
  splits:
    train: {input0: [train.input0], input1: [train.input1], label: [train.label]}
    valid: {input0: [valid.input0], input1: [valid.input1], label: [valid.label]}
    test: {input0: [test.input0], input1: [test.input1], label: [test.label]}
parsers: {given: {name: files, kinds: [trees], files: {train: train, valid: valid, test: "valid,test"}}}
subwords: {kind: wordpiece, dictionary: $FOLDER/dict.txt}
pretrained: $FOLDER/model.pt
train: {num-classes: 2}
systems:
  stock: {architecture: roberta, parser: none}
  gated: {architecture: gated_syntax_roberta, control: "shuffled@{seed}"}
baselines: [stock]
"""
OF_QUESTIONS = "{input0: ~, input1: ~, label: ~, questions: [x.json]}"
SPANS = f"""task: span_prediction
corpus: {{splits: {{train: {OF_QUESTIONS}, valid: {OF_QUESTIONS}, test: {OF_QUESTIONS}}}}}
"""
MASKED = "task: masked_lm\ncorpus: {splits: {train: LM, valid: LM, test: LM}}\n".replace(
    "LM", "{input0: [x], input1: ~, label: ~}"
)
RANKING = "task: sentence_ranking\ncorpus: {splits: {train: {input2: [x]}}}\n"
RUN = {"predictions", "predictions_scored", "predictions_compared", "tables"}
TRAINED = {"models", *RUN}
TOKENS = {"tokens", "data", *TRAINED}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    made = tmp_path / "texts"
    made.mkdir()
    for split in ("train", "valid", "test"):
        for text in TEXTS:
            (made / f"{split}.{text}").write_text(f"the {split} {text}\nanother line\n")
        for text in TEXTS[:2]:
            (made / f"{split}.{text}.trees").write_text(f"(S (NP the {split}) {text})\n(S another line)\n")
    (made / "dict.txt").write_text("the 1\ntest 1\n")
    (made / "model.pt").write_text("weights")
    monkeypatch.setenv("FOLDER", str(made))
    return made


@pytest.fixture
def plan_of(tmp_path, folder):
    return partial(small_recipe.plan_of, tmp_path, below=BASE.replace("FOLDER", str(folder), 1))


@pytest.mark.parametrize(
    ("above", "made_again"),
    [
        ("", set()),
        ("title: another", {"tables"}),
        ("train: {lr: 1}", TRAINED),
        ("train: {regression-target: true}", TOKENS),
        ("pretrained: ~", TRAINED),
        ("score: {ignored_label: 'no'}", RUN - {"predictions"}),
        ('subwords: {markers: "m,n"}', {"subwords", *TOKENS}),
        ("select: {train: {drop_every: 2}}", {"selections", "selected", "subsets", "subwords", *TOKENS}),
        ("corpus: {splits: {train: {input1: [valid.input1]}}}", {"corpus", "parses", "subsets", "subwords", *TOKENS}),
    ],
)
def test_a_change_makes_again(plan_of, above, made_again):
    before = {target.path for target in plan_of().targets}
    assert {target.kind for target in plan_of(above).targets if target.path not in before} == made_again


@pytest.mark.parametrize("file", ["model.pt", "dict.txt", "test.input1.trees"])
def test_content_of_files_counts_and_not_where_they_are(plan_of, folder, monkeypatch, file):
    before = {run.path for run in plan_of().runs.values()}
    for place, text, same in (("there", (folder / file).read_text(), True), ("elsewhere", "another 1\n", False)):
        there = shutil.copytree(folder, folder.with_name(place))
        (there / file).write_text(text)
        monkeypatch.setenv("FOLDER", str(there))
        found = {run.path for run in plan_of(f"corpus: {{folder: {there}}}").runs.values()}
        assert (found == before) == same


@pytest.mark.parametrize(
    ("above", "message"),
    [
        ("target: de", "target: expected none for sentence_prediction, found 'de'"),
        ("corpus: {splits: {train: {keep_every: 2}}}", "corpus.splits.train.keep_every: expected none .*found 2"),
        ("generate: {beam: 5}", "generate: expected none for sentence_prediction"),
        (
            "corpus: {splits: {test: {label: ~}}}",
            "corpus.splits.test: expected input0, input1, label .*found input0, in",
        ),
        (
            "corpus: {splits: {test: {source: [x]}}}",
            "corpus.splits.test: expected input0, input1, label .*found source",
        ),
        ("subwords: {dictionary: ~}", "kind wordpiece: expected dictionary beside it, found none"),
        ("subwords: {kind: gpt2}", "kind gpt2: expected encoder beside it, found none"),
        (
            "subwords: {markers: a}\nparsers: {given: ~, s: {name: stanza}}",
            r"parsers\.s: expected files, of text without",
        ),
        ("subwords: {kind: sentencepiece, markers: a}", "markers: expected kind wordpiece or none"),
        ("compared: [BLEU]", "compared: expected one of accuracy, MCC, F1.* found 'BLEU'"),
        ("task: span_prediction", "corpus.splits.train: expected questions for span_pred.*found input0, input1, label"),
        ("corpus: {splits: {train: {input2: [x]}}}", "corpus.splits.train: expected input0, input1, label for sent"),
        ("task: sentence_ranking", "corpus.splits.train: expected input0, and at least the options input1 and input2"),
        (
            "task: sentence_ranking\ncorpus: {splits: {train: {input1: ~, input2: [x], input3: [x]}}}",
            "corpus.splits.train: expected input0, and at least .*, found input0, input2, input3",
        ),
        (f"{RANKING}train: {{num-classes: 3}}", "train.num-classes: expected 2, as there are options, found 3"),
        (RANKING, "corpus.splits.valid: expected input0, input1, input2, label for sentence_ranking"),
        (f"{RANKING.replace('train', 'valid')}", "corpus.splits.train: expected input0, and at least the options"),
        (f"{SPANS}score: {{ignored_label: x}}", "score.ignored_label: expected none for span_prediction, found 'x'"),
        (f"{SPANS}train: {{regression-target: true}}", "train.regression-target: expected none for span_prediction"),
        (f"{SPANS}subwords: {{kind: sentencepiece}}", "subwords.kind: expected one of none, wordpiece, gpt2, found"),
        (f"{SPANS}select: {{train: {{lines: 2}}}}", "select: expected none for span_prediction"),
        (SPANS.replace("x.json", "x.json, y.json"), "corpus.splits.train: questions: expected one file, found 2"),
        ("task: masked_lm", "corpus.splits.train: expected input0 for masked_lm, found input0, input1, label"),
        (f"{MASKED}subsets: {{long: {{words: [9, ~]}}}}", "subsets: expected none for masked_lm"),
        (f"{MASKED}compared: [MCC]", "compared: expected one of accuracy, valid_loss, found 'MCC'"),
        (f"{SPANS}compared: [accuracy]", "compared: expected one of exact match, F1.* found 'accuracy'"),
    ],
)
def test_a_key_that_a_task_does_not_have_is_refused(plan_of, above, message):
    with pytest.raises(InputError, match=rf"above\.yaml:.*{message}"):
        plan_of(above)


def test_a_translation_needs_both_languages_and_learned_subwords(tmp_path):
    for old, new, message in [
        ("target: en\n", "", "expected target in the recipe, found none"),
        ("seeds:", "subwords: {kind: wordpiece, dictionary: x}\nseeds:", "subwords.kind: expected one that is learned"),
    ]:
        with pytest.raises(InputError, match=message):
            small_recipe.plan_of(tmp_path, below=small_recipe.SMALL.replace(old, new))


SETTINGS = {"inputs": ["input0", "input1"], "tests": ["test"]}


def test_texts_and_parses_of_each_input_are_collected_and_selected(tmp_path, folder):
    files = {text: [f"train.{text}", f"test.{text}"] for text in TEXTS}
    assert SplitFiles(**files).files == [name for of in files.values() for name in of]
    local = {"folder": str(folder)}
    corpus.collect(step_in(tmp_path / "text", {**SETTINGS, "splits": {"train": files}}, local=local))
    assert read_lines(tmp_path / "text/train.label") == [
        "the train label",
        "another line",
        "the test label",
        "another line",
    ]
    settings = {**SETTINGS, "split": "train", "lang": "en", "kinds": ["trees"], "files": "train,test"}
    parses.parse(step_in(tmp_path / "parses", settings, local=local))
    assert read_lines(tmp_path / "parses/train.input1.trees")[2] == "(S (NP the test) input1)"
    select = {**SETTINGS, "select": {"train": {"drop_every": 3}}}
    inputs = {"text": tmp_path / "text", "parses": tmp_path / "parses", "lines": tmp_path / "lines"}
    selection.choose(step_in(tmp_path / "lines", select, inputs=inputs))
    assert json.loads((tmp_path / "lines/train.json").read_text()) == [0, 1, 3]
    for what in ("text", "parses"):
        chosen = {**select, "what": what, "split": "train"}
        selection.select(step_in(tmp_path / f"selected_{what}", chosen, inputs=inputs))
    assert read_lines(tmp_path / "selected_text/train.input1") == ["the train input1", "another line", "another line"]
    kept = read_lines(tmp_path / "selected_parses/train.input0.trees")
    assert kept == ["(S (NP the train) input0)", "(S another line)", "(S another line)"]


def test_questions_are_collected_and_answers_scored(tmp_path):
    made = attachment.make_task(Random(1), segments=1, train=4, held_out=2)
    attachment.write(tmp_path / "raw", "test", made["train"], kind="spans")
    settings = {"inputs": ["passage", "question"], "task": "span_prediction", "tests": ["test"]}
    splits = {"splits": {"test": {"questions": ["test.json"]}}}
    corpus.collect(step_in(tmp_path / "text", {**settings, **splits}, local={"folder": str(tmp_path / "raw")}))
    examples = [question.segments[0] for question in made["train"]]
    passages = [" ".join(example.source()) for example in examples]
    assert read_lines(tmp_path / "text/test.passage") == passages
    assert len(read_lines(tmp_path / "text/test.question")) == 1
    right = {f"test-{i}": attachment.belongs_to(example) for i, example in enumerate(examples)}
    other = right | {"test-1": "the"}
    one, two, text = (tmp_path / name for name in ("one", "two", "text"))
    inputs = {"text": text, "system": one, "baseline": two}
    for name, answers in (("one", right), ("two", other)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "test.answers.json").write_text(json.dumps(answers))
    asked = {**settings, "score": {"kind": "answer", "ignored_label": None}}
    predictions.score(step_in(tmp_path / "scores", asked, inputs={"text": text, "run": two}))
    (found,) = json.loads((tmp_path / "scores/scores.json").read_text())
    assert {name: of["score"] for name, of in found["metrics"].items()} == {"exact match": 75, "F1": 75}
    predictions.compare_runs(step_in(tmp_path / "compared", asked, inputs=inputs))
    (found,) = json.loads((tmp_path / "compared/comparison.json").read_text())
    assert found["metrics"]["exact match"]["difference"] == 25
    assert found["metrics"]["exact match"]["mcnemar"]["p"] == 1


def test_pairs_are_collected_and_the_more_probable_lines_scored(tmp_path, folder):
    settings = {"inputs": ["input0"], "task": "masked_lm", "tests": ["test"]}
    splits = {"splits": {"test": {"input0": ["test.input0", "train.input0"]}}}
    corpus.collect(step_in(tmp_path / "text", {**settings, **splits}, local={"folder": str(folder)}))
    assert read_lines(tmp_path / "text/test.input0")[::2] == ["the test input0", "the train input0"]
    assert not (tmp_path / "text/test.label").exists()
    for text, message in (("a\nb\nc\n", "expected pairs of lines, .* found 3 lines in test"), ("a\n\n", ":2: .*empty")):
        (folder / "train.input0").write_text(text)
        with pytest.raises(InputError, match=message):
            corpus.collect(step_in(tmp_path / "text", {**settings, **splits}, local={"folder": str(folder)}))
    scored = {"system": [-1.5, -2, -3, -2], "baseline": [-1.0000001, -1.0000002, -9, -8], "cut": [-1, -2, -3]}
    for name, numbers in scored.items():
        (tmp_path / name).mkdir()
        lines = [f"{i}\t{number}\n" for i, number in enumerate(numbers)]
        (tmp_path / name / "test.tsv").write_text("".join(["id\tprediction\n", *reversed(lines)]))
    (tmp_path / "subsets").mkdir()
    (tmp_path / "subsets/test.json").write_text("{}")
    inputs = {name: tmp_path / name for name in ("system", "baseline", "subsets")}
    asked = {**settings, "score": {"kind": "pair", "ignored_label": None}}
    predictions.score(step_in(tmp_path / "scores", asked, inputs=inputs | {"run": tmp_path / "system"}))
    (found,) = json.loads((tmp_path / "scores/scores.json").read_text())
    assert found["metrics"]["accuracy"]["score"] == 50
    predictions.compare_runs(step_in(tmp_path / "compared", asked, inputs=inputs))
    (found,) = json.loads((tmp_path / "compared/comparison.json").read_text())
    assert found["metrics"]["accuracy"]["difference"] == 50
    with pytest.raises(InputError, match="expected pairs of lines, found 2 without 3"):
        predictions.score(step_in(tmp_path / "cut_scores", asked, inputs=inputs | {"run": tmp_path / "cut"}))


def test_of_every_second_line_and_the_others(tmp_path):
    (tmp_path / "train.input0").write_text("".join(f"{i}\n" for i in range(7)))
    found = []
    for asked in ({"keep_every": 3}, {"drop_every": 3}):
        step = step_in(tmp_path / "lines", {**SETTINGS, "select": {"train": asked}}, inputs={"text": tmp_path})
        selection.choose(step)
        found.append(json.loads((tmp_path / "lines/train.json").read_text()))
    assert found == [[2, 5], [0, 1, 3, 4, 6]]


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ({"kind": "none", "markers": "[m]"}, "A café. [m] cat"),
        ({"kind": "wordpiece", "markers": "[m]"}, "a cafe . [m] [UNK]"),
        ({"kind": "gpt2"}, "32 257 69 127 102 13 220 58 76 60 257 83"),
    ],
)
def test_subwords_of_inputs(tmp_path, asked, expected):
    text, files = tmp_path / "text", {}
    text.mkdir()
    for name in ("train.input0", "train.input1", "test.input0", "test.input1"):
        (text / name).write_text("A café. [m] cat\n")
    if asked["kind"] != "none":
        letters = {letter: i for i, letter in enumerate([*bytes_to_unicode().values(), "Ġc", "Ġca"])}
        (tmp_path / "encoder").write_text(json.dumps(letters))
        (tmp_path / "merges").write_text("#version: 0.2\nĠ c\nĠc a\n")
        (tmp_path / "dictionary").write_text("a 1\ncafe 1\n. 1\n[m] 1\n")
        files = {name: str(tmp_path / name) for name in ("encoder", "merges", "dictionary")}
    settings = {**SETTINGS, "subwords": asked}
    subwords.split(step_in(tmp_path / "subwords", settings, inputs={"text": text}, local={"files": files}))
    assert read_lines(tmp_path / "subwords/test.input1") == [expected]
    counted = ["A 2", "café. 2", "[m] 2", "cat 2"]  # of train's inputs
    given = read_lines(tmp_path / "dictionary") if files else counted
    assert read_lines(tmp_path / "subwords/dict.txt") == given


@pytest.mark.parametrize("regression", [False, True])
def test_data_bins_of_inputs_and_labels(tmp_path, folder, monkeypatch, regression):
    commands = []
    monkeypatch.setattr(data, "run", lambda *words, log: commands.append(list(map(str, words))))
    inputs = {
        name: tmp_path / name for name in ("subwords", "tokens", "parses of train", "parses of valid", "parses of test")
    }
    settings = {**SETTINGS, "joint": True, "regression": regression}
    data.preprocess(step_in(tmp_path / "tokens", settings, inputs=inputs | {"text": folder}))
    assert [words[words.index("--destdir") + 1].rpartition("/")[2] for words in commands] == (
        ["input0", "input1"] if regression else ["input0", "input1", "label"]
    )
    assert f"{tmp_path}/subwords/test.input1" == commands[1][commands[1].index("--testpref") + 1]
    if regression:
        assert read_lines(tmp_path / "tokens/label/test.label") == ["the test label", "another line"]
    commands.clear()
    for name in TEXTS:
        (tmp_path / "tokens" / name).mkdir(exist_ok=True)
        (tmp_path / "tokens" / name / "test.idx").touch()
    settings = {**SETTINGS, "control": "flat", "subwords": "gpt2", "markers": "a,b"}
    data.binarize(step_in(tmp_path / "data", settings, inputs=inputs, local={"encoder": "encoder.json"}))
    assert all((tmp_path / "data" / name / "test.idx").exists() for name in TEXTS)
    (first, second), more = commands, ["--control", "flat", "--markers", "a,b", "--gpt2-encoder-json", "encoder.json"]
    assert " ".join(more) in " ".join(first)
    assert second[second.index("--validparse") + 1] == f"{tmp_path}/parses of valid/valid.input1"
    assert "--only-source" in first
    commands.clear()
    data.binarize(step_in(tmp_path / "words", {**settings, "features": "word"}, inputs=inputs, local={"encoder": "x"}))
    assert "--features word" in " ".join(commands[0])
    assert "--validparse" not in commands[0]


HEADER = "id\tprediction\tgold\tlogit no\tlogit yes\n"
GOLD = ["yes", "yes", "no", "no", "yes"]
PREDICTED = {"system": ["yes", "yes", "no", "no", "no"], "baseline": ["no", "no", "no", "no", "yes"]}


@pytest.fixture
def predicted(tmp_path):
    for name, labels in PREDICTED.items():
        (tmp_path / name).mkdir()
        lines = [f"{i}\t{label}\t{gold}\t0.5\t-1\n" for i, (label, gold) in enumerate(zip(labels, GOLD, strict=True))]
        (tmp_path / name / "test.tsv").write_text(HEADER + "".join(lines))
    (tmp_path / "subsets").mkdir()
    (tmp_path / "subsets/test.json").write_text('{"last": [3, 4]}')
    return {name: tmp_path / name for name in (*PREDICTED, "subsets")}


def test_scores_and_mcnemars_test(tmp_path, predicted):
    settings = {**SETTINGS, "score": {"kind": "label", "ignored_label": "no"}}
    predictions.score(step_in(tmp_path / "scores", settings, inputs=predicted | {"run": predicted["system"]}))
    whole, last = json.loads((tmp_path / "scores/scores.json").read_text())
    found = {name: round(of["score"], 4) for name, of in whole["metrics"].items()}
    # Of no and yes 2 + 0 and 1 + 2 predictions are right + wrong: MCC = (2·2 − 0·1) / √(2·3·3·2).
    assert found == {"accuracy": 80, "MCC": 66.6667, "precision": 100, "recall": 66.6667, "F1": 80}
    assert whole["metrics"]["F1"]["signature"] == "micro, without no"
    assert (last["subset"], last["metrics"]["accuracy"]["score"]) == ("last", 50)
    predictions.compare_runs(step_in(tmp_path / "compared", settings, inputs=predicted))
    ((of_test),) = json.loads((tmp_path / "compared/comparison.json").read_text())
    # Two are right in the system alone, one in the baseline alone: p = 2·(1 + 3)/2³, at most 1.
    accuracy = of_test["metrics"]["accuracy"]
    assert (accuracy["difference"], accuracy["mcnemar"]["p"]) == (pytest.approx(20), 1)


def test_predictions_of_each_test_set(tmp_path, monkeypatch):
    commands = []
    monkeypatch.setattr(runs, "run", lambda *words, log, threads: commands.append(words) or log.write_text(""))
    monkeypatch.setattr(runs, "read_training", lambda log: {"code": ["11"]})
    inputs = {name: tmp_path / name for name in ("data", "model")}
    settings, local = {**SETTINGS, "tests": ["one", "two"]}, {"system": "gated", "seed": 1}
    runs.predict(step_in(tmp_path / "run", settings, inputs=inputs, local=local))
    assert [(words[0], words[5], words[7]) for words in commands] == [
        ("fairseq-syntax-predict", "test", tmp_path / "run/one.tsv"),
        ("fairseq-syntax-predict", "test1", tmp_path / "run/two.tsv"),
    ]
    assert json.loads((tmp_path / "run/run.json").read_text())["tests"] == ["one", "two"]


ABOUT = {"recipe": "small", "code": "11", "versions": "torch 2.7.0", "device": "a CPU"}
ACCURACY = {"stock": [50.0, 52.0], "gated": [60.0, 61.0]}
SYSTEMS = {name: System("roberta", label=name) for name in ACCURACY}
OF_TABLE = small_recipe.settings_of_tables(SYSTEMS, seeds=[1, 2]) | {"compared": ["accuracy"]}
MARKDOWN = """\
### test, against stock

| system | Δ accuracy [95%] | p | McNemar |
| gated | +9.50 [+3.15, +15.85] | 0.033 | +1 of 2 |

### Notes
"""


def test_a_table_of_mcnemars_tests(tmp_path):
    rows = [
        {**ABOUT, "system": name, "seed": seed, "test": "test", "metric": "accuracy", "value": value, "signature": "%"}
        for name, values in ACCURACY.items()
        for seed, value in enumerate(values, start=1)
    ]
    compared = [
        {**ABOUT, "system": "gated", "baseline": "stock", "seed": seed, "test": "test", "metric": "accuracy"}
        | {"difference": difference, "mcnemar": p, "mcnemar_signature": "McNemar"}
        for seed, difference, p in ((1, 10.0, 0.04), (2, 9.0, 0.06))
    ]
    write_results(tmp_path, table=rows, comparisons=compared, epochs=[])
    found = Tables(read_results(tmp_path), OF_TABLE).markdown()
    folded = re.sub(r" +", " ", re.sub(r"\|[:-][-:|]+\|\n", "", found))
    assert MARKDOWN in folded
    assert "Within a seed: McNemar's exact test, in how many of the seeds" in folded
    assert "bootstrap" not in folded
    for row in compared:
        del row["mcnemar"]
    write_results(tmp_path, comparisons=compared)
    with pytest.raises(InputError, match=r"comparisons\.csv:2: expected p of bootstrap or randomisation or mcnemar"):
        read_results(tmp_path)


def test_predictions_are_kept_beside_the_table(tmp_path, predicted):
    record = {"parameters": 7, "updates": 1, "words_per_second": 1.0, "hours": 0.1, "valid_loss": 1.0, "epochs": []}
    record |= {"device": "a CPU", "tests": ["test"], "gates_never_trained": False, "versions": {"code": "11"}}
    (predicted["system"] / "run.json").write_text(json.dumps(record))
    settings = small_recipe.settings_of_tables({"gated": SYSTEMS["gated"]})
    import pandas as pd

    pairs = "id\tprediction\n0\t-1.5\n1\t-2\n"
    for text, column, expected in ((None, "gold", PREDICTED["system"]), (pairs, "line", [-1.5, -2])):
        if text is not None:
            (predicted["system"] / "test.tsv").write_text(text)
        table.write(step_in(tmp_path / column, settings, inputs={"run gated 1": predicted["system"]}))
        kept = pd.read_csv(tmp_path / column / "predictions.csv.xz")
        assert kept.columns.tolist() == ["test", column, "gated 1"]
        assert kept["gated 1"].tolist() == expected

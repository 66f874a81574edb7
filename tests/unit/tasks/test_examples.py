"""Batches of classification and ranking: fairseq's own, with features composed as the tokens are."""

from __future__ import annotations

import json
from argparse import Namespace
from types import SimpleNamespace

import pytest
import torch
from fairseq.data import data_utils
from fairseq.tasks.sentence_prediction import SentencePredictionConfig, SentencePredictionTask
from fairseq.tasks.sentence_ranking import SentenceRankingTask
from omegaconf import OmegaConf

import data_bins
import example_bins
from fairseq_syntax.data.composition import Segment, compose
from fairseq_syntax.modules.numerics import UNKNOWN
from fairseq_syntax.tasks.syntax_sentence_prediction import (
    SyntaxSentencePredictionConfig,
    SyntaxSentencePredictionTask,
)
from fairseq_syntax.tasks.syntax_sentence_ranking import SyntaxSentenceRankingConfig, SyntaxSentenceRankingTask
from syntax_data.errors import InputError

FEATURES = ("word", "head", "distance", "upos")
TOKENS = {"init_token": 0, "separator_token": 2}
CRITERION = {"regression_target": False, "classification_head_name": "head"}


@pytest.fixture(scope="module")
def pairs(tmp_path_factory):
    """Two texts, whose labels of parts of speech are numbered differently."""
    return example_bins.examples(tmp_path_factory.mktemp("pairs"))


@pytest.fixture(scope="module")
def choices(tmp_path_factory):
    """A context and three options."""
    return example_bins.examples(tmp_path_factory.mktemp("choices"), 4)


def prediction(data, *, features=FEATURES, **options):
    given = {"num_classes": 2, "seed": 1, "valid_subset": "valid", "train_subset": "train", "tpu": False, **CRITERION}
    config = SyntaxSentencePredictionConfig(data=str(data), **{**given, **TOKENS, **options})
    task = SyntaxSentencePredictionTask.setup_task(config)
    task.syntax_features = set(features)
    return task


def ranking(data, *, features=FEATURES, **options):
    given = {"num_classes": 3, "seed": 1, "valid_subset": "valid", "train_subset": "train", "tpu": False}
    config = SyntaxSentenceRankingConfig(data=str(data), dataset_impl=None, **{**given, **TOKENS, **options})
    task = SyntaxSentenceRankingTask.setup_task(config)
    task.syntax_features = set(features)
    return task


def stock_prediction(data, **options):
    given = {"data": str(data), "num_classes": 2, "seed": 1, **CRITERION, **TOKENS, **options}
    return SentencePredictionTask.setup_task(SentencePredictionConfig(**given))


def stock_ranking(data, **options):
    given = {
        "num_classes": 3, "seed": 1, "no_shuffle": False, "shorten_method": "none", "shorten_data_split_list": "",
        "max_option_length": None, "dataset_impl": None, "max_positions": 512, "criterion": "sentence_ranking",
    }  # fmt: skip
    return SentenceRankingTask.setup_task(Namespace(data=str(data), **{**given, **TOKENS, **options}))


def batches(task, split="valid"):
    task.load_dataset(split)
    data = task.dataset(split)
    return [data.collater([data[i] for i in some]) for some in data.batch_by_size(data.ordered_indices(), None, 5)]


def lines(data, name, split="valid"):
    """Tokens and features of a text, as they are in its folder."""
    read = [
        data_utils.load_indexed_dataset(f"{data}/{name}/{split}{f}", None) for f in ("", *(f".{f}" for f in FEATURES))
    ]
    labels = json.loads((data / name / "syntax.json").read_text())["labels"]["upos"]
    found = []
    for i, row in enumerate(read[0]):
        features = {feature: rows[i] for feature, rows in zip(FEATURES, read[1:], strict=True)}
        found.append((row, features, [labels[number] for number in features["upos"]]))
    return found


def without_syntax(batch):
    return {
        key: {name: value for name, value in part.items() if name != "src_syntax"} if isinstance(part, dict) else part
        for key, part in batch.items()
    }


SHORTENED = [{}, {"shorten_method": "truncate", "max_positions": 9}, {"truncate_to": 6}, {"no_shuffle": True}]


def stock_options(options):
    """Options of fairseq's that mean the same."""
    others = {name: value for name, value in options.items() if name != "truncate_to"}
    cut = {"shorten_method": "truncate", "max_positions": options["truncate_to"]} if "truncate_to" in options else {}
    return {**others, **cut}


@pytest.mark.parametrize(("made", "folder"), [(prediction, "pairs"), (ranking, "choices")])
def test_batches_by_length_have_all_examples_and_less_padding(request, made, folder):
    data = request.getfixturevalue(folder)
    sorted_widths, widths = (
        [max(part["src_tokens"].shape[1] for name, part in batch.items() if "input" in name) for batch in made_so]
        for made_so in (batches(made(data, batch_by_length=True)), batches(made(data)))
    )
    ids = [i for batch in batches(made(data, batch_by_length=True)) for i in batch["id"].tolist()]
    assert sorted(ids) == list(range(12))
    assert sorted_widths == sorted(sorted_widths)
    assert sum(sorted_widths) < sum(widths)


@pytest.mark.parametrize("options", [*SHORTENED, {"init_token": None, "separator_token": None}], ids=str)
@pytest.mark.parametrize("features", [FEATURES, ()], ids=["features", "none"])
def test_batches_of_prediction_are_fairseqs_and_features_those_of_the_example(pairs, options, features):
    task = prediction(pairs, features=features, **options)
    stock = stock_prediction(pairs, **stock_options(options))
    stock.load_dataset("valid")
    texts, names = [lines(pairs, name) for name in ("input0", "input1")], task.label_vocabulary("upos")
    found = batches(task)
    assert sorted(i for batch in found for i in batch["id"].tolist()) == list(range(12))
    for batch in found:
        expected = stock.dataset("valid")
        torch.testing.assert_close(
            without_syntax(batch), dict(expected.collater([expected[i] for i in batch["id"]])), rtol=0, atol=0
        )
        if not features:
            assert "src_syntax" not in batch["net_input"]
            continue
        syntax, sizes = batch["net_input"]["src_syntax"], batch["net_input"]["src_lengths"].tolist()
        for row, (i, size) in enumerate(zip(batch["id"].tolist(), sizes, strict=True)):
            before = [int(task.cfg.init_token is not None), int(task.cfg.separator_token is not None)]
            renumbered = [
                {**of_line, "upos": torch.tensor([names.index(label) for label in labels])}
                for _, of_line, labels in (text[i] for text in texts)
            ]
            segments = [Segment(f, len(f["word"]), n) for f, n in zip(renumbered, before, strict=True)]
            for name, values in compose(segments, size).items():
                assert syntax[name][row, :size].tolist() == values.tolist()
                assert (syntax[name][row, size:] == UNKNOWN).all()


@pytest.mark.parametrize(
    "options", [*SHORTENED, {"max_option_length": 4}, {"max_option_length": 4, "truncate_to": 6}], ids=str
)
@pytest.mark.parametrize("context_first", [False, True])
def test_batches_of_ranking_are_fairseqs_or_have_the_context_first(choices, options, context_first):
    task = ranking(choices, context_first=context_first, **options)
    stock = stock_ranking(choices, **stock_options(options))
    stock.load_dataset("valid")
    contexts, *others = [lines(choices, f"input{k}") for k in range(4)]
    expected = stock.dataset("valid")
    for batch in batches(task):
        if not context_first:
            same = dict(expected.collater([expected[i] for i in batch["id"]]))
            torch.testing.assert_close(without_syntax(batch), same, rtol=0, atol=0)
        for k, option in enumerate(others, start=1):
            net_input = batch[f"net_input{k}"]
            for row, i in enumerate(batch["id"].tolist()):
                n, most = int(net_input["src_lengths"][row]), options.get("max_option_length")
                texts = [contexts[i], option[i]] if context_first else [option[i], contexts[i]]
                cut = [None, most] if context_first else [most, None]
                rows = [
                    torch.cat([torch.tensor([t]), text[0]])[:m] for t, text, m in zip((0, 2), texts, cut, strict=True)
                ]
                assert net_input["src_tokens"][row, :n].tolist() == torch.cat(rows)[:n].tolist()
                assert net_input["src_tokens"][row, n:].eq(1).all()
                segments = [Segment(text[1], len(text[0]), 1, m) for text, m in zip(texts, cut, strict=True)]
                composed = compose(segments, n)
                for name in ("word", "head", "distance", "special"):
                    assert net_input["src_syntax"][name][row, :n].tolist() == composed[name].tolist()


def test_labels_of_parses_are_numbered_by_name(pairs):
    first, second = (
        json.loads((pairs / name / "syntax.json").read_text())["labels"]["upos"] for name in ("input0", "input1")
    )
    assert first != second
    task = prediction(pairs)
    assert task.label_vocabulary("upos")[: len(first)] == first
    assert set(task.label_vocabulary("upos")) == {*first, *second}


def model_options(**more):
    return SimpleNamespace(
        _name="seprem_roberta", arch="seprem_roberta", encoder_layers=1, encoder_embed_dim=8, encoder_ffn_embed_dim=8,
        encoder_attention_heads=2, **more,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, None),
        ({"init_token": None}, "--init-token: no example begins with <s>, which heads read by default; give 0"),
        ({"separator_token": None}, "--separator-token: only </s> is between the two sentences of an example; give 2"),
        ({"num_classes": 3}, "--num-classes 3: there are 2 labels"),
    ],
)
def test_options_that_are_seldom_wanted_are_warned_of(pairs, caplog, options, message):
    prediction(pairs, **options).build_model(Namespace(**vars(model_options())))
    assert [r.getMessage() for r in caplog.records if r.levelname == "WARNING"] == ([message] if message else [])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"init_token": 5}, r"--init-token: expected 0, which is <s>.*found 5, which is b"),
        ({"separator_token": 0}, r"--separator-token: expected 2, which is </s>.*found 0, which is <s>"),
        ({"shorten_method": "random_crop"}, "--shorten-method: expected none or truncate"),
        ({"d2v2_multi": True}, "--d2v2-multi: expected without it"),
        ({"add_prev_output_tokens": True}, "--add-prev-output-tokens: expected without it"),
        ({"truncate_to": 513}, "--truncate-to: expected from 1 to --max-positions 512, found 513"),
        ({"truncate_to": 0}, "--truncate-to: expected from 1"),
    ],
)
def test_options_that_features_do_not_know_are_refused(pairs, options, message):
    with pytest.raises(ValueError, match=message):
        prediction(pairs, **options).load_dataset("valid")
    if "truncate_to" not in options:
        prediction(pairs, features=(), **options).load_dataset("valid")


def test_all_sentences_to_choose_from_are_used(choices):
    with pytest.raises(ValueError, match=r"--num-classes: expected the number of sentences .*, found also \S*input3"):
        ranking(choices, num_classes=2)


def test_the_criterion_of_ranking_has_its_options_defaults_by_hydra(choices):
    """fairseq-hydra-train gives a criterion the keys of its file alone."""
    task = ranking(choices)
    criterion = task.build_criterion(OmegaConf.create({"_name": "sentence_ranking"}))
    found = criterion.ranking_head_name, criterion.num_classes, criterion.prediction_h
    assert found == ("sentence_classification_head", 3, None)
    named = task.build_criterion(OmegaConf.create({"_name": "sentence_ranking", "ranking_head_name": "choice"}))
    assert named.ranking_head_name == "choice"


def test_context_first_needs_both_tokens(choices):
    with pytest.raises(ValueError, match="--context-first: expected --init-token and --separator-token beside it"):
        ranking(choices, context_first=True, separator_token=None).load_dataset("valid")


def broken(tmp_path, break_it):
    data = example_bins.examples(tmp_path / "data", number=4, splits=["valid"])
    break_it(data)
    return data


SENTENCES = {"valid": data_bins.sentences(4, words=3)}


@pytest.mark.parametrize(
    ("break_it", "message"),
    [
        (
            lambda data: example_bins.text(data / "input1", {"valid": SENTENCES["valid"][:3]}),
            r"input1/valid: expected 4 lines, as \S*/input0 has, found 3",
        ),
        (
            lambda data: example_bins.text(data / "input1", SENTENCES, "--control", "flat"),
            r"input1/syntax\.json: expected for valid the settings of \S*input0/syntax\.json, control: None, found fl",
        ),
        (
            lambda data: example_bins.text(data / "input1", SENTENCES, "--parser-name", "other"),
            r"input1/syntax\.json: expected for valid the parser of",
        ),
        (
            lambda data: (data / "input1/dict.txt").write_text("b 1\na 1\n"),
            r"input1/dict\.txt: expected the symbols of \S*input0/dict\.txt, found others",
        ),
        (lambda data: (data / "input1/valid.idx").unlink(), r"input1/valid\.\{bin,idx\}: expected tokens, found none"),
        (
            lambda data: example_bins.tokens(data / "input1", "valid", SENTENCES["valid"]),
            r"input1/valid\.bin: expected \d+ bytes, as in the signature, found 32",
        ),
        (lambda data: (data / "input1/valid.head.idx").unlink(), r"--only-source --validpref TEXT"),
        (
            lambda data: example_bins.tokens(data / "label", "valid", ["no", "yes no", "yes", "no"], ["no", "yes"]),
            r"label/valid:2: expected one label, found 2; 1 lines differ",
        ),
        (
            lambda data: example_bins.tokens(data / "label", "valid", ["no", "yes", "maybe", "no"], ["no", "yes"]),
            r"label/valid:3: expected a label of \S*label/dict\.txt, found another one \(<unk>\)",
        ),
        (
            lambda data: example_bins.tokens(data / "label", "valid", ["no", "yes"], ["no", "yes"]),
            r"label/valid: expected a label for each line of text, found 2 fewer",
        ),
    ],
)
def test_inputs_and_labels_that_do_not_fit_each_other_are_refused(tmp_path, break_it, message):
    with pytest.raises((InputError, FileNotFoundError), match=message):
        prediction(broken(tmp_path, break_it)).load_dataset("valid")


@pytest.mark.parametrize(
    ("task", "labels", "message"),
    [
        (ranking, "0\n3\n0\n0\n", r"label/valid\.label:2: expected an option from 0 to 2, found '3'"),
        (ranking, "0\n1\n", r"label/valid\.label: expected 4 lines, as the texts have, found 2"),
        (prediction, "0.5\n1 2\n0\n0\n", r"label/valid\.label:2: expected 1 numbers, found '1 2'"),
        (prediction, "0.5\nx\n0\n0\n", r"label/valid\.label:2: expected 1 numbers, found 'x'"),
        (prediction, "0\n0\nnan\n0\n", r"label/valid\.label:3: expected 1 numbers, found 'nan'"),
    ],
)
def test_lines_of_labels_are_checked(tmp_path, task, labels, message):
    data = example_bins.examples(tmp_path / "data", 4, number=4, splits=["valid"])
    (data / "label/valid.label").write_text(labels)
    options = {"num_classes": 1, "regression_target": True} if task is prediction else {}
    with pytest.raises(InputError, match=message):
        task(data, **options).load_dataset("valid")


def test_scores_that_need_integers_are_refused_before_training(pairs):
    given = {**CRITERION, "report_mcc": True, "report_acc_and_f1": False, "report_pearson_and_spearman": False}
    criterion = OmegaConf.create({"_name": "sentence_prediction", **given})
    with pytest.raises(ValueError, match=r"--report-mcc.*expected labels that are integers, found no yes in"):
        prediction(pairs).build_criterion(criterion)
    with pytest.raises(ValueError, match=r"--num-classes: expected at least 2, .*found 1"):
        prediction(pairs, num_classes=1).build_model(Namespace(**vars(model_options())))


def test_an_example_whose_marker_is_absent_or_cut_off_is_refused(tmp_path):
    """c is a marker: at the third place of each example, but for the last."""
    data = example_bins.examples(tmp_path / "data", 1, number=3, splits=["valid"])
    example_bins.text(data / "input0", {"valid": ["a c b", "b c", "a b"]})
    options = Namespace(**vars(model_options(pooling="markers", markers="c")))
    for changed, message in (
        ({}, r"expected the marker c among the 4 tokens of example 2 of valid .*; 1 markers are absent"),
        (
            {"truncate_to": 2},
            r"expected the marker c among the 2 tokens of example 0 of valid .*; 3 markers are absent",
        ),
    ):
        task = prediction(data, **changed)
        task.build_model(options)
        with pytest.raises(InputError, match=message):
            task.load_dataset("valid")
    example_bins.text(data / "input0", {"valid": ["a c b", "b c", "a c"]})
    task.cfg.truncate_to = 3
    task.load_dataset("valid")

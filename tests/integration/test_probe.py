"""Probes of our models and of stock ones."""

from __future__ import annotations

import json
import shutil
import sys

import numpy as np
import pytest
import torch

import commands
from syntax_experiments.probing.entry import main
from syntax_experiments.probing.sentences import Sentence
from syntax_experiments.probing.states import encoder_layers, means_of_words, states_of

TASKS = ["depth", "top-constituents", "bigram-shift", "distance", "head"]


@pytest.fixture(scope="module")
def ours(data_bin, tmp_path_factory):
    folder = tmp_path_factory.mktemp("ours")
    commands.train(data_bin, folder, "--max-update=3", "--syntax-masks=slr,sdoi", "--dropout=0.3")
    return folder / "checkpoint_last.pt"


@pytest.fixture(scope="module")
def stock(plain_data_bin, tmp_path_factory):
    """Trained without the plugin's task, as fairseq does it."""
    folder = tmp_path_factory.mktemp("stock")
    commands.train(plain_data_bin, folder, "--max-update=3", "--task", "translation", model=commands.STOCK)
    return folder / "checkpoint_last.pt"


def run(data, path, output, *more, split="train"):
    main(
        [
            str(data),
            f"--path={path}",
            f"--output={output}",
            f"--gen-subset={split}",
            "--repeats=2",
            "--max-pairs=400",
            "--cpu",
            *more,
        ]
    )
    return json.loads(output.read_text())


def parses(corpus, split="train"):
    return f"--parses={corpus}/{split}.src"


def test_our_models_and_stock_ones_are_asked_the_same(corpus, data_bin, plain_data_bin, ours, stock, tmp_path, capsys):
    of_ours = run(data_bin, ours, tmp_path / "ours.json", parses(corpus))
    assert capsys.readouterr().out.startswith("| task | states | accuracy [95%] |")
    of_stock = run(plain_data_bin, stock, tmp_path / "stock.json", parses(corpus))
    assert list(of_ours["tasks"]) == list(of_stock["tasks"]) == TASKS
    assert of_ours["splits"]["train"]["sentences"] == of_stock["splits"]["train"]["sentences"] == 120
    for task in TASKS:
        a, b = of_ours["tasks"][task], of_stock["tasks"][task]
        assert list(a["layers"]) == ["0", "2"]
        assert list(b["layers"]) == ["0", "1"]
        for name in a.keys() - {"layers", "differences"}:  # what does not depend on the model
            assert a[name] == b[name], (task, name)
        assert 0 <= a["layers"]["2"]["accuracy"]["mean"] <= 1
    assert of_ours["model"] == "SyntaxTransformerModel"
    # The grammar's heads are close to the words: even the states of untrained models tell them better than chance.
    assert of_stock["tasks"]["head"]["layers"]["0"]["accuracy"]["mean"] > 0.3
    assert {path.name for path in tmp_path.iterdir()} == {"ours.json", "stock.json"}


def test_dependencies_alone(corpus, data_bin, ours, tmp_path):
    shutil.copy(corpus / "train.src.conllu", tmp_path / "x.conllu")
    data = commands.copy(data_bin, tmp_path / "data")
    for _ in range(2):  # what it wrote before is no input
        found = run(data, ours, data / "x.json", f"--parses={tmp_path}/x", "--repeats=1")
    made_of = {task: of_task["made_of"] for task, of_task in found["tasks"].items()}
    assert made_of == {"depth": "conllu", "bigram-shift": None, "distance": "conllu", "head": "conllu"}


def test_another_split_for_testing_and_a_model_before_training(corpus, data_bin, ours, tmp_path, capsys):
    more = [parses(corpus), "--layers=0,1,2", "--repeats=1", "--tasks=head,depth"]
    test = ["--test-subset=valid", f"--test-parses={corpus}/valid.src"]
    trained = run(data_bin, ours, tmp_path / "a.json", *more, *test)
    again = run(data_bin, ours, tmp_path / "b.json", *more, *test)
    assert trained == again
    both = run(
        data_bin, ours, tmp_path / "c.json", *more[:-1], "--tasks=head,depth,bigram-shift", *test, "--random-encoder"
    )
    assert list(trained["splits"]) == ["train", "valid"]
    assert both["random_encoder"]
    of_head = both["tasks"]["head"]
    assert list(of_head["layers"]) == list(of_head["random_encoder"]) == ["0", "1", "2"]
    assert of_head["layers"] == trained["tasks"]["head"]["layers"]
    assert of_head["layers"] != of_head["random_encoder"]
    assert list(of_head["differences"]["1"]) == ["layer 0", "random encoder"]
    assert both["tasks"]["bigram-shift"]["random_encoder"]["2"]["balanced_accuracy"]["mean"] > 0
    assert capsys.readouterr().out.count("| layer 2 − random encoder |") == 3


def test_states_are_those_of_the_encoder_without_padding(data_bin, ours):
    model, task = commands.load(ours)
    task.load_dataset("valid")
    dataset = task.dataset("valid")
    lengths = [len(dataset[i]["source"]) - 1 for i in range(len(dataset))]
    sentences = [Sentence(i, ["x"], np.zeros(n, dtype=int)) for i, n in enumerate(lengths)]
    assert len(set(lengths)) > 1
    options = {"layers": [0, 1, 2], "pad": task.source_dictionary.pad(), "words": True}
    together, alone = (states_of(model, dataset, sentences, batch_size=n, **options) for n in (len(sentences), 1))
    for k in (0, 1, 2):
        np.testing.assert_allclose(together.sentences[k], alone.sentences[k], atol=1e-5)
        np.testing.assert_allclose(together.words[k], alone.words[k], atol=1e-5)
    net_input = dataset.collater([dataset[0]])["net_input"]
    with torch.no_grad():
        out = model.encoder(**{k: v for k, v in net_input.items() if k != "prev_output_tokens"})["encoder_out"][0]
    np.testing.assert_allclose(together.sentences[2][0], out[:, 0].mean(dim=0).numpy(), atol=1e-5)
    np.testing.assert_allclose(together.words[2][0], out[:-1, 0].mean(dim=0).numpy(), atol=1e-5)


def test_unknown_subwords_are_placed_by_the_feature_word(corpus, tmp_path):
    data = commands.preprocess(corpus, tmp_path / "bin", "--thresholdsrc", "20")
    commands.train(data, tmp_path, "--max-update=1", model=commands.STOCK)
    more = [parses(corpus), "--tasks=head", "--repeats=1"]
    found = run(data, tmp_path / "checkpoint_last.pt", tmp_path / "x.json", *more)
    assert found["splits"]["train"] | {"parses": 0} == {
        "sentences": 120, "drawn": 120, "of": 120, "left_out": {}, "parses": 0
    }  # fmt: skip
    (data / "syntax.src-tgt.src.json").unlink()
    without = run(data, tmp_path / "checkpoint_last.pt", tmp_path / "y.json", *more)["splits"]["train"]
    assert without["left_out"] == {"unknown subwords, of words that are not known": 120 - without["sentences"]}
    assert 0 < without["sentences"] < 120


def test_fewer_sentences_are_drawn_if_asked(corpus, data_bin, ours, tmp_path):
    found = run(data_bin, ours, tmp_path / "x.json", parses(corpus), "--tasks=depth", "--max-sentences=50")
    assert found["tasks"]["depth"]["made_of"] == "trees"
    assert [found["splits"]["train"][name] for name in ("sentences", "drawn", "of")] == [50, 50, 120]


def test_a_parse_cannot_tell_that_words_were_exchanged(data_bin, plain_data_bin, ours):
    """The states of ours do not depend on parses in that task, and those of exchanged words are of these words."""
    model, task = commands.load(ours)
    task.load_dataset("valid")
    dataset = task.dataset("valid")
    n = len(dataset[0]["source"]) - 1
    sentence = [Sentence(0, ["x"] * n, np.arange(n))]
    options = {"layers": [2], "pad": task.source_dictionary.pad(), "batch_size": 1, "words": True}
    order = np.array([0, 2, 1, *range(3, n)])
    as_it_was, swapped = (states_of(model, dataset, sentence, orders=[o], **options).words[2] for o in (None, order))
    parsed = states_of(model, dataset, sentence, **options).words[2]
    assert abs(as_it_was - parsed).max() > 1e-4
    tokens = dataset[0]["source"][np.append(order, n)][None]
    no_parse = {name: torch.full_like(tokens, -1) for name in model.syntax_features}
    with torch.no_grad():
        out = model.encoder(tokens, torch.tensor([n + 1]), src_syntax=no_parse)["encoder_out"][0]
    np.testing.assert_allclose(swapped, out[:-1, 0].numpy(), atol=1e-5)
    assert abs(swapped - as_it_was).max() > 1e-4


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--parses={corpus}/none"], "none: expected .*none.trees or .*none.conllu, found neither"),
        (["--parses={corpus}/valid.src"], r"valid.src.trees:1: sentence 0 .*: expected the same text"),
        (["--parses={corpus}/valid.src", "--on-bad-parse=skip"], "expected 120 parses, .* of the split, found 15"),
        (["--tasks=head"], "--tasks: head needs parses in .conllu"),
        (["--tasks=tense"], "--tasks: expected some of depth,.*, found 'tense'"),
        (["--tasks=bigram-shift", "--layers=3"], "--layers: expected numbers from 0 to 2, such as 0,2, found '3'"),
        (["--repeats=0"], "--repeats: expected at least 1, found 0"),
        (["--inverse-l2=0"], "--inverse-l2: expected a number above 0, found 0.0"),
        (["--test-subset=train"], "--test-subset: expected another split than --gen-subset"),
        (["--test-parses=x"], "--test-parses: expected --test-subset beside it"),
        (["--gen-subset=dev"], "expected a data-bin of the model's, found: Dataset not found: dev"),
    ],
)
def test_what_cannot_be_probed_is_refused(corpus, data_bin, ours, tmp_path, more, message):
    with pytest.raises(SystemExit, match=f"fairseq-syntax-probe: error: .*{message}"):
        run(data_bin, ours, tmp_path / "x.json", *(option.format(corpus=corpus) for option in more))
    assert not list(tmp_path.iterdir())


def test_a_model_without_a_transformer_encoder_is_refused():
    with pytest.raises(ValueError, match="expected a model with a Transformer encoder, found a Linear"):
        encoder_layers(torch.nn.Linear(1, 1))


def test_a_words_state_is_the_mean_of_its_subwords():
    states = np.array([[1.0], [2.0], [4.0], [7.0]])
    assert means_of_words(states, np.array([0, 1, 1, 2])).tolist() == [[1], [3], [7]]


def test_inputs_are_not_overwritten(corpus, data_bin, ours):
    for path in (ours, data_bin / "dict.src.txt", data_bin / "syntax.src-tgt.src.json", corpus / "train.src.conllu"):
        content = path.read_bytes()
        with pytest.raises(SystemExit, match="expected another file to write to"):
            run(data_bin, ours, path, parses(corpus))
        assert path.read_bytes() == content


def test_without_scikit_learn_a_message_says_what_to_install(data_bin, ours, tmp_path, monkeypatch):
    for name in [name for name in sys.modules if name.startswith(("sklearn", "syntax_experiments.probing.command"))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "sklearn", None)
    with pytest.raises(SystemExit, match=r"scikit-learn, .* pip install 'fairseq-syntax\[analysis\]'"):
        run(data_bin, ours, tmp_path / "x.json")

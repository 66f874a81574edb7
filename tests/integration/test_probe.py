"""Probes of our models and of stock ones."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest
import torch

import commands
from syntax_experiments.probing.probe import main
from syntax_experiments.probing.sentences import labelled
from syntax_experiments.probing.states import encoder_layers, means_of_words, states_of
from syntax_experiments.probing.tasks import TASKS


@pytest.fixture
def ours(trained):
    return trained.checkpoint


def run(data, path, output, parses, *more):
    words = [str(data), f"--path={path}", f"--output={output}", f"--parses={parses}", "--gen-subset=train", "--cpu"]
    main([*words, "--repeats=1", "--max-pairs=400", *more])
    return json.loads(output.read_text())


def by_states(found):
    return {(r["task"], r["states"]): r["accuracy"] for r in found["records"]}


def test_our_models_and_stock_ones_are_asked_the_same(corpus, data_bin, plain_data_bin, ours, tmp_path, capsys):
    """The stock model is trained without the plugin's task, as fairseq does it."""
    commands.train(plain_data_bin, tmp_path, "--max-update=3", "--task", "translation", model=commands.STOCK)
    capsys.readouterr()
    of_ours = run(data_bin, ours, tmp_path / "ours.json", corpus / "train.src")
    assert capsys.readouterr().out.startswith("| task ")
    assert of_ours["model"] == "SyntaxTransformerModel"
    of_stock = run(plain_data_bin, tmp_path / "checkpoint_last.pt", tmp_path / "stock.json", corpus / "train.src")
    assert of_ours["sentences"] == of_stock["sentences"] == {"of": 120, "drawn": 120, "probed": 120, "left_out": {}}
    a, b = by_states(of_ours), by_states(of_stock)
    models = "most frequent answer", "lengths and positions", "layer 0"
    assert a.keys() == {(task, name) for task in TASKS for name in (*models, "layer 2")}
    assert b.keys() == {(task, name) for task in TASKS for name in (*models, "layer 1")}
    assert all(a[task, name] == b[task, name] for task in TASKS for name in models[:2])  # which need no model
    # The grammar's heads are close to the words: even states of untrained models find them better than chance.
    assert b["head", "layer 0"] > 0.3


def test_a_random_encoder_and_the_same_numbers_again(corpus, data_bin, ours, tmp_path):
    """With dependencies alone, and a file in the data-bin, which is no input when it is written again."""
    (tmp_path / "x.conllu").write_text((corpus / "train.src.conllu").read_text())
    data = commands.copy(data_bin, tmp_path / "data")
    more = [tmp_path / "x", "--layers=2,0,1", "--max-sentences=50"]
    first, again = (run(data, ours, data / "x.json", *more)["records"] for _ in range(2))
    assert first == again
    assert {record["task"] for record in first} == {"head"}
    found = run(data, ours, data / "x.json", *more, "--random-encoder")
    assert [found["sentences"][name] for name in ("probed", "drawn", "of")] == [50, 50, 120]
    assert [record for record in found["records"] if "random" not in record["states"]] == first
    scores = by_states(found)
    names = {name for _, name in scores if "random" in name}
    assert names == {f"layer {k}, random encoder" for k in (0, 1, 2)}
    assert any(scores["head", name] != scores["head", name.partition(",")[0]] for name in names)


def test_states_are_those_of_the_encoder_without_padding(data_bin, ours):
    model, task = commands.load(ours)
    task.load_dataset("valid")
    dataset = task.dataset("valid")
    lengths = [len(dataset[i]["source"]) - 1 for i in range(len(dataset))]
    sentences = [labelled(i, ["x"], [0] * n, None, None) for i, n in enumerate(lengths)]
    assert len(set(lengths)) > 1
    options = {"layers": [0, 1, 2], "pad": task.source_dictionary.pad()}
    together, alone = (states_of(model, dataset, sentences, batch_size=n, **options) for n in (len(sentences), 1))
    for k in (0, 1, 2):
        np.testing.assert_allclose(together.sentences[k], alone.sentences[k], atol=1e-5)
        np.testing.assert_allclose(together.words[k], alone.words[k], atol=1e-5)
    net_input = dataset.collater([dataset[0]])["net_input"]
    with torch.no_grad():
        out = model.encoder(**{k: v for k, v in net_input.items() if k != "prev_output_tokens"})["encoder_out"][0]
    np.testing.assert_allclose(together.sentences[2][0], out[:, 0].mean(dim=0).numpy(), atol=1e-5)
    np.testing.assert_allclose(together.words[2][0], out[:-1, 0].mean(dim=0).numpy(), atol=1e-5)
    with pytest.raises(ValueError, match="expected a model with a Transformer encoder, found a Linear"):
        encoder_layers(torch.nn.Linear(1, 1))


def test_a_words_state_is_the_mean_of_its_subwords():
    states = np.array([[1.0], [2.0], [4.0], [7.0]])
    assert means_of_words(states, np.array([0, 1, 1, 2])).tolist() == [[1], [3], [7]]


def test_sentences_with_unknown_subwords_are_left_out_and_counted(corpus, tmp_path):
    data = commands.preprocess(corpus, tmp_path / "bin", "--thresholdsrc", "20")
    commands.train(data, tmp_path, "--max-update=1", model=commands.STOCK)
    found = run(data, tmp_path / "checkpoint_last.pt", tmp_path / "x.json", corpus / "train.src", "--tasks=head")
    reason, probed = "empty, with unknown subwords, or longer than the encoder takes", found["sentences"]["probed"]
    assert found["sentences"]["left_out"] == {reason: 120 - probed}
    assert 0 < probed < 120


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--parses={corpus}/none"], "none: expected .*none.trees or .*none.conllu, found neither"),
        (["--parses={corpus}/valid.src"], "expected 120 parses, .* of the split, found 15"),
        (["--parses={folder}/x", "--tasks=head"], "--tasks: expected .*x.conllu for head, found no file"),
        (["--tasks=tense"], "--tasks: expected some of depth,.*, found 'tense'"),
        (["--layers=3"], "--layers: expected numbers from 0 to 2, such as 0,2, found '3'"),
        (["--gen-subset=dev"], "expected a data-bin of the model's, found: Dataset not found: dev"),
        (["--repeats=0"], "--repeats: expected a finite number of 1 or more, found 0"),
        (["--inverse-l2=nan"], "--inverse-l2: expected a finite number of 1e-09 or more, found nan"),
        (["--output={folder}/x.trees", "--parses={folder}/x", "--tasks=depth"], "expected another file to write to"),
    ],
)
def test_what_cannot_be_probed_is_refused(corpus, data_bin, ours, tmp_path, capsys, more, message):
    (tmp_path / "x.trees").write_text("(S a)\n")
    words = [option.format(corpus=corpus, folder=tmp_path) for option in more]
    with pytest.raises(SystemExit) as stop:
        run(data_bin, ours, tmp_path / "x.json", corpus / "train.src", *words)
    assert re.search(f"fairseq-syntax-probe: error: .*{message}", capsys.readouterr().err + str(stop.value))
    assert [path.read_text() for path in tmp_path.iterdir()] == ["(S a)\n"]

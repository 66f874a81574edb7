"""Every system by fairseq's commands: from training to translations of new text, alike."""

from __future__ import annotations

import json
import logging
import re
import shutil
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

import commands
from fairseq_syntax.commands.average_checkpoints import main as average
from fairseq_syntax.commands.dump import main as dump
from fairseq_syntax.models.transformer import SyntaxTransformerModel
from systems import SUPERVISED, SYSTEMS

#: But the gated one, which has tests of its own.
OTHERS = [system for system in SYSTEMS if system != "gated_syntax_transformer"]

every_system = pytest.mark.parametrize("system", OTHERS)


def architecture(system: str) -> list[str]:
    sizes = ["--encoder-embed-dim", "32", "--decoder-layers", "1"]
    shared = [] if system == "syntax_infused_transformer" else ["--share-decoder-input-output-embed"]
    return ["--arch", f"{system}_tiny", *sizes, *shared]


def criterion(system: str) -> list[str]:
    return ["--criterion=label_smoothed_cross_entropy_with_syntax"] if system in SUPERVISED else []


def train(data: Path, folder: Path, system: str, *more: str, **kwargs):
    return commands.train(data, folder, *criterion(system), *more, model=architecture(system), **kwargs)


@pytest.fixture(scope="module")
def made(data_bin, tmp_path_factory):
    """Of each system one that was trained for two epochs, made when it is asked for first."""
    folder, found = tmp_path_factory.mktemp("systems"), {}

    def of(system: str) -> SimpleNamespace:
        if system not in found:
            trainer = train(data_bin, folder / system, system, "--max-epoch=2")
            found[system] = SimpleNamespace(trainer=trainer, checkpoint=folder / system / "checkpoint_last.pt")
        return found[system]

    return of


@pytest.fixture(scope="module")
def stock(plain_data_bin, tmp_path_factory) -> Path:
    """A checkpoint of a stock Transformer, of the sizes of the systems."""
    folder = tmp_path_factory.mktemp("stock")
    sizes = [*architecture("gated_syntax_transformer")[2:], "--encoder-ffn-embed-dim=128", "--encoder-layers=2"]
    model = ["--arch=transformer", *sizes, "--encoder-attention-heads=4", "--decoder-attention-heads=4"]
    commands.train(plain_data_bin, folder, "--max-update=1", "--no-epoch-checkpoints", model=model)
    return folder / "checkpoint_last.pt"


@every_system
def test_it_learns_and_translates_a_test_set_and_the_same_as_new_text(system, made, corpus, data_bin, tmp_path):
    path = made(system).checkpoint
    expected = commands.generate_scored(data_bin, path)
    assert len(expected) == 24
    subwords = (corpus / "bpe/test.src").read_text().splitlines()
    side = ("--remove-bpe", f"--input-parses={corpus}/test.src")
    new_text, _ = commands.interactive(subwords, data_bin, path, folder=tmp_path, more=side)
    commands.assert_same(new_text, expected)
    commands.validate(data_bin, path, "--valid-subset", "valid")


@every_system
def test_python_translates_text(system, made, corpus, data_bin):
    path = made(system).checkpoint
    hub = SyntaxTransformerModel.from_pretrained(
        str(path.parent),
        path.name,
        str(data_bin),
        bpe="subword_nmt",
        bpe_codes=str(corpus / "codes.src"),
        parser="none",
    )
    lines = (corpus / "test.src").read_text().splitlines()
    translated = hub.translate(lines[:3], beam=2, max_len_b=20)
    assert len(translated) == 3
    if system == "lisa_transformer":  # which is what it always is, without a parser
        expected = commands.generate(data_bin, path)
        assert translated == [expected[number] for number in range(3)]


@every_system
def test_checkpoints_average_and_translate_beside_stock_models(system, made, stock, data_bin, tmp_path):
    path = made(system).checkpoint
    mean = tmp_path / "mean.pt"
    average(["--inputs", str(path.parent), "--num-epoch-checkpoints", "2", "--output", str(mean)])
    states = [commands.parameters(path.parent / f"checkpoint{epoch}.pt") for epoch in (1, 2)]
    for name, weight in commands.parameters(mean).items():
        torch.testing.assert_close(weight, (states[0][name] + states[1][name]) / 2)
    both = [mean, stock]
    reference = ("--score-reference",)
    scores = [commands.generate_scored(data_bin, path, more=reference) for path in both]
    together = commands.generate_scored(data_bin, *both, more=reference)
    for number, (score, _) in together.items():  # a mean of probabilities lies between them
        of_each = sorted(of_one[number][0] for of_one in scores)
        assert of_each[0] - 1e-4 < score
        assert score != pytest.approx(scores[0][number][0], abs=1e-6)


@every_system
def test_a_training_goes_on_with_the_same_bits(system, made, data_bin, tmp_path):
    train(data_bin, tmp_path, system, "--max-epoch=1")
    train(data_bin, tmp_path, system, "--max-epoch=2")
    whole, resumed = commands.parameters(made(system).checkpoint), commands.parameters(tmp_path / "checkpoint_last.pt")
    assert whole.keys() == resumed.keys()
    assert all(torch.equal(whole[name], resumed[name]) for name in whole)


WAYS = {
    "fp16": ["--fp16", "--checkpoint-activations"],
    "amp": ["--amp"],
    "ema": ["--store-ema", "--ema-fp32"],
    "truncated": ["--truncate-source", "--max-source-positions=6"],
}
#: Each system in two ways, and each way with several systems.
PAIRS = [(system, [*WAYS][(n + k) % 4]) for n, system in enumerate(OTHERS) for k in (0, 1)]


@pytest.mark.parametrize(("system", "way"), PAIRS)
def test_it_trains_in_every_way(system, way, data_bin, tmp_path, half_precision):
    cpu = not half_precision or way not in ("amp", "fp16")
    train(data_bin, tmp_path, system, "--max-update=3", *WAYS[way], cpu=cpu)
    found = commands.parameters(tmp_path / "checkpoint_last.pt")
    assert all(weight.isfinite().all() for weight in found.values())


@every_system
def test_what_it_attends_to_is_dumped(system, made, data_bin, tmp_path):
    path = made(system).checkpoint
    dump([str(data_bin), "--path", str(path), "--cpu", "--output", str(tmp_path / "x.npz"), "--batch-size", "7"])
    found = np.load(tmp_path / "x.npz")
    n = len(found["3/tokens"])
    layers = {"sla_transformer": [1, 2], "sg_net_transformer": [3]}
    without_biases = {"syntax_infused_transformer": [1, 2], "seprem_transformer": [1, 2]}
    assert found["layers"].tolist() == {**layers, **without_biases}.get(system, [1])
    attention = found["3/attention"]
    assert attention.shape == (len(found["layers"]), 4, n, n)
    np.testing.assert_allclose(attention.sum(axis=-1), 1, rtol=1e-4)
    with_masks = {"distance_transformer", "pascal_transformer", "sla_transformer", "sg_net_transformer"}
    assert ("3/masks" in found.files) == (system in with_masks)
    assert ("3/gates" in found.files) == (system == "sla_transformer")


@pytest.mark.parametrize("system", ["sg_net_transformer", "syntax_infused_transformer", "seprem_transformer"])
def test_a_stock_transformer_becomes_one(system, stock, data_bin, tmp_path):
    start = ["--max-update=1", f"--finetune-from-model={stock}"]
    if system == "syntax_infused_transformer":
        start += ["--feature-merge=sum", "--share-decoder-input-output-embed"]
    train(data_bin, tmp_path, system, "--lr=1e-12", *start)
    before, after = commands.parameters(stock), commands.parameters(tmp_path / "checkpoint_last.pt")
    assert before.keys() <= after.keys()
    for name, weight in before.items():
        torch.testing.assert_close(after[name], weight, atol=1e-6, rtol=0)


@pytest.mark.parametrize("system", SUPERVISED)
def test_under_the_stock_criterion_it_trains_unsupervised(system, plain_data_bin, data_bin, tmp_path, caplog):
    data = plain_data_bin if system == "lisa_transformer" else data_bin  # which needs no parses at all then
    commands.train(data, tmp_path, "--max-update=2", model=architecture(system))
    warnings = [record.message for record in caplog.records if "without supervision" in record.message]
    assert len(warnings) == 1


@pytest.mark.parametrize("system", SUPERVISED)
def test_auxiliary_losses_are_logged_and_do_not_choose_the_best_checkpoint(system, data_bin, tmp_path, caplog):
    caplog.set_level(logging.INFO)
    train(data_bin, tmp_path, system, "--max-epoch=1", "--log-format=json")
    logs = [json.loads(r.message) for r in caplog.records if r.name == "valid" and r.message.startswith("{")]
    assert float(logs[-1]["valid_parent_loss"]) > 0
    assert 0 <= float(logs[-1]["valid_parent_accuracy"]) <= 100
    training = [json.loads(r.message) for r in caplog.records if r.name == "train" and r.message.startswith("{")]
    assert ("train_distance_loss" in training[-1]) == (system == "seprem_transformer")
    state = torch.load(tmp_path / "checkpoint_last.pt", weights_only=False)
    assert state["extra_state"]["val_loss"] == pytest.approx(float(logs[-1]["valid_loss"]), abs=1e-3)


def test_heads_are_needed_where_they_are_taught_and_not_where_they_are_scored(corpus, plain_data_bin, tmp_path, caplog):
    caplog.set_level(logging.INFO)
    with pytest.raises(FileNotFoundError, match=r"train\.src-tgt\.src\.head"):
        train(plain_data_bin, tmp_path / "none", "lisa_transformer", "--max-update=1")
    data = commands.copy(plain_data_bin, tmp_path / "data")
    options = ["-s", "src", "-t", "tgt", f"--trainpref={corpus}/bpe/train", f"--trainparse={corpus}/train"]
    commands.syntax_data.commands.binarize.main([*options, "--destdir", str(data)])
    train(data, tmp_path / "run", "lisa_transformer", "--max-update=1")
    assert "valid: predictions of parses are not scored" in caplog.text


def test_labels_of_another_data_bin_are_found_by_name_and_unknown_ones_are_counted(
    made, corpus, data_bin, plain_data_bin, tmp_path, caplog
):
    path = made("syntax_infused_transformer").checkpoint
    expected = commands.generate_scored(data_bin, path)
    shutil.copy(corpus / "test.src.trees", tmp_path)
    # The first sentence has a part of speech of its own, so that all others have other numbers.
    rows = (corpus / "test.src.conllu").read_text().split("\n")
    first = next(i for i, row in enumerate(rows) if row[:1].isdigit())
    fields = rows[first].split("\t")
    rows[first] = "\t".join([*fields[:3], "NEW", *fields[4:]])
    (tmp_path / "test.src.conllu").write_text("\n".join(rows))
    data = commands.copy(plain_data_bin, tmp_path / "data")
    test = ["-s", "src", "-t", "tgt", f"--testpref={corpus}/bpe/test", f"--testparse={tmp_path}/test"]
    commands.syntax_data.commands.binarize.main([*test, "--destdir", str(data), "--features", "upos,case,position"])
    labels = [json.loads((d / "syntax.src-tgt.src.json").read_text())["labels"]["upos"] for d in (data_bin, data)]
    assert labels[0] != labels[1]
    found = commands.generate_scored(data, path)
    assert "test: subwords with a label of upos that the model does not know: NEW (" in caplog.text
    differing = [number for number in expected if abs(found[number][0] - expected[number][0]) > 1e-4]
    assert differing in ([], [0])


@pytest.mark.parametrize("system", ["seprem_transformer", "sg_net_transformer"])
def test_pruning_leaves_what_belongs_to_the_layers_that_stay(system, data_bin, tmp_path):
    train(data_bin, tmp_path / "full", system, "--max-update=3", "--encoder-layers=3")
    full = tmp_path / "full/checkpoint_last.pt"
    state = torch.load(full, weights_only=True)

    def moved(name: str) -> str:
        return re.sub(r"^(encoder\..*layers\.)(\d)", lambda match: match[1] + str(int(match[2]) - 1), name)

    first = re.compile(r"encoder\..*layers\.0\.")
    state["model"] = {moved(name): weight for name, weight in state["model"].items() if not first.match(name)}
    state["cfg"]["model"].encoder_layers = 2
    state["cfg"]["model"].syntax_layers = "top" if system == "sg_net_transformer" else None
    torch.save(state, tmp_path / "hand.pt")
    expected = commands.generate_scored(data_bin, tmp_path / "hand.pt")
    pruned = ("--model-overrides", "{'encoder_layers_to_keep': '1,2'}")
    assert commands.generate_scored(data_bin, full, more=pruned) == expected
    assert commands.generate_scored(data_bin, full) != expected

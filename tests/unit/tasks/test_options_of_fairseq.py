"""Options of fairseq's that name, or count, parts of the encoder mean the same parts of ours."""

from __future__ import annotations

import re
from random import Random
from types import SimpleNamespace

import pytest
import torch

import commands
from small import batch, encode, features, model

PRUNED = ("--model-overrides", "{'encoder_layers_to_keep': '1,2'}")


def hand_pruned(path, to):
    """A model of 3 layers of which the second is guided, without the first."""
    state = torch.load(path, weights_only=True)

    def renumbered(name):
        return re.sub(r"^(encoder\.layers\.)(\d)", lambda match: match[1] + str(int(match[2]) - 1), name)

    state["model"] = {renumbered(name): w for name, w in state["model"].items() if "encoder.layers.0." not in name}
    state["cfg"]["model"].encoder_layers = 2
    state["cfg"]["model"].syntax_layers = "1"
    torch.save(state, to)
    return to


@pytest.mark.parametrize("combination", ["gate", "pure"])
def test_pruning_leaves_the_layers_guided_that_were_trained_so(data_bin, tmp_path, combination, caplog):
    size = ["--encoder-layers=3", "--syntax-layers=2", f"--syntax-combination={combination}"]
    commands.train(data_bin, tmp_path / "full", "--max-update=4", *size)
    full = tmp_path / "full/checkpoint_last.pt"
    expected = commands.generate_scored(data_bin, hand_pruned(full, tmp_path / "hand.pt"))
    assert commands.generate_scored(data_bin, full, more=PRUNED) == expected
    assert commands.generate_scored(data_bin, full) != expected
    assert "start fresh" not in caplog.text
    assert "these weights were trained" not in caplog.text

    prune = ["--encoder-layers-to-keep=1,2", f"--finetune-from-model={full}", "--max-update=1", "--lr=1e-12"]
    trainer = commands.train(data_bin, tmp_path / "pruned", *size, *prune)
    assert list(trainer.get_model().syntax_attentions) == [1]
    assert "these weights were trained" not in caplog.text
    tuned = tmp_path / "pruned/checkpoint_last.pt"
    commands.assert_same(commands.generate_scored(data_bin, tuned), expected)
    smaller = ["--encoder-layers=2", "--syntax-layers=1", f"--syntax-combination={combination}"]
    commands.train(data_bin, tmp_path / "pruned", "--max-update=2", *smaller)  # goes on

    with pytest.raises(ValueError, match=r"--encoder-layers-to-keep: expected one of .*from 0, 1\), found 0,2"):
        commands.generate(data_bin, full, more=("--model-overrides", "{'encoder_layers_to_keep': '0,2'}"))


@pytest.mark.parametrize("keep", ["0,2", [0, 2]])
def test_all_layers_that_are_kept_are_guided_by_default(keep):
    net = model(encoder_layers=3, encoder_layers_to_keep=keep)
    assert list(net.syntax_attentions) == [1, 2]
    assert net.encoder.num_layers == 2


def dropped(modules, **options):
    """Which of the model's dropouts stay in force for generation, and whether the encoder's output is random."""
    net = model(dropout=0.3, attention_dropout=0.3, activation_dropout=0.3, **options)
    generation = SimpleNamespace(retain_dropout=True, retain_dropout_modules=modules)
    net.prepare_for_inference_(SimpleNamespace(generation=generation))
    net_input = batch([features(Random(4), 6, 8)])
    if "syntax" not in str(type(net)).lower():
        del net_input["src_syntax"]
    outputs = [encode(net, net_input) for _ in range(2)]
    kept = {name for name, module in net.named_modules() if getattr(module, "apply_during_inference", False)}
    return kept, not torch.equal(*outputs)


ENCODER = {"encoder.dropout_module"}
LAYERS = {f"encoder.layers.{i}.{name}" for i in (0, 1) for name in ("dropout_module", "activation_dropout_module")}
DECODER_LAYERS = {f"decoder.layers.0.{name}" for name in ("dropout_module", "activation_dropout_module")}
ATTENTION = {f"encoder.layers.{i}.self_attn.dropout_module" for i in (0, 1)}


@pytest.mark.parametrize(
    ("name", "expected", "syntax"),
    [
        ("TransformerEncoder", ENCODER, set()),
        ("TransformerEncoderBase", ENCODER, set()),
        ("TransformerEncoderLayer", LAYERS, set()),
        ("TransformerEncoderLayerBase", LAYERS, set()),
        ("TransformerDecoder", {"decoder.dropout_module"}, set()),
        ("TransformerDecoderLayer", DECODER_LAYERS, set()),
        (
            "MultiheadAttention",
            ATTENTION | {f"decoder.layers.0.{name}.dropout_module" for name in ("self_attn", "encoder_attn")},
            {f"encoder.layers.{i}.self_attn.syntax_dropout_module" for i in (0, 1)},
        ),
        ("TransformerModel", set(), set()),
        ("SyntaxEncoderLayer", LAYERS, set()),
    ],
)
def test_dropout_is_retained_by_fairseqs_names(name, expected, syntax):
    for modules in (name, [name], f'["{name}"]'):
        kept, random = dropped(modules)
        assert kept == expected | syntax
        assert random == any(module.startswith("encoder") for module in expected)
    stock, random_stock = dropped([name], arch="transformer")
    if stock:  # fairseq knows the name for a stock Transformer, too
        assert (stock, random_stock) == (expected, random)


def test_dropout_is_retained_by_several_names_or_all_and_never_by_none(caplog):
    assert dropped("TransformerEncoder,TransformerEncoderLayer")[0] == ENCODER | LAYERS
    assert dropped(None)[0] > ENCODER | LAYERS | ATTENTION | DECODER_LAYERS
    assert "retain-dropout-modules" not in caplog.text
    assert dropped("TransformerEncodr") == (set(), False)
    assert "--retain-dropout-modules: the model has no module TransformerEncodr" in caplog.text


def test_generation_retains_dropout(data_bin, tmp_path):
    commands.train(data_bin, tmp_path, "--max-update=4", "--dropout=0.3")
    path = tmp_path / "checkpoint_last.pt"
    plain = commands.generate_scored(data_bin, path)
    more = ("--retain-dropout", "--retain-dropout-modules", "TransformerEncoderLayer")
    runs = [commands.generate_scored(data_bin, path, more=(*more, f"--seed={seed}")) for seed in (1, 1, 2)]
    assert runs[0] == runs[1] != runs[2]
    assert plain not in runs

"""Options of fairseq's about parts of the encoder mean the same parts of ours."""

from __future__ import annotations

from random import Random
from types import SimpleNamespace

import pytest
import torch

import systems
from fairseq_syntax.testing import random_features
from small import batch, encode, model


@pytest.mark.parametrize("keep", ["0,2", [0, 2]])
def test_all_layers_that_are_kept_are_syntax_layers_by_default(keep):
    net = model(encoder_layers=3, encoder_layers_to_keep=keep)
    assert list(net.syntax_attentions) == [1, 2]
    assert net.encoder.num_layers == 2


def dropped(modules, **options):
    """Dropouts in force for generation, and if the encoder's output is random."""
    net = model(dropout=0.3, attention_dropout=0.3, activation_dropout=0.3, **options)
    generation = SimpleNamespace(retain_dropout=True, retain_dropout_modules=modules)
    net.prepare_for_inference_(SimpleNamespace(generation=generation))
    net_input = batch([random_features(Random(4), 6, 8)])
    if "syntax" not in str(type(net)).lower():
        del net_input["src_syntax"]
    outputs = [encode(net, net_input) for _ in range(2)]
    kept = {name for name, module in net.named_modules() if getattr(module, "apply_during_inference", False)}
    return kept, not torch.equal(*outputs)


ENCODER = {"encoder.dropout_module"}
LAYERS = {f"encoder.layers.{i}.{name}" for i in (0, 1) for name in ("dropout_module", "activation_dropout_module")}
DECODER_LAYERS = {f"decoder.layers.0.{name}" for name in ("dropout_module", "activation_dropout_module")}
ATTENTION = {f"encoder.layers.{i}.self_attn.dropout_module" for i in (0, 1)}
OF_DECODER = {f"decoder.layers.0.{name}.dropout_module" for name in ("self_attn", "encoder_attn")}
OF_SYNTAX = {f"encoder.layers.{i}.self_attn.syntax_dropout_module" for i in (0, 1)}
#: Dropouts by the class that fairseq calls them by, or that ours is: those that a stock Transformer has, and ours.
RETAINED = {
    **dict.fromkeys(["TransformerEncoder", "TransformerEncoderBase"], (ENCODER, set())),
    **dict.fromkeys(["TransformerEncoderLayer", "TransformerEncoderLayerBase", "SyntaxEncoderLayer"], (LAYERS, set())),
    "TransformerDecoder": ({"decoder.dropout_module"}, set()),
    "TransformerDecoderLayer": (DECODER_LAYERS, set()),
    "MultiheadAttention": (ATTENTION | OF_DECODER, OF_SYNTAX),
    "TransformerModel": (set(), set()),
}


@pytest.mark.parametrize("name", RETAINED)
def test_dropout_is_retained_by_fairseqs_names(name):
    expected, syntax = RETAINED[name]
    for modules in (name, [name], f'["{name}"]'):
        kept, random = dropped(modules)
        assert kept == expected | syntax
        assert random == any(module.startswith("encoder") for module in expected)
    stock, random_stock = dropped([name], arch="transformer")
    if stock:  # fairseq knows the name for a stock Transformer, too
        assert (stock, random_stock) == (expected, random)


@pytest.mark.parametrize("system", ["syntax_infused_transformer", "relative_position_transformer"])
def test_retained_dropout_draws_what_a_stock_transformers_does(system):
    """Bit by bit where all of its layers are fairseq's; else up to the rounding of its own attention."""
    stock, ours = systems.with_stock_weights(system, awake=False, dropout=0.3)
    for table in getattr(ours.encoder.embed_tokens, "tables", {}).values():
        table.data.zero_()
    outputs = []
    for net, net_input in ((stock, systems.of_stock(systems.batch())), (ours, systems.batch())):
        quiet = net.eval()(**net_input)[0]
        retained = SimpleNamespace(retain_dropout=True, retain_dropout_modules=None)
        net.prepare_for_inference_(SimpleNamespace(generation=retained))
        torch.manual_seed(4)
        outputs.append(net(**net_input)[0])
        assert not torch.allclose(outputs[-1], quiet, atol=0.1)
    exact = system == "syntax_infused_transformer"
    torch.testing.assert_close(outputs[1], outputs[0], rtol=0, atol=0 if exact else 1e-5)


def test_dropout_is_retained_by_several_names_or_all_and_never_by_none(caplog):
    assert dropped("TransformerEncoder,TransformerEncoderLayer")[0] == ENCODER | LAYERS
    assert dropped(None)[0] > ENCODER | LAYERS | ATTENTION | DECODER_LAYERS
    assert "retain-dropout-modules" not in caplog.text
    assert dropped("TransformerEncodr") == (set(), False)
    assert "--retain-dropout-modules: the model has no module TransformerEncodr" in caplog.text

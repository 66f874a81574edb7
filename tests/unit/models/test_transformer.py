"""The model against stock fairseq, and the laws of its gates."""

from __future__ import annotations

import operator
from argparse import ArgumentParser, Namespace
from dataclasses import fields
from random import Random

import pytest
import torch
from fairseq.models.transformer import TransformerConfig
from omegaconf import OmegaConf
from torch import nn

from fairseq_syntax.encoder.encoder_options import encoder_options
from fairseq_syntax.encoder.layer import SyntaxEncoderLayer
from fairseq_syntax.models.transformer import SyntaxTransformerModel
from fairseq_syntax.models.transformer_options import SyntaxTransformerConfig
from fairseq_syntax.modules.biases import BiasBuilder, SyntaxBias
from fairseq_syntax.modules.gates import SyntaxGate
from fairseq_syntax.modules.trace import SyntaxTrace
from fairseq_syntax.testing import random_features
from small import ZeroGate, alone, batch, encode, model


def mixed_batch(**kwargs):
    random = Random(7)
    sentences = [random_features(random, words, words + more) for words, more in ((1, 0), (5, 2), (9, 3))]
    return batch([*sentences, 8], **kwargs)


def with_stock_weights(**options):
    """A stock Transformer and ours with the same weights."""
    stock = model("transformer", seed=3, **{k: v for k, v in options.items() if "syntax" not in k})
    ours = model(seed=4, **options)
    missing, unexpected = ours.load_state_dict(stock.state_dict(), strict=False)
    # load_state_dict of fairseq's models takes strict, but returns torch's answer
    assert not unexpected
    assert all(".gate." in name for name in missing)
    return stock, ours


class AllVisible(SyntaxBias):
    name = "all_visible"
    features = ("distance",)

    def log_mask(self, distance):
        return torch.zeros(*distance.shape, distance.shape[1])


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("left_pad", [True, False])
@pytest.mark.parametrize("neutral", ["gates at 0", "masks of ones"])
@pytest.mark.parametrize("normalize_before", [True, False])
def test_neutral_settings_equal_stock(training, left_pad, neutral, normalize_before):
    stock, ours = with_stock_weights(syntax_masks="slr,sdoi", encoder_normalize_before=normalize_before)
    net_input = mixed_batch(left_pad=left_pad)
    real = net_input["src_tokens"].ne(1)
    if neutral == "gates at 0":
        for layer in ours.encoder.layers:
            layer.self_attn.gate = ZeroGate(2, 4)
    else:
        ours.encoder.bias_builder = BiasBuilder([AllVisible(), AllVisible()])
    stock.train(training)
    ours.train(training)
    plain = {k: v for k, v in net_input.items() if k != "src_syntax"}
    expected = encode(stock, plain)
    assert not torch.allclose(expected, torch.zeros_like(expected))
    torch.testing.assert_close(encode(ours, net_input)[real], expected[real], rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(ours(**net_input)[0], stock(**plain)[0], rtol=1e-5, atol=1e-5)


def test_syntax_matters_when_it_is_not_neutral():
    stock, ours = with_stock_weights()
    net_input = mixed_batch()
    plain = {k: v for k, v in net_input.items() if k != "src_syntax"}
    difference = (encode(ours.eval(), net_input) - encode(stock.eval(), plain)).abs().amax(dim=(1, 2))
    assert (difference[1:3] > 1e-2).all()
    assert difference[3] < 1e-5  # the sentence without a parse


@pytest.mark.parametrize("combination", ["gate", "average", "pure"])
def test_sentence_without_a_parse_equals_stock_also_under_syntax_dropout(combination):
    stock, ours = with_stock_weights(syntax_masks="slr,sdoi", syntax_combination=combination, syntax_dropout=0.5)
    net_input = mixed_batch()
    plain = {k: v for k, v in net_input.items() if k != "src_syntax"}
    difference = (encode(ours.train(), net_input) - encode(stock.train(), plain)).abs().amax(dim=(1, 2))
    assert difference[3] < 1e-5
    assert (difference[1:3] > 1e-2).all()


@pytest.mark.parametrize("implementation", ["plain", "shared", "fused"])
@pytest.mark.parametrize("logit", [-30.0, 0.0, 30.0])
def test_sentence_without_a_parse_equals_stock_whatever_its_gates(implementation, logit):
    stock, ours = with_stock_weights(syntax_masks="slr,sdoi", gate_batch_norm=False, syntax_attention=implementation)
    for gate in ours.gates.values():
        gate.fc2.bias.data.fill_(logit)
    net_input = mixed_batch()
    plain = {k: v for k, v in net_input.items() if k != "src_syntax"}
    difference = (ours.eval()(**net_input)[0] - stock.eval()(**plain)[0]).abs().amax(dim=(1, 2))
    assert difference[3] < 1e-5
    assert (difference[1:3] > 1e-3).all() == (logit >= 0)


@pytest.mark.parametrize("combination", ["gate", "average", "pure"])
@pytest.mark.parametrize("left_pad", [True, False])
def test_padding_never_reaches_a_real_position(combination, left_pad):
    random = Random(8)
    short, long = random_features(random, 4, 6), random_features(random, 12, 15)
    net = model(syntax_masks="sdoi,slr", syntax_combination=combination).eval()
    together = batch([long, short], left_pad=left_pad)
    n = len(short["word"])
    row = encode(net, together)[1]
    expected = encode(net, alone(together, 1, short, left_pad=left_pad))[0]
    torch.testing.assert_close(row[-n:] if left_pad else row[:n], expected)


def test_a_gate_moves_its_own_head_of_every_sentence_and_no_other():
    net = model(syntax_masks="slr", gate_batch_norm=False, encoder_layers=1).eval()
    attention = net.encoder.layers[0].self_attn
    attention.out_proj = nn.Identity()  # heads side by side
    seen = []
    attention.register_forward_hook(lambda module, args, output: seen.append(output[0]))
    random = Random(9)
    net_input = batch([random_features(random, 8, 10), random_features(random, 9, 10), random_features(random, 7, 9)])
    for head in range(4):
        with torch.no_grad():
            encode(net, net_input)
            attention.gate.fc2.bias[head] += 1.0
            encode(net, net_input)
        before, after = (out.unflatten(2, (4, 8)) for out in seen[-2:])  # (n, batch, heads, head_dim)
        changed = (before - after).abs().amax(dim=(0, 3)) > 1e-6  # (batch, heads)
        expected = torch.zeros(3, 4, dtype=torch.bool)
        expected[:, head] = True
        assert torch.equal(changed, expected)


def test_syntax_heads_are_the_first_ones():
    net = model(syntax_heads=1, encoder_layers=1).eval()
    stock = model("transformer", encoder_layers=1).eval()
    stock.load_state_dict({k: v for k, v in net.state_dict().items() if ".gate." not in k})
    outputs = []
    for net_ in (net, stock):
        net_.encoder.layers[0].self_attn.out_proj = nn.Identity()
    stock_attention = net.encoder.layers[0].self_attn
    stock_attention.register_forward_hook(lambda module, args, output: outputs.append(output[0]))
    net_input = mixed_batch()
    encode(net, net_input)
    neutral = {**net_input, "src_syntax": {k: torch.full_like(v, -1) for k, v in net_input["src_syntax"].items()}}
    encode(net, neutral)
    changed = (outputs[0] - outputs[1]).unflatten(2, (4, 8)).abs().amax(dim=(0, 1, 3)) > 1e-6
    assert changed.tolist() == [True, False, False, False]
    assert net.encoder.layers[0].self_attn.gate.fc2.out_features == 1


def test_syntax_layers_choose_layers():
    net = model(encoder_layers=4, syntax_layers="1,3-4")
    assert [isinstance(layer, SyntaxEncoderLayer) for layer in net.encoder.layers] == [
        True,
        False,
        True,
        True,
    ]


def test_average_and_pure_have_no_gate_parameters_and_mix_evenly():
    for combination, weight in (("average", 1 / 3), ("pure", 1 / 2)):
        net = model(syntax_masks="slr,sdoi", syntax_combination=combination, encoder_layers=1).eval()
        assert not [name for name, _ in net.named_parameters() if "gate" in name]
        net_input = mixed_batch()
        masks = net.encoder.bias_builder(net_input["src_syntax"])
        trace = SyntaxTrace(("scores", "attention"))
        net.encoder(net_input["src_tokens"], src_syntax=net_input["src_syntax"], trace=trace)
        scores = trace.layers[1]["scores"].masked_fill(net_input["src_tokens"].eq(1)[:, None, None], -torch.inf)
        mixed = weight * sum((scores + masks.log_masks[:, k, None]).softmax(-1) for k in range(2))
        mixed = mixed + (weight * scores.softmax(-1) if combination == "average" else 0)
        torch.testing.assert_close(trace.layers[1]["attention"], mixed)


def test_gate_parameters_are_all_that_is_added():
    stock = sum(p.numel() for p in model("transformer").parameters())
    for masks, k in (("slr", 1), ("slr,sdoi", 2)):
        ours = sum(p.numel() for p in model(syntax_masks=masks, gate_hidden_dim=6).parameters())
        d, hidden, heads, layers = 32, 6, 4, 2
        gate = (d * hidden + hidden) + 2 * hidden + (hidden * k * heads + k * heads) + 2 * k * heads
        assert ours - stock == layers * gate


def test_masks_are_built_once_a_batch():
    net = model(encoder_layers=3)
    calls = []

    class Counted(AllVisible):
        def log_mask(self, distance):
            calls.append(distance)
            return super().log_mask(distance)

    net.encoder.bias_builder = BiasBuilder([Counted()])
    encode(net, mixed_batch())
    assert len(calls) == 1


@pytest.mark.parametrize("syntax", [None, {}, {"word": torch.zeros(1, 1)}])
def test_missing_features_are_named(syntax):
    net = model(syntax_masks="slr,sdoi")
    net_input = {**mixed_batch(), "src_syntax": syntax}
    missing = "distance, head" if syntax else "distance, word, head"
    with pytest.raises(ValueError, match=rf"missing: {missing}\. Does"):
        net(**net_input)


def test_only_the_features_of_the_masks_are_needed():
    net = model(syntax_masks="slr")
    assert net.syntax_features == ("distance",)
    net_input = mixed_batch()
    net_input["src_syntax"] = {"distance": net_input["src_syntax"]["distance"]}
    net(**net_input)


def test_a_pass_registers_no_hook_and_changes_no_attribute(monkeypatch):
    encoder = model(syntax_masks="slr,sdoi").eval().encoder
    for name in ("register_forward_pre_hook", "register_forward_hook", "register_full_backward_hook", "__setattr__"):
        monkeypatch.setattr(nn.Module, name, lambda *args, **kwargs: pytest.fail("a pass changes the model"))
    before = {name: dict(vars(module)) for name, module in encoder.named_modules()}
    net_input = mixed_batch()
    encoder(net_input["src_tokens"], src_syntax=net_input["src_syntax"], trace=SyntaxTrace(("gates", "attention")))
    assert {name: vars(module) for name, module in encoder.named_modules()} == before


def test_activation_checkpointing_gives_the_same_gradients():
    nets = [model(checkpoint_activations=c, syntax_masks="slr,sdoi").train() for c in (False, True)]
    nets[1].load_state_dict(nets[0].state_dict())
    for net in nets:
        net(**mixed_batch())[0].square().sum().backward()
    for (name, a), (_, b) in zip(nets[0].named_parameters(), nets[1].named_parameters(), strict=True):
        torch.testing.assert_close(a.grad, b.grad, msg=name)
    for (name, a), (_, b) in zip(nets[0].named_buffers(), nets[1].named_buffers(), strict=True):
        torch.testing.assert_close(a, b, msg=name)  # gate statistics moved once, not twice


@pytest.mark.parametrize("frozen", [True, False])
@pytest.mark.parametrize("combination", ["gate", "average"])
def test_distributed_data_parallel_finds_no_unused_parameter(process_group, frozen, combination):
    net = model(syntax_masks="slr,sdoi", syntax_combination=combination, gate_warmup_epochs=1)
    net.begin_epoch(1 if frozen else 2)
    parallel = nn.parallel.DistributedDataParallel(net)
    for _ in range(2):  # it would raise in the second pass
        parallel(**mixed_batch())[0].sum().backward()
    assert all(parameter.grad is not None for parameter in net.parameters())
    assert all(parameter.grad.eq(0).all() for parameter in net.frozen_parameters())


def test_layer_drop_runs_guided_layers():
    net = model(encoder_layers=4, encoder_layerdrop=0.5).train()
    for _ in range(10):
        assert encode(net, mixed_batch()).isfinite().all()


def test_features_can_be_extracted():
    net = model().eval()
    net_input = mixed_batch()
    features, _ = net.extract_features(**net_input)
    torch.testing.assert_close(net.decoder.output_layer(features), net(**net_input)[0])


def test_pre_warmup_freezes_by_epoch():
    net = model(gate_warmup_epochs=2)
    gates = [m for m in net.modules() if isinstance(m, SyntaxGate)]
    for epoch, frozen in ((1, True), (2, True), (3, False), (2, True)):
        net.begin_epoch(epoch)
        assert [gate.frozen for gate in gates] == [frozen] * 2
        assert len(net.frozen_parameters()) == (16 if frozen else 0)


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("syntax_masks", "slr,slr"),
        ("syntax_masks", "tree"),
        ("syntax_masks", ""),
        ("syntax_layers", "0-1"),
        ("syntax_layers", "2-3"),
        ("syntax_layers", "two"),
        ("syntax_heads", 5),
        ("syntax_heads", 0),
        ("gate_hidden_dim", 0),
        ("gate_warmup_epochs", -1),
        ("gate_batch_norm_eps", 0.0),
        ("slr_temperature", 0.0),
        ("syntax_dropout", 1.0),
        ("encoder_xformers_att_config", "{}"),
        # From a file of fairseq-hydra-train, which does not know what may be chosen:
        ("slr", "sotf"),
        ("sdoi_subwords", "all"),
        ("syntax_combination", "avg"),
        ("syntax_attention", "Plain"),
        ("gate_batch_norm_statistics", "runing"),
        ("gate_batch_norm", "yes"),
        ("gate_hidden_dim", 2.5),
        ("syntax_heads", "some"),
    ],
)
def test_impossible_options_are_refused_by_name(option, value):
    with pytest.raises(ValueError, match="--" + option.replace("_", "-")):
        model(**{option: value})


def test_a_key_that_is_no_option_is_refused_where_all_keys_are_the_models():
    """fairseq-hydra-train gives a model its own keys; a command line all there are, those of a criterion too."""
    mapping = {"_name": "gated_syntax_transformer_tiny", "gate_warmup_epochs": 3, "dropout": 0.2}
    assert SyntaxTransformerConfig.from_namespace(OmegaConf.create(mapping)).syntax.gate.warmup_epochs == 3
    wrong = ("distance_prediction_rat", "upos_label", "tree_mixin", "parent_sigm", "fusion_weigth")
    for key in (*wrong, "gate_warmup_epoch", "cpu_dropout", "slr_temprature", "syntax_mask"):
        with pytest.raises(ValueError, match=rf"{key}: (the model has no such|expected as an) option"):
            SyntaxTransformerConfig.from_namespace(OmegaConf.create({**mapping, key: 3}))
        assert SyntaxTransformerConfig.from_namespace(Namespace(**mapping, **{key: 3})).syntax.gate.warmup_epochs == 3


@pytest.mark.parametrize("layers", ["2", 2])
def test_one_layer(layers):
    assert list(model(syntax_layers=layers).gates) == [2]


#: Switches of fairseq's Transformer that change where things are computed, and those of adaptive inputs, which this
#: small model cannot have and which have parameters of their own.
ELSEWHERE = {
    "checkpoint_activations", "offload_activations", "export", "char_inputs", "adaptive_input", "tie_adaptive_weights",
    "tie_adaptive_proj",
}  # fmt: skip


@pytest.mark.parametrize("side", ["", "encoder.", "decoder."])
def test_switches_that_change_weights_show_in_their_shapes_or_in_what_they_mean(side):
    part = operator.attrgetter(side[:-1])(TransformerConfig()) if side else TransformerConfig()
    for option in fields(part):
        if type(getattr(part, option.name)) is not bool or option.name in ELSEWHERE:
            continue
        name = (side + option.name).replace(".", "_")
        seen = []
        for value in (False, True):
            net = model(**{"decoder_normalize_before": True, name: value})  # without which one has no effect
            shapes = {key: tuple(weight.shape) for key, weight in net.state_dict().items()}
            seen.append((shapes, SyntaxTransformerConfig.from_namespace(net.args).semantics))
        assert seen[0] != seen[1], name


def test_every_option_reaches_the_model():
    net = model(
        syntax_masks="sdoi,slr",
        slr="hard",
        slr_temperature=2.0,
        sdoi_subwords="first",
        syntax_combination="gate",
        syntax_layers="2",
        syntax_heads=3,
        gate_hidden_dim=5,
        gate_output_bias=False,
        gate_batch_norm=False,
        gate_warmup_epochs=1,
        syntax_dropout=0.25,
        syntax_attention="shared",
    )
    slr, sdoi = net.encoder.bias_builder.masks
    assert (slr.form, slr.temperature, sdoi.subwords) == ("hard", 2.0, "first")
    attention = net.encoder.layers[1].self_attn
    assert (attention.num_masks, attention.syntax_heads) == (2, 3)
    assert attention.syntax_dropout_module.p == 0.25
    assert attention.gate.fc1.out_features == 5
    assert attention.gate.fc2.bias is None
    assert attention.gate.batch_norm is None
    assert attention.implementation == "shared"
    net.begin_epoch(1)
    assert attention.gate.frozen
    norm = model(gate_batch_norm_statistics="batch", gate_batch_norm_eps=0.5).gates[1].batch_norm
    assert (norm.statistics, norm.eps) == ("batch", 0.5)


def test_command_line_declares_every_option_with_help():
    parser = ArgumentParser()
    SyntaxTransformerModel.add_args(parser)
    text = " ".join(parser.format_help().split())
    for option in encoder_options():
        assert " ".join(option.help.split()) in text
        assert option.flag in text
        assert "; default: " in option.help
    args = parser.parse_args(["--no-gate-batch-norm"])
    assert args.gate_batch_norm is False
    assert parser.parse_args(["--gate-batch-norm"]).gate_batch_norm is True


def test_named_architectures():
    from fairseq.models import ARCH_CONFIG_REGISTRY

    # embed dim, FFN dim, heads, layers; dropout, attention dropout, syntax dropout, pre-warmup; the gate's width, bias
    # and statistics; ReLU dropout
    expected = {
        "": (512, 2048, 8, 6, 0.1, 0.0, 0.0, 0, None, True, "running", 0.0),
        "_tiny": (64, 128, 4, 2, 0.1, 0.0, 0.0, 0, None, True, "running", 0.0),
    }
    paper = {
        "_iwslt_de_en": (0.4, 80),
        "_iwslt_en_de": (0.0, 50),
        "_nc11_de_en": (0.2, 60),
        "_nc11_en_de": (0.2, 80),
        "_wmt18_en_tr": (0.1, 70),
    }
    for name, values in paper.items():
        for suffix, statistics in (("", "running"), ("_paper", "batch")):
            expected[name + suffix] = (512, 1024, 4, 6, 0.3, 0.2, *values, 256, False, statistics, 0.1)
    for name, values in expected.items():
        args = Namespace()
        ARCH_CONFIG_REGISTRY["gated_syntax_transformer" + name](args)
        cfg = SyntaxTransformerConfig.from_namespace(args)
        for side in (cfg.encoder, cfg.decoder):
            assert (side.embed_dim, side.ffn_embed_dim, side.attention_heads, side.layers) == values[:4]
        gate = cfg.syntax.gate
        assert (cfg.dropout, cfg.attention_dropout, cfg.syntax.dropout, gate.warmup_epochs) == values[4:8]
        assert (gate.hidden_dim, gate.output_bias, gate.statistics) == values[8:11]
        assert cfg.activation_dropout == values[11]

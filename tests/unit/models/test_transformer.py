"""The gated model: its gates, options and architectures."""

from __future__ import annotations

import operator
from argparse import ArgumentParser, Namespace
from dataclasses import fields

import pytest
import torch
from fairseq.models import ARCH_CONFIG_REGISTRY
from fairseq.models.transformer import TransformerConfig
from omegaconf import OmegaConf
from torch import nn

import systems
from fairseq_syntax.encoder.encoder_options import encoder_options
from fairseq_syntax.models.transformer import SyntaxTransformerModel
from fairseq_syntax.models.transformer_options import SyntaxTransformerConfig
from fairseq_syntax.modules.gates import SyntaxGate
from pairwise import pairwise
from small import encode, model


@pytest.mark.parametrize(("implementation", "logit"), pairwise(["reference", "shared", "sdpa"], [-30.0, 0.0, 30.0]))
def test_a_sentence_without_a_parse_equals_stock_whatever_its_gates(implementation, logit):
    stock, ours = systems.with_stock_weights(
        "gated_syntax_transformer", gate_batch_norm=False, syntax_attention_impl=implementation
    )
    for gate in ours.gates.values():
        gate.fc2.bias.data.fill_(logit)
    net_input = systems.batch()
    difference = ours.eval()(**net_input)[0] - stock.eval()(**systems.of_stock(net_input))[0]
    difference = difference.abs().amax(dim=(1, 2))
    assert difference[3] < 1e-5
    assert (difference[1:3] > 1e-3).all() == (logit >= 0)


def test_a_gate_moves_its_own_head_of_every_sentence_and_no_other():
    net = model(syntax_masks="slr", gate_batch_norm=False, encoder_layers=1).eval()
    attention = net.encoder.layers[0].self_attn
    attention.out_proj = nn.Identity()  # heads side by side
    seen = []
    attention.register_forward_hook(lambda module, args, output: seen.append(output[0]))
    net_input = systems.batch()
    for head in range(4):
        with torch.no_grad():
            encode(net, net_input)
            attention.gate.fc2.bias[head] += 1.0
            encode(net, net_input)
        before, after = (out.unflatten(2, (4, 8)) for out in seen[-2:])  # (n, batch, heads, head_dim)
        changed = (before - after).abs().amax(dim=(0, 3)) > 1e-6  # (batch, heads)
        expected = torch.zeros(4, 4, dtype=torch.bool)
        expected[1:3, head] = True
        assert torch.equal(changed[1:], expected[1:])  # the first sentence is one word


@pytest.mark.parametrize(
    ("layers", "numbers"), [("1,3-4", [1, 3, 4]), ("2", [2]), (2, [2]), ("2,top", [2, 5]), (None, [1, 2, 3, 4])]
)
def test_syntax_layers_choose_layers(layers, numbers):
    assert list(model(encoder_layers=4, syntax_layers=layers).syntax_attentions) == numbers


def test_gate_parameters_are_all_that_is_added():
    assert model(gate_batch_norm=False).gates[1].batch_norm is None
    stock = sum(p.numel() for p in model("transformer").parameters())
    for masks, combination, k in (
        ("slr", "gate", 1),
        ("slr,sdoi", "gate", 2),
        ("slr", "average", 0),
        ("sdoi", "pure", 0),
    ):
        options = {"syntax_masks": masks, "syntax_combination": combination, "gate_hidden_dim": 6}
        ours = sum(p.numel() for p in model(**options).parameters())
        d, hidden, heads, layers = 32, 6, 4, 2
        gate = (d * hidden + hidden) + 2 * hidden + (hidden * k * heads + k * heads) + 2 * k * heads
        assert ours - stock == layers * gate * (k > 0)


@pytest.mark.parametrize("frozen", [True, False])
def test_distributed_data_parallel_finds_no_unused_parameter_of_gates(process_group, frozen):
    net = model(syntax_masks="slr,sdoi", gate_warmup_epochs=1)
    net.begin_epoch(1 if frozen else 2)
    parallel = nn.parallel.DistributedDataParallel(net)
    for _ in range(2):  # it would raise in the second pass
        parallel(**systems.batch())[0].sum().backward()
    assert all(parameter.grad is not None for parameter in net.parameters())
    assert len(net.frozen_parameters()) == (16 if frozen else 0)
    assert all(parameter.grad.eq(0).all() for parameter in net.frozen_parameters())


def test_features_can_be_extracted():
    net = model().eval()
    net_input = systems.batch()
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
        ("position_bias", "yes"),
        # From a file of fairseq-hydra-train, which does not know what may be chosen:
        ("slr", "sotf"),
        ("sdoi_subwords", "all"),
        ("syntax_combination", "avg"),
        ("syntax_attention_impl", "Reference"),
        ("gate_batch_norm_statistics", "runing"),
        ("gate_batch_norm", "yes"),
        ("gate_hidden_dim", 2.5),
        ("syntax_heads", "some"),
    ],
)
def test_impossible_options_are_refused_by_name(option, value):
    with pytest.raises(ValueError, match="--" + option.replace("_", "-")):
        model(**{option: value})


@pytest.mark.parametrize(
    ("system", "options", "wrong"),
    [
        (
            "distance_transformer",
            {"syntax_layers": "bottom"},
            "--syntax-layers: expected numbers, ranges such as 3-4, and top",
        ),
        ("pascal_transformer", {"parent_sigma": 0}, "--parent-sigma: expected a number above 0"),
        ("pascal_transformer", {"parent_ignoring": 1.5}, "--parent-ignoring: expected at most 1"),
        ("sg_net_transformer", {"fusion_weight": 2.0}, "--fusion-weight: expected at most 1"),
        ("sg_net_transformer", {"fusion": "add"}, "--fusion: expected one of sum, top"),
        ("syntax_infused_transformer", {"feature_embeddings": "head"}, "--feature-embeddings: expected some of"),
        (
            "syntax_infused_transformer",
            {"feature_merge": "concatenate", "share_all_embeddings": True},
            "--feature-merge concatenate: expected without --share-all-embeddings",
        ),
        (
            "syntax_infused_transformer",
            {"feature_merge": "concatenate", "feature_embed_dim": 32},
            "--feature-embed-dim",
        ),
        ("syntax_infused_transformer", {"feature_embeddings": "none"}, "--syntax-masks: expected some of"),
        (
            "syntax_infused_transformer",
            {"feature_merge": "concatenate", "encoder_embed_path": "x"},
            "--encoder-embed-path",
        ),
        (
            "syntax_infused_transformer",
            {"upos_labels": "A B"},
            "--upos-labels: expected </s> and then labels, each once",
        ),
        ("syntax_infused_transformer", {"upos_labels": "</s> A A"}, "--upos-labels: expected </s> and then labels"),
        (
            "syntax_infused_transformer",
            {"upos_labels": None},
            "--upos-labels: expected labels, or --task syntax_transl",
        ),
        ("lisa_transformer", {"syntax_combination": "product"}, "--syntax-combination product: expected without"),
        ("seprem_transformer", {"tree_mixing": False}, "--distance-prediction: expected with --tree-mixing"),
        ("seprem_transformer", {"tree_mixing_activation": "cosine"}, "--tree-mixing-activation: expected one of"),
        *(
            (
                "gated_syntax_transformer",
                {"syntax_masks": none},
                "--syntax-masks: expected some of .*, found none, which needs --position-bias",
            )
            for none in ("none", "")
        ),
        (
            "gated_syntax_transformer",
            {"syntax_masks": "none,slr", "position_bias": True},
            "--syntax-masks: expected some of",
        ),
        ("lisa_transformer", {"lisa_hidden_dim": 0}, "--lisa-hidden-dim: expected at least 1"),
    ],
)
def test_options_that_do_not_go_together_are_refused_by_name(system, options, wrong):
    with pytest.raises(ValueError, match=wrong):
        systems.model(system, **options)


@pytest.mark.parametrize("masks", ["", "none", " none "])
def test_no_masks_are_recorded_as_such(masks):
    net = model(syntax_masks=masks, position_bias=True)
    assert net.args.syntax_masks == "none"
    cfg = SyntaxTransformerConfig.from_namespace(net.args)
    assert (cfg.syntax.biases, cfg.syntax.gated, cfg.semantics["position_bias"]) == ((), False, True)


def test_a_key_that_is_no_option_is_refused_where_all_keys_are_the_models():
    """fairseq-hydra-train gives a model its own keys; a command line all there are, those of a criterion too."""
    mapping = {"_name": "gated_syntax_transformer_tiny", "gate_warmup_epochs": 3, "dropout": 0.2}
    assert SyntaxTransformerConfig.from_namespace(OmegaConf.create(mapping)).syntax.gate.warmup_epochs == 3
    wrong = ("distance_prediction_rat", "upos_label", "tree_mixin", "parent_sigm", "fusion_weigth")
    for key in (*wrong, "gate_warmup_epoch", "cpu_dropout", "slr_temprature", "syntax_mask"):
        with pytest.raises(ValueError, match=rf"{key}: (the model has no such|expected as an) option"):
            SyntaxTransformerConfig.from_namespace(OmegaConf.create({**mapping, key: 3}))
        assert SyntaxTransformerConfig.from_namespace(Namespace(**mapping, **{key: 3})).syntax.gate.warmup_epochs == 3


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


@pytest.mark.parametrize("suffix", ["", "_tiny"])
@pytest.mark.parametrize(
    ("arch", "options"),
    [
        ("relative_position_transformer", {"syntax_masks": "none"}),
        ("tree_bias_transformer", {"syntax_masks": "tree_path,tree_height", "syntax_combination": "product"}),
    ],
)
def test_architectures_differ_from_gated_ones_in_masks_and_position_alone(arch, options, suffix):
    gated, found = Namespace(), Namespace()
    ARCH_CONFIG_REGISTRY[f"gated_syntax_transformer{suffix}"](gated)
    ARCH_CONFIG_REGISTRY[arch + suffix](found)
    assert vars(found) == {**vars(gated), **options, "position_bias": True}

"""The gated model: its gates, options and architectures."""

from __future__ import annotations

import operator
import re
from argparse import ArgumentParser, Namespace
from dataclasses import fields

import pytest
import torch
from fairseq import options
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq.models import ARCH_CONFIG_REGISTRY, ARCH_MODEL_REGISTRY
from fairseq.models.transformer import TransformerConfig
from fairseq.optim import build_optimizer
from omegaconf import OmegaConf
from torch import nn

import systems
from fairseq_syntax.compat import frozen_parameters
from fairseq_syntax.encoder.encoder_options import encoder_options
from fairseq_syntax.models.transformer import SyntaxTransformerModel
from fairseq_syntax.models.transformer_options import SyntaxTransformerConfig
from fairseq_syntax.testing import LABELS
from small import model


@pytest.mark.parametrize(
    ("layers", "numbers"), [("1,3-4", [1, 3, 4]), ("2", [2]), (2, [2]), ("2,top", [2, 5]), (None, [1, 2, 3, 4])]
)
def test_syntax_layers_choose_layers(layers, numbers):
    assert list(model(encoder_layers=4, syntax_layers=layers).syntax_attentions) == numbers


def test_each_syntax_layer_has_a_table_of_its_own_for_the_heads_that_it_biases():
    net = model(encoder_layers=3, syntax_layers="1,3", syntax_masks="tree_path", syntax_heads=2, position_bias=True)
    tables = {(n, name): len(t.weight) for n, a in net.syntax_attentions.items() for name, t in a.tables.items()}
    assert tables == {(n, name): heads for n in (1, 3) for name, heads in (("tree_path", 2), ("position_bias", 4))}


SHARED = {
    "tree_bias_transformer": {},
    "word_position_transformer": {},
    "gated_syntax_transformer": {"syntax_masks": "slr,tree_edge,tree_path", "tree_edge_values": True},
    "tree_bias_roberta": {},
}


@pytest.mark.parametrize("system", SHARED)
def test_layers_that_share_tables_compute_as_with_equal_ones_and_sum_their_gradients(system):
    options = {"encoder_layers": 3, "deprel_labels": " ".join(LABELS), **SHARED[system]}
    shared = systems.model(system, **options, bias_tables_shared=True)
    apart = systems.model(system, **options)
    nn.Module.load_state_dict(apart, shared.state_dict())
    layers = [[net.syntax_attentions[n].tables for n in (1, 2, 3)] for net in (shared, apart)]
    assert all(table is layers[0][0][name] for tables in layers[0] for name, table in tables.items())
    for training in (False, True):
        outputs = []
        for net in (shared.train(training), apart.train(training)):
            torch.manual_seed(1)
            with torch.set_grad_enabled(training):
                outputs.append(net(**systems.batch(system=system))[0])
        torch.testing.assert_close(*outputs)
    for output in outputs:
        output.square().sum().backward()
    for name, table in layers[0][0].items():
        for parameter, value in table.named_parameters():
            of_layers = [getattr(tables[name], parameter).grad for tables in layers[1]]
            torch.testing.assert_close(value.grad, sum(of_layers))
            assert value.grad.any()


def test_a_model_without_tables_has_none_to_share():
    net = systems.model("syntax_infused_transformer", bias_tables_shared=True)
    assert net.syntax_attentions == {}


def test_features_can_be_extracted():
    net = model().eval()
    features, _ = net.extract_features(**systems.batch())
    torch.testing.assert_close(net.decoder.output_layer(features), net(**systems.batch())[0])


@pytest.mark.parametrize("name", ["adadelta", "adafactor", "adagrad", "adamax", "nag", "sgd"])
def test_no_other_optimizer_than_adam_decays_frozen_gates_either(name):
    net = model(gate_warmup_epochs=1).train()
    net.begin_epoch(1)
    given = ["data", "--arch=transformer", f"--optimizer={name}", "--lr=0.1", "--weight-decay=0.5"]
    args = options.parse_args_and_arch(options.get_training_parser(), given)
    optimizer = build_optimizer(convert_namespace_to_omegaconf(args).optimizer, [*net.parameters()])
    before = {name: weight.clone() for name, weight in net.named_parameters()}
    for still in (True, False):
        for _ in range(2):
            optimizer.zero_grad()
            systems.loss(net, systems.batch()).backward()
            with frozen_parameters.frozen(net.frozen_parameters(), optimizer):
                optimizer.step()
        unmoved = {name for name, weight in net.named_parameters() if torch.equal(weight, before[name])}
        assert unmoved == ({name for name in before if ".gate." in name} if still else set())
        net.begin_epoch(2)


INFUSED = {"feature_embeddings": "upos", "upos_labels": "</s> A", "feature_merge": "concatenate"}


@pytest.mark.parametrize(
    ("options", "wrong"),
    [
        ({"syntax_masks": "slr,slr"}, "--syntax-masks: expected some of"),
        ({"syntax_masks": "tree"}, "--syntax-masks: expected some of"),
        ({"syntax_masks": ""}, "--syntax-masks: expected some of .*, found none, which needs --position-bias"),
        ({"syntax_masks": "none,slr", "position_bias": True}, "--syntax-masks: expected some of"),
        ({"syntax_layers": "0-1"}, "--syntax-layers: expected layers within 1-2"),
        ({"syntax_layers": "2-3"}, "--syntax-layers: expected layers within 1-2"),
        ({"syntax_layers": "two"}, "--syntax-layers: expected numbers, ranges such as 3-4, and top"),
        ({"syntax_heads": 5}, "--syntax-heads: expected 1 to 4"),
        ({"syntax_heads": 0}, "--syntax-heads: expected 1 to 4"),
        ({"gate_warmup_epochs": -1}, "--gate-warmup-epochs: expected at least 0"),
        ({"slr_temperature": 0.0}, "--slr-temperature: expected a number above 0"),
        *(({"bias_table_scale": s}, f"--bias-table-scale: expected a number above 0, found {s}") for s in (0.0, -1.0)),
        ({"syntax_dropout": 1.0}, "--syntax-dropout: expected a number below 1"),
        ({"fusion_weight": 2.0}, "--fusion-weight: expected at most 1"),
        ({"encoder_xformers_att_config": "{}"}, "--encoder-xformers-att-config"),
        # From a file of fairseq-hydra-train, which does not know types and choices:
        ({"position_bias": "yes"}, "--position-bias: expected true or false"),
        ({"slr": "sotf"}, "--slr: expected one of soft, hard, strict"),
        ({"gate_hidden_dim": 2.5}, "--gate-hidden-dim: expected an integer"),
        ({"syntax_heads": "some"}, "--syntax-heads: expected an integer"),
        ({**INFUSED, "feature_embeddings": "head"}, "--feature-embeddings: expected some of"),
        ({**INFUSED, "share_all_embeddings": True}, "concatenate: expected without --share-all-embeddings"),
        ({**INFUSED, "feature_embed_dim": 32}, "--feature-embed-dim: expected fewer than"),
        ({**INFUSED, "encoder_embed_path": "x"}, "concatenate: expected without .*--encoder-embed-path"),
        ({**INFUSED, "upos_labels": "A B"}, "--upos-labels: expected </s> and then labels, each once"),
        ({**INFUSED, "upos_labels": "</s> A A"}, "--upos-labels: expected </s> and then labels, each once"),
        ({**INFUSED, "upos_labels": None}, "--upos-labels: expected labels, or --task syntax_translation"),
        ({"syntax_masks": "lisa", "syntax_combination": "product"}, "--syntax-combination product: expected without"),
        ({"supertags": True}, "--supertags: expected with --feature-embeddings, found none"),
        ({**INFUSED, "feature_weight_learned": True}, "--feature-weight-learned: expected with --feature-merge sum"),
        ({**systems.SUPERTAGS, "feature_keys": True, "no_cross_attention": True}, "expected without --no-cross-att"),
        ({**systems.SUPERTAGS, "feature_keys": True, "cross_self_attention": True}, "without --cross-self-attention"),
        ({"distance_prediction": True}, "--distance-prediction: expected with --tree-mixing"),
        ({"absolute_positions": "encoder", "no_token_positional_embeddings": True}, "without --no-token-positional-e"),
        ({"absolute_positions": "none"}, "--absolute-positions: expected one of both, encoder, decoder"),
    ],
    ids=str,
)
def test_impossible_options_are_refused_by_name(options, wrong):
    with pytest.raises(ValueError, match=wrong):
        model(**options)


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


#: What each system's architectures set beside fairseq's options.
OWN = {
    "gated_syntax_transformer": "",
    "relative_position_transformer": "syntax_masks position_bias",
    "word_position_transformer": "syntax_masks syntax_combination position_bias",
    "tree_bias_transformer": "syntax_masks syntax_combination position_bias",
    "tree_label_transformer": "syntax_masks syntax_combination position_bias tree_edge_values feature_embeddings "
    "feature_merge supertags feature_keys",
    "tree_hmm_transformer": "syntax_masks position_bias tree_hmm",
    "distance_transformer": "syntax_masks syntax_combination syntax_layers",
    "pascal_transformer": "syntax_masks syntax_combination syntax_layers",
    "sla_transformer": "syntax_masks syntax_combination",
    "sg_net_transformer": "syntax_masks syntax_combination syntax_layers",
    "syntax_infused_transformer": "syntax_masks feature_embeddings",
    "lisa_transformer": "syntax_masks syntax_combination syntax_layers syntax_heads",
    "seprem_transformer": "syntax_masks tree_mixing distance_prediction parent_prediction",
}


def namespace(name: str) -> dict[str, object]:
    ARCH_CONFIG_REGISTRY[name](args := Namespace())
    return vars(args)


@pytest.mark.parametrize("system", OWN)
def test_architectures_differ_in_syntax_alone_and_those_of_a_data_set_in_sizes_and_dropout(system):
    names = [name for name, kind in ARCH_MODEL_REGISTRY.items() if kind is SyntaxTransformerModel]
    assert {name.partition("transformer")[0] + "transformer" for name in names} == OWN.keys()
    for name in (name for name in names if name.startswith(system)):
        like = "gated_syntax_transformer_tiny" if name.endswith("_tiny") else "transformer"
        found, own = namespace(name), set(OWN[system].split())
        others = {option for option, value in namespace(like).items() if found.pop(option) != value}
        if name in (system, f"{system}_tiny"):
            assert others | found.keys() == own
        else:
            assert all(re.search("embed_dim|heads|dropout|put_dim|normalize_before", option) for option in others)
            assert own <= found.keys() <= {option.key for option in encoder_options()}


#: Architectures of the gated model: sizes, dropout, attention dropout, syntax dropout, epochs of pre-warmup, the
#: gate's width, bias and statistics, ReLU dropout.
PAPER = {
    "iwslt_de_en": (0.4, 80), "iwslt_en_de": (0.0, 50), "nc11_de_en": (0.2, 60), "nc11_en_de": (0.2, 80),
    "wmt18_en_tr": (0.1, 70),
}  # fmt: skip
ARCHITECTURES = {
    "": (512, 2048, 8, 6, 0.1, 0.0, 0.0, 0, None, True, "running", 0.0),
    "_tiny": (64, 128, 4, 2, 0.1, 0.0, 0.0, 0, None, True, "running", 0.0),
    **{f"_{name}": (512, 1024, 4, 6, 0.3, 0.2, *of, 256, False, "running", 0.1) for name, of in PAPER.items()},
    **{f"_{name}_paper": (512, 1024, 4, 6, 0.3, 0.2, *of, 256, False, "batch", 0.1) for name, of in PAPER.items()},
}


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_named_architectures(name):
    cfg = SyntaxTransformerConfig.from_namespace(Namespace(**namespace("gated_syntax_transformer" + name)))
    gate = cfg.syntax.gate
    for side in (cfg.encoder, cfg.decoder):
        assert (
            side.embed_dim, side.ffn_embed_dim, side.attention_heads, side.layers,
            cfg.dropout, cfg.attention_dropout, cfg.syntax.dropout, gate.warmup_epochs,
            gate.hidden_dim, gate.output_bias, gate.statistics, cfg.activation_dropout,
        ) == ARCHITECTURES[name]  # fmt: skip

"""Laws that hold for every system: one test each, over all of them and over variants of the gated one."""

from __future__ import annotations

from random import Random
from unittest.mock import Mock

import pytest
import torch
from torch import nn

import small
import systems
from fairseq_syntax.modules import numerics
from fairseq_syntax.modules.attention import ReferenceAttention
from fairseq_syntax.modules.biases import bias_names
from fairseq_syntax.modules.gates import COMBINATIONS
from fairseq_syntax.modules.syntax_batch import SPECIAL
from fairseq_syntax.modules.trace import SyntaxTrace
from fairseq_syntax.testing import LABELS
from pairwise import pairwise
from small import alone, encode
from systems import ROBERTAS, SUPERVISED, SYSTEMS, as_it_is, no_mixture, shut_gates

GATED = "gated_syntax_transformer"

#: Edges with values.
EDGES = {
    "tree_edge_values": True,
    "tree_category_values": True,
    "deprel_labels": " ".join(LABELS),
    "shared_category_labels": " ".join(LABELS),
}

#: Variants by name: architecture and options.
LEARNED = {
    "position bias alone": ("relative_position_transformer", {}),
    "words and position, product": ("word_position_transformer", {}),
    "trees and position, product": ("tree_bias_transformer", {}),
    "position, pure": (GATED, {"syntax_masks": "position", "syntax_combination": "pure"}),
    "trees, gate": (GATED, {"syntax_masks": "tree_path,tree_height"}),
    "all tables": (GATED, {"syntax_masks": "position,tree_path,tree_height", "syntax_combination": "average"}),
    "labels": ("tree_label_transformer", {}),
    "supertags": ("tree_bias_transformer", systems.SUPERTAGS),
    "weighted supertags": ("tree_bias_transformer", {**systems.SUPERTAGS, "feature_weight_learned": True}),
    "two heads": (GATED, {"syntax_masks": "position,tree_path", "syntax_heads": 2, "position_bias": True}),
}
VARIANTS = {
    **{system: (system, {}) for system in SYSTEMS},
    "average": (GATED, {"syntax_combination": "average", "syntax_dropout": 0.5}),
    "pure": (GATED, {"syntax_combination": "pure", "syntax_dropout": 0.5}),
    "product": (GATED, {"syntax_combination": "product", "position_bias": True}),
    **LEARNED,
    "edges, gate": (GATED, {"syntax_masks": "tree_edge,tree_category,slr", **EDGES}),
}
ALL = {**VARIANTS, **{system: (system, {}) for system in ROBERTAS}}
ALL["supertags_roberta"] = ("gated_syntax_roberta", systems.SUPERTAGS)

every_system = pytest.mark.parametrize("system", [*SYSTEMS, *ROBERTAS])
every_variant = pytest.mark.parametrize("variant", ALL)


def model(variant: str, **options):
    system, of_variant = ALL[variant]
    return systems.model(system, **{**of_variant, **options})


#: Of each system, settings under which it is a stock Transformer: options, and a change of the model.
NEUTRAL = [
    (GATED, {"gate_batch_norm": False}, shut_gates),
    ("pascal_transformer", {"parent_ignoring": 1.0}, as_it_is),  # in training
    ("sla_transformer", {"sla_distance": 30}, as_it_is),
    ("sg_net_transformer", {"fusion_weight": 1.0}, as_it_is),
    ("syntax_infused_transformer", {"awake": False}, as_it_is),
    ("lisa_transformer", {"syntax_combination": "gate", "gate_batch_norm": False}, shut_gates),
    ("seprem_transformer", {}, no_mixture),
    *((system, {**options, "awake": False}, as_it_is) for system, options in LEARNED.values()),  # tables of zeros
]


@pytest.mark.parametrize(
    ("setting", "training", "left_pad", "normalize_before", "implementation"),
    pairwise(
        NEUTRAL, [True, False], [True, False], [True, False], ["reference", "auto", "sdpa"],
        valid=lambda setting, training, *_: training or "parent_ignoring" not in setting[1],
    ),
)  # fmt: skip
def test_a_neutral_setting_equals_stock(setting, training, left_pad, normalize_before, implementation):
    system, options, change = setting
    options = {"encoder_normalize_before": normalize_before, "syntax_attention_impl": implementation, **options}
    stock, ours = systems.with_stock_weights(system, **options)
    change(ours)
    net_input = systems.batch(left_pad=left_pad)
    real = net_input["src_tokens"].ne(1)
    plain = systems.of_stock(net_input)
    expected = encode(stock.train(training), plain)
    assert expected.any()
    torch.testing.assert_close(encode(ours.train(training), net_input)[real], expected[real], rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(ours(**net_input)[0], stock(**plain)[0], rtol=1e-5, atol=1e-5)


#: Variants in which a sentence without a parse has no syntax; on top, masks that need no parse give it none.
OF_PARSES = {
    **{v: VARIANTS[v] for v in (*systems.PARSED, "average", "pure", "trees, gate", "edges, gate")},
    "syntax_infused_transformer": ("syntax_infused_transformer", {"feature_embeddings": "upos"}),
    "supertags": ("gated_syntax_transformer", systems.SUPERTAGS),
    "weighted supertags": ("gated_syntax_transformer", {**systems.SUPERTAGS, "feature_weight_learned": True}),
    "position on top": ("sg_net_transformer", {"syntax_masks": "sdoi,position"}),
    "lisa on top": ("sg_net_transformer", {"syntax_masks": "lisa,sdoi"}),
}


@pytest.mark.parametrize(
    ("variant", "left_pad", "training", "implementation"),
    pairwise(list(OF_PARSES), [True, False], [True, False], ["reference", "shared", "sdpa"]),
)
def test_a_sentence_without_a_parse_is_a_stock_transformers_and_the_others_are_not(
    variant, left_pad, training, implementation
):
    system, options = OF_PARSES[variant]
    stock, ours = systems.with_stock_weights(system, **{**options, "syntax_attention_impl": implementation})
    net_input = systems.batch(left_pad=left_pad)
    training = training and variant != "lisa on top"  # which is taught in training
    expected = encode(stock.train(training), systems.of_stock(net_input))
    difference = (encode(ours.train(training), net_input) - expected).abs()
    difference = (difference * net_input["src_tokens"].ne(1).unsqueeze(2)).amax(dim=(1, 2))
    assert difference[3] < 1e-5
    assert (difference[1:3] > 1e-3).all()


@pytest.mark.parametrize(
    ("variant", "left_pad"),
    pairwise(list(ALL), [True, False], valid=lambda variant, left_pad: not left_pad or "roberta" not in variant),
)
def test_a_sentence_is_the_same_alone_and_beside_any_other(variant, left_pad):
    net = model(variant).eval()
    together = systems.batch(left_pad=left_pad, system=variant)
    found = encode(net, together)
    for row, n in enumerate(together["src_lengths"].tolist()):
        expected = encode(net, alone(together, row, left_pad=left_pad))[0]
        torch.testing.assert_close(found[row, -n:] if left_pad else found[row, :n], expected, rtol=1e-4, atol=1e-5)


@every_variant
def test_every_parameter_begins_finite_and_the_same_from_the_same_seed_and_learns(variant):
    """By options, and by the keys of fairseq-hydra-train; under layer drop, too."""
    one, two = (model(variant, awake=False, seed=9, by_hydra=by_hydra) for by_hydra in (False, True))
    for (name, a), (_, b) in zip(one.state_dict().items(), two.state_dict().items(), strict=True):
        assert a.isfinite().all(), name
        assert torch.equal(a, b), name
    dropping = model(variant, encoder_layers=4, encoder_layerdrop=0.5).train()
    assert all(systems.loss(dropping, systems.batch(system=variant), predictions=True).isfinite() for _ in range(5))
    net = model(variant).train()
    systems.loss(net, systems.batch(system=variant), predictions=True).backward()
    for name, parameter in net.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.isfinite().all(), name
        # The mean over a batch takes away what all of its logits have in common.
        assert parameter.grad.any() or ".gate." in name or name.endswith("k_proj.bias"), name


@every_variant
def test_activation_checkpointing_gives_the_same_gradients_and_statistics(variant):
    nets = [model(variant, checkpoint_activations=c).train() for c in (False, True)]
    nets[1].load_state_dict(nets[0].state_dict())
    for net in nets:
        torch.manual_seed(4)
        systems.loss(net, systems.batch(system=variant), predictions=True).backward()
    for (name, a), (_, b) in zip(nets[0].named_parameters(), nets[1].named_parameters(), strict=True):
        rounding = 1e-5 + 1e-6 * float(a.grad.abs().max())
        torch.testing.assert_close(a.grad, b.grad, rtol=1e-5, atol=rounding, msg=name)
    for (name, a), (_, b) in zip(nets[0].named_buffers(), nets[1].named_buffers(), strict=True):
        torch.testing.assert_close(a, b, msg=name)  # gate statistics moved once, not twice
    scorers = [p.grad for name, p in nets[1].named_parameters() if "scorer" in name or "tree_mixing" in name]
    assert bool(scorers) == (variant in (*SUPERVISED, "seprem_roberta"))
    assert all(gradient.any() for gradient in scorers)


@pytest.mark.parametrize(("checkpoint", "pads"), [(False, True), (True, False), (True, True)])
@pytest.mark.parametrize("system", [GATED, "pascal_transformer", "sg_net_transformer", "tree_bias_transformer"])
def test_what_layers_share_is_computed_once_a_batch(system, checkpoint, pads, monkeypatch):
    """Also where activation checkpointing runs each layer again."""
    seen = []
    padding_bias = Mock(wraps=numerics.padding_bias)
    weights = ReferenceAttention.weights

    def look(self, x, mixture):
        seen.append(mixture.biases.expert_biases(x.dtype, with_global=mixture.has_global_expert))
        return weights(self, x, mixture)

    monkeypatch.setattr(ReferenceAttention, "weights", look)
    monkeypatch.setattr(numerics, "padding_bias", padding_bias)
    options = {"encoder_layers": 3, "syntax_layers": "1-3,top", "syntax_attention_impl": "reference"}
    net = systems.model(system, checkpoint_activations=checkpoint, **options).train()
    random = Random(4)
    net_input = systems.batch() if pads else small.batch([systems.features(random, 6, 8) for _ in range(3)])
    systems.loss(net, net_input).backward()
    assert padding_bias.call_count == pads
    assert len(seen) == 4 * (1 + checkpoint)
    of_each_layer = 1 if system != "tree_bias_transformer" else len(seen)  # it has parameters
    assert len({tensor.data_ptr() for tensor in seen}) == of_each_layer


@pytest.mark.parametrize(("system", "precision"), pairwise([*SYSTEMS, *ROBERTAS], ["float16", "bfloat16", "autocast"]))
def test_half_precision_is_near_float32_also_on_long_padded_rows(system, precision):
    net = systems.model(system).eval()
    random = Random(2)
    sentences = [systems.features(random, 30, 40), systems.features(random, 5, 6)]
    net_input = systems.pairs_of([[s] for s in sentences]) if system in ROBERTAS else small.batch(sentences)
    real = net_input["src_tokens"].ne(1)
    expected = encode(net, net_input)[real]
    if precision == "autocast":
        with torch.autocast("cpu", dtype=torch.bfloat16):
            found = encode(net, net_input)[real].float()
    else:
        found = encode(net.to(getattr(torch, precision)), net_input)[real].float()
    assert found.isfinite().all()
    assert (found - expected).abs().mean() < (0.005 if precision == "float16" else 0.03)


@pytest.mark.parametrize("predictions", [True, False])
@every_system
def test_distributed_data_parallel_finds_no_unused_parameter(system, predictions, process_group):
    """Nor of gates that are frozen."""
    net = systems.model(system, gate_warmup_epochs=1).train()
    net.begin_epoch(1 if predictions else 2)
    parallel = nn.parallel.DistributedDataParallel(net)
    for _ in range(2):  # it would raise in the second pass
        systems.loss(parallel, systems.batch(system=system), predictions=predictions).backward()
    assert all(parameter.grad is not None for parameter in parallel.parameters())
    assert all(parameter.grad.eq(0).all() for parameter in net.frozen_parameters())


@pytest.mark.parametrize("normalize_before", [True, False])
def test_the_attention_of_layers_without_masks_is_traced(normalize_before):
    net = systems.model("syntax_infused_transformer", encoder_normalize_before=normalize_before).eval()
    expected = []
    for layer in net.encoder.layers:
        layer.self_attn.register_forward_pre_hook(
            lambda module, args, given: expected.append(
                type(module).forward(module, *args, **{**given, "need_weights": True})[1]
            ),
            with_kwargs=True,
        )
    net_input, trace = systems.batch(), SyntaxTrace(("attention",))
    net.encoder(net_input["src_tokens"], src_syntax=net_input["src_syntax"], trace=trace)
    found = trace.stacked("attention")
    assert found.shape[:3] == (4, 2, 4)
    torch.testing.assert_close(found.mean(dim=2), torch.stack(expected, dim=1))


@every_system
def test_missing_features_are_named_and_labels_are_not_missed(system):
    net = systems.model(system).train()
    whole = systems.batch(system=system)
    net_input = systems.of_stock(whole)
    if not net.syntax_features:
        assert systems.loss(net, net_input, predictions=True).isfinite()
        return
    needed = [*net.syntax_features, *([SPECIAL] if system in ROBERTAS else [])]
    features = {name: whole["src_syntax"][name] for name in needed}
    net.eval()(**net_input, src_syntax=features)  # no other feature is needed
    for given in (features, {}):
        missing = [name for name in needed if name not in given or name == needed[-1]]
        features = {name: given[name] for name in needed if name not in missing}
        with pytest.raises(ValueError, match=rf"missing: {', '.join(missing)}\. Does"):
            net(**net_input, src_syntax=features or None)


@pytest.mark.parametrize(
    ("mask", "combination", "other"),
    pairwise(
        bias_names(), COMBINATIONS, ["", "slr", "sdoi"],
        valid=lambda mask, combination, other: mask != other and (mask != "lisa" or combination != "product"),
    ),
)  # fmt: skip
def test_every_mask_trains_under_every_combination_and_with_another(mask, combination, other):
    options = {"syntax_masks": f"{mask},{other}" if other else mask, "syntax_combination": combination, "slr": "hard"}
    net = small.model(**options, syntax_layers="1,top", **EDGES).train()
    found = systems.loss(net, systems.batch(), predictions=True)
    found.backward()
    assert found.isfinite()
    assert all(p.grad.isfinite().all() for p in net.parameters())


def test_the_parsers_heads_are_forced_where_they_are_taught_alone():
    """A batch has heads for other masks, too."""
    nets = [systems.model("lisa_transformer", syntax_masks="lisa,sdoi", lisa_teacher_forcing=f) for f in (True, False)]
    nets[1].load_state_dict(nets[0].state_dict())
    taught, untaught = (
        [encode(net.train(), {**systems.batch(), "predictions": p}) for net in nets] for p in (True, False)
    )
    assert torch.equal(*untaught)
    assert not torch.allclose(*taught)


#: Options of each system that must reach what the encoder computes: in training, in evaluation.
REACHES = [
    (GATED, "slr", "hard"),
    (GATED, "sdoi_subwords", "first"),
    (GATED, "syntax_combination", "average"),
    (GATED, "syntax_dropout", 0.25),
    (GATED, "gate_hidden_dim", 5),
    (GATED, "gate_output_bias", False),
    (GATED, "gate_batch_norm_statistics", "batch"),
    (GATED, "gate_batch_norm_eps", 0.5),
    (GATED, "position_bias", True),
    ("distance_transformer", "slr_temperature", 1.0),
    ("distance_transformer", "syntax_heads", 2),
    ("distance_transformer", "syntax_layers", "2"),
    ("pascal_transformer", "parent_sigma", 3.0),
    ("pascal_transformer", "parent_ignoring", 0.5),
    ("pascal_transformer", "syntax_heads", 1),
    ("sla_transformer", "sla_distance", 2),
    ("sla_transformer", "sla_neighbours", False),
    ("sg_net_transformer", "fusion", "top"),
    ("sg_net_transformer", "fusion", "concatenate"),
    ("sg_net_transformer", "fusion", "bi-attention"),
    ("sg_net_transformer", "fusion_weight", 0.9),
    ("sg_net_transformer", "sdoi_subwords", "first"),
    ("sg_net_transformer", "syntax_masks", "none"),
    ("syntax_infused_transformer", "feature_embeddings", "upos"),
    ("syntax_infused_transformer", "feature_merge", "concatenate"),
    ("syntax_infused_transformer", "supertags", True),
    ("lisa_transformer", "lisa_hidden_dim", 3),
    ("lisa_transformer", "lisa_teacher_forcing", False),
    ("lisa_transformer", "syntax_layers", "2"),
    ("seprem_transformer", "tree_mixing_weight", 0.5),
    ("seprem_transformer", "tree_mixing_activation", "sigmoid"),
    ("seprem_transformer", "distance_prediction_rate", 1.0),
    ("seprem_transformer", "distance_prediction", False),
    ("seprem_transformer", "tree_mixing_plain", True),
    ("gated_syntax_roberta", "special_tokens", "words"),
    ("tree_bias_transformer", "bias_table_scale", 3.0),
    ("relative_position_roberta", "bias_table_scale", 3.0),
    ("word_position_transformer", "bias_tables_shared", True),
    ("sg_net_roberta", "special_tokens", "open"),
    ("pos_roberta", "feature_embeddings", "upos,case"),
]


@pytest.mark.parametrize(("system", "option", "value"), REACHES)
def test_every_option_reaches_the_computation(system, option, value):
    base, changed = systems.model(system), systems.model(system, **{option: value})
    shapes = {name: p.shape for name, p in changed.state_dict().items()}
    state = {name: p for name, p in base.state_dict().items() if shapes.get(name) == p.shape}
    nn.Module.load_state_dict(changed, state, strict=False)
    if option == "tree_mixing_weight":
        changed.syntax_encoder.tree_mixing.weight.data.fill_(value)
    outputs = []
    for net in (base.train(), changed.train()):
        torch.manual_seed(1)
        inputs = {name: v for name, v in systems.batch(system=system).items() if name != "prev_output_tokens"}
        outputs.append(net.syntax_encoder(**inputs, predictions=True)["encoder_out"][0])
    assert (outputs[0] - outputs[1]).abs().max() > 1e-4


def gate(masks: int, d: int = 512, hidden: int = 64, heads: int = 8) -> int:
    return d * hidden + 3 * hidden + (hidden + 3) * masks * heads


#: Parameters beside a stock Transformer's, at 512/2048/8 and six layers.
ADDED = {
    "gated_syntax_transformer": 6 * gate(1),
    "relative_position_transformer": 6 * 8 * 45,
    "word_position_transformer": 6 * 8 * (45 + 9),
    "tree_bias_transformer": 6 * 8 * (45 + 52 + 25),
    "tree_label_transformer": 6 * (8 * (45 + 52 + 25) + (8 + 64) * 5 * 5) + (4 * 4 + 11) * 512 + 512**2,
    "tree_hmm_transformer": 6 * 8 * 45 + 5 * 512**2 + 1 + 2 * (4 * 32 * 512 + 18 * 32 + 32 + 513),
    "distance_transformer": 0,
    "pascal_transformer": 0,
    "sla_transformer": 6 * 513,
    "sg_net_transformer": 4 * (512**2 + 512) + 2 * 512 * 2048 + 2048 + 512 + 4 * 512,
    "lisa_transformer": 69_824,
    "seprem_transformer": 6 * 2 * 512**2 + 1 + 2 * 512 * 17 + 17 + 69_824,
}


@pytest.mark.parametrize("system", ADDED)
def test_added_parameters_are_those_of_the_definition(system):
    sizes = {
        "encoder_embed_dim": 512, "encoder_ffn_embed_dim": 2048, "encoder_attention_heads": 8, "encoder_layers": 6,
        "decoder_embed_dim": 512, "decoder_ffn_embed_dim": 64, "decoder_layers": 1, "encoder_learned_pos": True,
        "decoder_learned_pos": True,
    }  # fmt: skip
    with torch.device("meta"):
        nets = small.model(system, **sizes, **systems.LABELLED.get(system, {})), small.model("transformer", **sizes)
        counts = [sum(p.numel() for p in net.parameters()) for net in nets]
    assert counts[0] - counts[1] == ADDED[system]

"""RoBERTa with syntax: equal to stock where nothing is asked of a parse, and what heads read elsewhere."""

from __future__ import annotations

import copy
import logging
import re
from argparse import Namespace
from random import Random
from types import SimpleNamespace

import pytest
import torch
from fairseq.models import ARCH_CONFIG_REGISTRY, build_model
from fairseq.models.roberta import model as stock_roberta
from omegaconf import OmegaConf

import small
import systems
from fairseq_syntax.checkpoints.recorded_options import incompatible_options
from fairseq_syntax.encoder.attention import SyntaxAttention
from fairseq_syntax.encoder.encoder_options import SyntaxEncoderOptions
from fairseq_syntax.models import roberta
from fairseq_syntax.models.roberta_options import SyntaxRobertaConfig
from fairseq_syntax.modules.biases import BiasBuilder, SyntacticDependencyOfInterest
from fairseq_syntax.modules.pooling import marker_states, mean_state
from fairseq_syntax.modules.syntax_batch import SyntaxBatch
from fairseq_syntax.modules.trace import SyntaxTrace
from pairwise import pairwise
from systems import ROBERTAS, as_it_is, no_mixture, shut_gates

every_roberta = pytest.mark.parametrize("system", ROBERTAS)


def with_head(net, classes=2):
    net.register_classification_head("label", classes)
    for parameter in net.classification_heads.parameters():
        parameter.data.normal_(generator=torch.Generator().manual_seed(3))
    return net


def logits(net, net_input):
    return net(**net_input, classification_head_name="label")[0]


#: Settings under which a system is stock RoBERTa: options, a change of the model, and how far rounding may differ.
NEUTRAL = {
    "sg_net_roberta": ({"fusion_weight": 1.0}, as_it_is, 0),
    "seprem_roberta": ({}, no_mixture, 0),
    "pos_roberta": ({"awake": False}, as_it_is, 0),
    "gated_syntax_roberta": ({"gate_batch_norm": False}, shut_gates, 1e-5),
    "sla_roberta": ({}, shut_gates, 1e-5),
    "relative_position_roberta": ({"awake": False}, as_it_is, 1e-5),
    "tree_bias_roberta": ({"awake": False}, as_it_is, 1e-5),
}


@pytest.mark.parametrize(("system", "training"), pairwise(list(ROBERTAS), [False, True]))
def test_a_neutral_setting_equals_stock(system, training):
    """In masked LM and classification; in training under dropout, from the same seed."""
    options, change, rounding = NEUTRAL[system]
    dropout = {"dropout": 0.1} if training else {}
    stock, ours = systems.with_stock_weights(system, pooling="first", **dropout, **options)
    change(ours)
    net_input = systems.pairs()
    masked = torch.zeros_like(net_input["src_tokens"], dtype=torch.bool)
    masked[:, 1:3] = True
    found = []
    for net, given in ((with_head(stock), systems.of_stock(net_input)), (with_head(ours), net_input)):
        net.train(training)
        outputs = []
        for more in ({"masked_tokens": masked}, {"classification_head_name": "label"}):
            torch.manual_seed(5)
            outputs.append(net(**given, **more)[0])
        found.append(outputs)
    for one, other in zip(*found, strict=True):
        assert one.any()
        torch.testing.assert_close(one, other, rtol=rounding, atol=rounding)


@pytest.mark.parametrize("system", [s for s in ROBERTAS if "position" not in s and "bias" not in s])
def test_an_example_without_a_parse_is_stocks_and_the_others_are_not(system):
    stock, ours = systems.with_stock_weights(system, sla_distance=0)  # so that it hides in short sentences, too
    net_input = systems.pairs()
    with torch.no_grad():
        found, expected = ours.eval()(**net_input)[0], stock.eval()(**systems.of_stock(net_input))[0]
    difference = (found - expected).abs() * net_input["src_tokens"].ne(1).unsqueeze(2)
    assert difference[3].max() <= 10 * NEUTRAL[system][2]  # exactly stock's, but where attention is computed otherwise
    assert (difference[:3].amax(dim=(1, 2)) > 1e-2).all()


def changed_tree(net_input):
    """The same tokens, with other trees and parts of speech of the words of the first example's second sentence."""
    random = Random(2)
    other = copy.deepcopy(net_input)
    n = int(net_input["src_lengths"][0])
    syntax = {name: values[0, :n] for name, values in other["src_syntax"].items()}
    begin = int((syntax["special"] == 1).nonzero()[2]) + 1
    words = syntax["word"][begin:-1].unique().tolist()
    for number, word in enumerate(words):
        at = syntax["word"] == word
        syntax["head"][at] = words[(number + 1) % len(words)] + 1 if number else 0
        syntax["upos"][at] = 1 + syntax["upos"][at] % 3
        syntax["distance"][at] = torch.where(syntax["distance"][at] > 0, random.randint(1, 9), 0)
    syntax["head"][syntax["word"] == words[-1]] = words[0] + 1
    return other


@pytest.mark.parametrize("system", [s for s in ROBERTAS if s != "relative_position_roberta"])
@pytest.mark.parametrize("special", ["open", "words"])
@pytest.mark.parametrize("pooling", ["first", "mean"])
def test_a_parse_reaches_the_label(system, special, pooling, caplog):
    """But for a state of <s> that only a layer on top computes from parses: there the difference is exactly 0."""
    with caplog.at_level(logging.WARNING):
        net = with_head(systems.model(system, special_tokens=special, pooling=pooling)).eval()
    net_input = systems.pairs()
    found, other = logits(net, net_input), logits(net, changed_tree(net_input))
    lost = system == "sg_net_roberta" and pooling == "first"
    assert torch.equal(found, other) == lost
    assert lost or (found[0] - other[0]).abs().max() > 1e-3
    assert ("no parse reaches" in caplog.text) == lost


@pytest.mark.parametrize("special", ["open", "words"])
def test_a_word_sees_no_other_segment_under_sdoi(special):
    net = systems.model("gated_syntax_roberta", syntax_masks="sdoi", syntax_combination="pure", special_tokens=special)
    net_input, trace = systems.pairs(), SyntaxTrace(("attention",))
    net.eval()(**net_input, trace=trace)
    attention = trace.stacked("attention")[0]  # (layers, heads, n, n)
    special_tokens = net_input["src_syntax"]["special"][0] == 1
    segment = (special_tokens.cumsum(0) > 1).long()
    word = ~special_tokens & (net_input["src_tokens"][0] != 1)
    across = (segment[:, None] != segment) & word[:, None] & word
    assert across.any()
    assert not attention[:, :, across].any()
    assert (attention.diagonal(dim1=2, dim2=3)[..., word] > 0).all()
    to_special = attention[:, :, word][..., special_tokens]
    assert bool(to_special.any()) == (special == "open")


#: Parameters beside stock's of base size and of large size.
ADDED = {
    "sg_net_roberta": (7_087_872, 12_596_224),
    "seprem_roberta": (14_155_777, 50_331_649),
    "pos_roberta": (13_824, 18 * 1024),
    "relative_position_roberta": (12 * 12 * 45, 24 * 16 * 45),
    "tree_bias_roberta": (12 * 12 * (45 + 52 + 25), 24 * 16 * (45 + 52 + 25)),
    "sla_roberta": (12 * 769, 24 * 1025),
}


def parameters(arch):
    args = Namespace(arch=arch, max_positions=512, upos_labels=" ".join(["</s>", *map(str, range(17))]))
    with torch.device("meta"):
        net = build_model(args, SimpleNamespace(source_dictionary=small.dictionary()))
    return sum(parameter.numel() for parameter in net.parameters())


@pytest.mark.parametrize("system", ADDED)
def test_added_parameters_are_those_of_the_definition(system, monkeypatch):
    for module in (roberta, stock_roberta):
        monkeypatch.setattr(module, "init_bert_params", lambda _: None)  # draws on the CPU
    base = parameters(f"{system}_base")
    assert (base - parameters("roberta_base"), parameters(f"{system}_large") - parameters("roberta_large")) == (
        ADDED[system]
    )
    assert parameters(system) == base


@pytest.mark.parametrize("untied", [False, True])
def test_masked_lm_reads_the_embeddings_of_tokens_below_those_of_features(untied):
    net = systems.model("pos_roberta", untie_weights_roberta=untied).eval()
    assert (net.encoder.lm_head.weight is net.syntax_encoder.embed_tokens.weight) != untied
    net_input = systems.pairs()
    found, other = (net(**given)[0] for given in (net_input, changed_tree(net_input)))
    assert (found[0] - other[0]).abs().max() > 1e-3


def test_the_mean_is_of_subwords():
    x = torch.tensor([[[9.0, 9], [1, 0], [3, 2], [5, 1], [7, 7], [8, 8]]])
    chosen = torch.tensor([[0, 1, 1, 1, 0, 0]]) == 1
    assert mean_state(x, chosen).tolist() == [[3, 1]]
    assert mean_state(x, chosen & False).tolist() == [[0, 0]]


def test_special_tokens_are_told_by_the_batch_or_by_their_numbers():
    net = with_head(systems.model("relative_position_roberta", pooling="mean")).eval()
    net_input = systems.pairs()
    torch.testing.assert_close(logits(net, net_input), logits(net, systems.of_stock(net_input)))
    net_input["src_syntax"]["special"][:, 2] = 1
    assert (logits(net, net_input) - logits(net, systems.of_stock(net_input))).abs().max() > 1e-3


def test_markers_are_their_first_occurrences():
    """<s> m₀ Bill m₀ founded m₁ Acme m₁ </s>"""
    tokens = torch.tensor([[0, 10, 20, 10, 21, 11, 22, 11, 2]])
    x = torch.arange(9.0).view(1, 9, 1) + torch.tensor([0, 100])
    assert marker_states(x, tokens, [10, 11]).tolist() == [[1, 101, 5, 105]]
    assert marker_states(x, tokens, [11]).tolist() == [[5, 105]]
    with pytest.raises(ValueError, match=r"expected marker 2 of 2 in each example, found none in example 0 of the"):
        marker_states(x[:, :5], tokens[:, :5], [10, 11])
    net = with_head(systems.model("tree_bias_roberta", pooling="markers", markers="s10,s11"), classes=3).eval()
    assert net.classification_heads["label"].dense.weight.shape == (32, 64)
    with_markers = systems.pairs()
    with_markers["src_tokens"][:, 1:3] = torch.tensor([10, 11])
    states, _ = net(**with_markers, features_only=True)
    expected = net.classification_heads["label"](states[:, 1:3].flatten(1).unsqueeze(1))
    torch.testing.assert_close(logits(net, with_markers), expected)


@pytest.mark.parametrize(
    ("head", "states", "mean"),
    [([0, 0, 2], [[1, 0], [0, 1], [0.6698, 1]], [0.3349, 1]), ([0, 3, 0], [[1, 0], [0.5, 1], [1, 1]], [0.75, 1])],
)
def test_the_state_of_a_special_token_is_the_same_under_both_trees_of_two_words(head, states, mean):
    """SG-Net's attention of one head, q = k = v = x, by hand; the mean of the words differs."""
    attention = SyntaxAttention(2, SyntaxEncoderOptions(masks="sdoi", combination="pure", encoder_heads=1)).eval()
    for projection in (attention.q_proj, attention.k_proj, attention.v_proj, attention.out_proj):
        projection.weight.data, projection.bias.data = torch.eye(2), torch.zeros(2)
    features = {"word": [0, 1, 2], "head": head, "special": [1, 0, 0]}
    batch = SyntaxBatch({name: torch.tensor([row]) for name, row in features.items()})
    x = torch.tensor([[1.0, 0], [0, 1], [1, 1]]).unsqueeze(1)
    biases = BiasBuilder([SyntacticDependencyOfInterest()], opens_special=False)(batch)
    found = attention(x, biases)[0].transpose(0, 1)
    torch.testing.assert_close(found[0], torch.tensor(states).float(), atol=5e-5, rtol=0)
    torch.testing.assert_close(mean_state(found, ~batch.special)[0], torch.tensor(mean).float(), atol=5e-5, rtol=0)


#: Options that are refused, and what the error says.
REFUSED = [
    ({"feature_embeddings": "case", "feature_merge": "concatenate"}, "--feature-merge concatenate: expected sum"),
    ({"pooling": "last"}, "--pooling: expected one of first, mean, markers"),
    ({"pooling": "markers"}, "--markers: expected one or two different symbols, found None"),
    ({"pooling": "markers", "markers": "s5,s5"}, "--markers: expected one or two different symbols"),
    ({"pooling": "markers", "markers": "s5,s6,s7"}, "--markers: expected one or two different symbols"),
    ({"pooling": "markers", "markers": "s5,nowhere"}, "--markers: expected symbols of the dictionary, found 'nowhere'"),
    ({"special_tokens": "shut"}, "--special-tokens: expected one of open, words"),
    ({**systems.SUPERTAGS, "feature_keys": True}, "--feature-keys: expected a translation model"),
    ({"feature_embeddings": "upos"}, "--upos-labels: expected labels, or --task syntax_translation or another"),
    ({"by_hydra": True, "decoder_layers": 3}, "decoder_layers: expected options of an encoder"),
    ({"by_hydra": True, "syntax_mask": "slr"}, "syntax_mask: the model has no such option"),
    ({"by_hydra": True, "pooling_of": "mean"}, "pooling_of: the model has no such option"),
]


@pytest.mark.parametrize(("options", "wrong"), REFUSED, ids=str)
def test_impossible_options_are_refused_by_name(options, wrong):
    with pytest.raises(ValueError, match=re.escape(wrong)):
        small.model("gated_syntax_roberta", **options)


def test_a_checkpoint_records_its_options():
    net = small.model("sg_net_roberta")
    assert (net.args.special_tokens, net.args.pooling, net.args.syntax_layers) == ("words", "mean", "top")
    other = Namespace(**{**vars(net.args), "pooling": "first", "special_tokens": "open", "fusion_weight": 0.25})
    assert sorted(incompatible_options(net.args, other)) == [
        ("--fusion-weight", 0.5, 0.25), ("--pooling", "mean", "first"), ("--special-tokens", "words", "open")
    ]  # fmt: skip
    stock = small.model("roberta").args
    assert incompatible_options(stock, net.args)[0] == ("--arch", "roberta", "syntax_roberta")
    again = SyntaxRobertaConfig.from_namespace(OmegaConf.create(vars(net.args) | {"task": "any"}))
    assert again.semantics == SyntaxRobertaConfig.from_namespace(net.args).semantics


@every_roberta
def test_parts_that_a_checkpoint_lacks_start_fresh_and_are_named(system, caplog):
    with caplog.at_level(logging.INFO, logger="fairseq_syntax"):
        systems.with_stock_weights(system)
    parts = {
        "sg_net_roberta": ["top"], "seprem_roberta": ["tree_mixing", "predictor"],
        "pos_roberta": ["embed_tokens.tables"], "gated_syntax_roberta": ["gate"], "sla_roberta": ["gate"],
        "relative_position_roberta": ["position_bias"], "tree_bias_roberta": ["experts", "position_bias"],
    }[system]  # fmt: skip
    lines = [line for line in caplog.messages if "start fresh" in line]
    assert [re.match(r"the checkpoint has no (\S+);", line)[1] for line in lines] == parts


def test_a_predictor_is_left_out_and_another_part_that_the_model_lacks_refused():
    learned = systems.model("seprem_roberta")
    plain = systems.model("seprem_roberta", parent_prediction=False, distance_prediction=False)
    plain.load_state_dict(dict(learned.state_dict()), strict=True)
    net_input = systems.pairs()
    torch.testing.assert_close(plain.eval()(**net_input)[0], learned.eval()(**net_input)[0])
    for system, other, option in (
        ("seprem_roberta", "sg_net_roberta", "--tree-mixing"),
        ("sg_net_roberta", "sla_roberta", "--syntax-layers"),
        ("pos_roberta", "sg_net_roberta", "--feature-embeddings"),
        ("tree_bias_roberta", "pos_roberta", "--syntax-masks"),
    ):
        with pytest.raises(ValueError, match=rf"which the model lacks: give .*{option}"):
            systems.model(other).load_state_dict(dict(systems.model(system).state_dict()), strict=True)


def test_parses_are_predicted_where_masked_lm_learns_to():
    for criterion, predicts in (("masked_lm_with_syntax", True), ("sentence_prediction", False)):
        args = Namespace(criterion=criterion)
        ARCH_CONFIG_REGISTRY["seprem_roberta"](args)
        assert (args.tree_mixing, args.distance_prediction, args.parent_prediction) == (True, predicts, predicts)


def test_a_pruned_model_is_recorded_as_the_smaller_one():
    whole = systems.model("seprem_roberta", encoder_layers=3)
    pruned = systems.model("seprem_roberta", encoder_layers=3, encoder_layers_to_keep="0,2")
    cfg = OmegaConf.create({"_name": "seprem_roberta", **vars(pruned.args)})
    pruned.load_state_dict(dict(whole.state_dict()), strict=True, model_cfg=cfg)
    assert (pruned.args.encoder_layers, len(pruned.syntax_encoder.layers)) == (2, 2)
    kept = [whole.syntax_encoder.layers[i].fc1.weight for i in (0, 2)]
    assert all(torch.equal(a.fc1.weight, b) for a, b in zip(pruned.syntax_encoder.layers, kept, strict=True))

"""Decoders with features of the source in keys of cross-attention, or relative positions, and a law of all decoders."""

from __future__ import annotations

import pytest
import test_tree_hmm
import torch
from fairseq.models.transformer import TransformerDecoderBase
from fairseq.modules.transformer_layer import TransformerDecoderLayerBase
from torch import nn

import small
import systems
from fairseq_syntax.models.decoder import FeatureKeyDecoder
from fairseq_syntax.models.position_attention import PositionBiasAttention

SYSTEM = "tree_bias_transformer"
KEYS = {**systems.SUPERTAGS, "feature_keys": True}


def test_without_the_option_it_is_fairseqs():
    decoder = systems.model(SYSTEM, **systems.SUPERTAGS).decoder
    assert type(decoder) is TransformerDecoderBase
    assert type(decoder.layers[0]) is TransformerDecoderLayerBase
    keys = systems.model(SYSTEM, **KEYS).decoder
    assert type(keys) is FeatureKeyDecoder
    assert {name: p.shape for name, p in keys.named_parameters()} == {n: p.shape for n, p in decoder.named_parameters()}


def test_keys_have_features_and_values_have_none():
    """K = W_K (H + W t), V = W_V H, as one layer's attention computes them in generation and caches them."""
    net = systems.model(SYSTEM, **KEYS).eval()
    net_input, state = systems.batch(), {}
    out = net.encoder(net_input["src_tokens"], src_syntax=net_input["src_syntax"])
    net.decoder(net_input["prev_output_tokens"][:, :1], encoder_out=out, incremental_state=state)
    attention = net.decoder.layers[0].encoder_attn
    cached = attention._get_input_buffer(state)
    h, t = out["encoder_out"][0], net.encoder.embed_tokens.of_features(net_input["src_syntax"]).transpose(0, 1)
    keys = attention.k_proj.weight @ (h + 32**0.5 * t @ net.encoder.feature_keys.weight.T).unsqueeze(3)
    values = attention.v_proj.weight @ h.unsqueeze(3)
    for name, expected, projection in (
        ("prev_key", keys, attention.k_proj),
        ("prev_value", values, attention.v_proj),
    ):
        found = cached[name].permute(2, 0, 1, 3).flatten(2)  # of heads, (batch, heads, n, head_dim)
        torch.testing.assert_close(found, expected.squeeze(3) + projection.bias, rtol=1e-4, atol=1e-5)
    without = attention.k_proj(torch.cat([h, torch.zeros_like(h)], dim=2))
    assert (without - keys.squeeze(3) - attention.k_proj.bias).abs().amax(dim=(0, 2))[:3].min() > 0.1


#: Relative positions in the decoder, and no absolute ones.
RELATIVE = {"decoder_position_bias": True, "no_token_positional_embeddings": True}

#: Models by their decoders: architecture and options.
DECODERS = {
    "feature keys": (SYSTEM, KEYS),
    "relative positions": (SYSTEM, RELATIVE),
    "relative positions, feature keys": (SYSTEM, {**KEYS, **RELATIVE}),
    "relative positions, tree HMM": (test_tree_hmm.SYSTEM, RELATIVE),
    **{f"tree HMM, {name}": (test_tree_hmm.SYSTEM, options) for name, options in test_tree_hmm.VARIANTS.items()},
}


@pytest.mark.parametrize("precision", ["float32", "autocast"])
@pytest.mark.parametrize("name", DECODERS)
def test_generation_step_by_step_with_reordered_beams_equals_one_pass(name, precision):
    system, options = DECODERS[name]
    net, net_input = systems.model(system, decoder_layers=2, **options).eval(), systems.batch()
    beams = torch.arange(4).repeat_interleave(2)  # two a sentence
    order = torch.tensor([1, 0, 2, 2, 7, 6])  # the third sentence has ended
    within = torch.tensor([1, 0, 3, 2, 5, 5])
    tokens = torch.randint(5, 40, (8, 6), generator=torch.Generator().manual_seed(1))
    tokens[:, 0] = small.dictionary().eos()
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=precision == "autocast"), torch.no_grad():
        out = net.encoder(net_input["src_tokens"], src_syntax=net_input["src_syntax"])
        out = net.encoder.reorder_encoder_out(out, beams)
        left = net.encoder.reorder_encoder_out(out, order)
        expected, _ = net.decoder(tokens[order][within], encoder_out=left)
        state = {}
        for step in range(1, 4):
            net.decoder(tokens[:, :step], encoder_out=out, incremental_state=state)
        for reordered in (order, within):
            net.decoder.reorder_incremental_state_scripting(state, reordered)
        for step in range(4, 7):
            logits, _ = net.decoder(tokens[order][within][:, :step], encoder_out=left, incremental_state=state)
            tolerance = 1e-5 if precision == "float32" else 0.1
            torch.testing.assert_close(logits[:, -1], expected[:, step - 1], rtol=tolerance, atol=tolerance)


def test_relative_positions_in_the_decoder_begin_as_fairseqs_attention_and_matter():
    net, net_input = systems.model(SYSTEM, **RELATIVE).eval(), systems.batch()
    tables = [layer.self_attn.relative_position for layer in net.decoder.layers]
    found = net(**net_input)[0]
    stock = systems.model(SYSTEM, no_token_positional_embeddings=True).eval()
    stock.load_state_dict({k: v for k, v in net.state_dict().items() if "relative_position" not in k})
    expected = stock(**net_input)[0]
    assert (found - expected).abs().max() > 0.01
    tokens = net_input["prev_output_tokens"]
    padding = torch.full((len(tokens), 2), small.dictionary().pad())
    padded = net(**{**net_input, "prev_output_tokens": torch.cat([padding, tokens], dim=1)})[0]
    torch.testing.assert_close(padded[:, 2:], found, rtol=1e-5, atol=1e-5)
    for table in tables:
        nn.init.zeros_(table.weight)
    torch.testing.assert_close(net(**net_input)[0], expected, rtol=1e-4, atol=1e-5)


def test_relative_positions_in_the_decoder_are_those_of_tokens_before():
    """Scores by hand, of two tokens after padding: the second sees the first one to the left."""
    attention = PositionBiasAttention(4, 1, scale=2.0).eval()
    nn.init.zeros_(attention.k_proj.weight), nn.init.zeros_(attention.k_proj.bias)  # b alone
    attention.relative_position.weight.data[0, 21] = 1.5  # one to the left, times the scale
    x = torch.randn(3, 1, 4, generator=torch.Generator().manual_seed(1))
    padding, future = torch.tensor([[True, False, False]]), torch.full((3, 3), -torch.inf).triu(1)
    output, _ = attention(x, x, x, key_padding_mask=padding, attn_mask=future)
    values = attention.v_proj(x)
    share = 1 / (1 + torch.tensor(-3.0).exp())
    expected = attention.out_proj(share * values[1] + (1 - share) * values[2])
    torch.testing.assert_close(output[2], expected)
    torch.testing.assert_close(output[1], attention.out_proj(values[1]))
    assert not output.isnan().any()  # of padding, which sees nothing, and which later layers multiply by 0


@pytest.mark.parametrize("side", ["encoder", "decoder"])
def test_absolute_positions_of_one_side_alone(side):
    other = {"encoder": "decoder", "decoder": "encoder"}[side]
    learned = {"encoder_learned_pos": True, "decoder_learned_pos": True}
    both = systems.model(SYSTEM, **learned).eval()
    one = systems.model(SYSTEM, **learned, absolute_positions=side).eval()
    gone = f"{other}.embed_positions.weight"
    assert both.state_dict().keys() - one.state_dict().keys() == {gone}
    one.load_state_dict({key: value for key, value in both.state_dict().items() if key != gone})
    net_input = systems.batch()
    expected = both(**net_input)[0]
    assert (one(**net_input)[0] - expected).abs().max() > 0.01
    getattr(one, other).embed_positions = getattr(both, other).embed_positions
    torch.testing.assert_close(one(**net_input)[0], expected)


@pytest.mark.parametrize(
    ("system", "options", "expected"),
    [
        (SYSTEM, {"cross_self_attention": True}, "expected without --cross-self-attention"),
        (SYSTEM, {"decoder_xformers_att_config": "{}"}, "expected without --decoder-xformers-att-config"),
        ("tree_bias_roberta", {}, "expected a translation model; RoBERTa has no decoder"),
    ],
)
def test_relative_positions_need_a_decoder_with_fairseqs_self_attention(system, options, expected):
    with pytest.raises(ValueError, match=f"--decoder-position-bias: {expected}"):
        small.model(system, decoder_position_bias=True, **options)


def test_absolute_positions_of_one_side_need_two():
    with pytest.raises(ValueError, match="--absolute-positions: expected a translation model"):
        small.model("tree_bias_roberta", absolute_positions="encoder")

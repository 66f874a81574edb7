"""Cross-attention that walks the source's tree, and the decoder around it."""

from __future__ import annotations

from random import Random

import pytest
import torch
from fairseq.sequence_generator import SequenceGenerator

import small
import systems
from fairseq_syntax.encoder.encoder import PADDING, WALKS
from fairseq_syntax.models.decoder import TreeDecoder
from fairseq_syntax.modules.biases import TreeWalk
from pairwise import pairwise
from small import alone

SYSTEM = "tree_walk_transformer"
#: Variants of the decoder: all of 2 heads walk, or one; windows of self-attention.
VARIANTS = {
    "all heads": {},
    "window of 2": {"target_window": 2},
    "one head": {"tree_cross_attention_heads": 1, "target_window": 3},
    "beside positions": {"no_token_positional_embeddings": False, "target_window": None},
    "norm before": {"decoder_normalize_before": True, "encoder_normalize_before": True},
}
every_variant = pytest.mark.parametrize("variant", VARIANTS)


def model(variant: str = "all heads", **options):
    return systems.model(SYSTEM, **{"decoder_layers": 2, **VARIANTS[variant], **options}).eval()


def encoder_out(net, net_input):
    return net.encoder(net_input["src_tokens"], src_syntax=net_input["src_syntax"])


def output_tokens(rows: int, length: int = 6) -> torch.Tensor:
    tokens = torch.randint(5, 40, (rows, length), generator=torch.Generator().manual_seed(1))
    tokens[:, 0] = small.dictionary().eos()
    return tokens


@pytest.mark.parametrize("walking", [1, 2])
def test_scores_are_those_of_the_definition(walking):
    """By loops over positions, of one layer's attention."""
    net = model(tree_cross_attention_heads=walking)
    net_input, tokens = systems.batch(left_pad=True), output_tokens(4)
    out = encoder_out(net, net_input)
    attention = net.decoder.layers[0].encoder_attn
    h, e = out["encoder_out"][0], net.decoder.embed_scale * net.decoder.embed_tokens(tokens).transpose(0, 1)
    p = e.clone()
    p[1:] += e[:-1] @ net.decoder.walk_before.weight.T
    states = torch.randn(e.shape, generator=torch.Generator().manual_seed(2))
    found, weights = attention(states, torch.cat([h, p]), None, out[WALKS][0], need_head_weights=True)
    queries = [attention.q_proj(p), attention.q_proj(states)]
    k, v = attention.k_proj(h), attention.v_proj(h)
    up, down = attention.walk_table.weight[:, 3:51], attention.walk_table.weight[:, 51:]
    expected = torch.zeros_like(states)
    for b in range(4):
        real = net_input["src_tokens"][b].ne(1)
        walks = out[WALKS][0][b][real][:, real].long()
        for head in range(2):
            of_head = slice(16 * head, 16 * head + 16)
            query = queries[head >= walking][:, b, of_head]
            scores = query @ k[real, b, of_head].T / 4
            if head < walking:
                table = torch.zeros(walks.shape)
                for i, j in torch.cartesian_prod(*map(torch.arange, walks.shape)):
                    bucket = int(walks[i, j])
                    if bucket >= 3:
                        table[i, j] = up[head, (bucket - 3) // 7] + down[head, (bucket - 3) % 7]
                    elif bucket >= 0:
                        table[i, j] = attention.walk_table.weight[head, bucket]
                scores = scores.softmax(1) @ table + h[real, b] @ attention.walk_scores.weight[head]
            torch.testing.assert_close(weights[head, b][:, real], scores.softmax(1), rtol=1e-4, atol=1e-5)
            assert not weights[head, b][:, ~real].any()
            expected[:, b, of_head] = scores.softmax(1) @ v[real, b, of_head]
    torch.testing.assert_close(found, attention.out_proj(expected), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("precision", ["float32", "autocast"])
def test_generation_step_by_step_with_reordered_beams_equals_one_pass(variant, precision):
    net, net_input = model(variant), systems.batch()
    order = torch.tensor([1, 0, 2, 2, 7, 6])  # two beams a sentence; the third has ended
    tokens = output_tokens(8)
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=precision == "autocast"), torch.no_grad():
        out = net.encoder.reorder_encoder_out(encoder_out(net, net_input), torch.arange(4).repeat_interleave(2))
        left = net.encoder.reorder_encoder_out(out, order)
        expected, extra = net.decoder(tokens[order], encoder_out=left)
        torch.testing.assert_close(extra["attn"][0].sum(dim=2), torch.ones(6, 6))
        state: dict = {}
        for step in range(1, 4):
            net.decoder(tokens[:, :step], encoder_out=out, incremental_state=state)
        net.decoder.reorder_incremental_state_scripting(state, order)
        for step in range(4, 7):
            logits, _ = net.decoder(tokens[order][:, :step], encoder_out=left, incremental_state=state)
            tolerance = 1e-5 if precision == "float32" else 0.1
            torch.testing.assert_close(logits[:, -1], expected[:, step - 1], rtol=tolerance, atol=tolerance)


@every_variant
def test_scores_of_generation_are_those_of_a_pass(variant):
    """Also beside another model, in an ensemble."""
    nets = [model(variant), systems.model("tree_bias_transformer", decoder_layers=2, seed=4).eval()]
    net_input, symbols = systems.batch(), small.dictionary()
    del net_input["prev_output_tokens"]
    for models in (nets[:1], nets):
        generator = SequenceGenerator(models, symbols, beam_size=3, max_len_b=6)
        for row, hypotheses in enumerate(generator.generate(models, {"net_input": net_input})):
            for found in hypotheses:
                tokens = found["tokens"].unsqueeze(0)
                before = torch.cat([tokens[:, -1:], tokens[:, :-1]], dim=1)
                source = {k: v[row : row + 1] for k, v in net_input.items() if k != "src_syntax"}
                syntax = {name: values[row : row + 1] for name, values in net_input["src_syntax"].items()}
                probabilities = [
                    net(**source, prev_output_tokens=before, src_syntax=syntax)[0].log_softmax(2) for net in models
                ]
                mean = torch.stack(probabilities).exp().mean(dim=0).log()
                scores = mean.gather(2, tokens.unsqueeze(2)).flatten()
                torch.testing.assert_close(found["positional_scores"], scores, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("variant", "left_pad"), pairwise(list(VARIANTS), [True, False]))
def test_a_translation_does_not_depend_on_other_sentences_and_padding(variant, left_pad):
    net, random = model(variant), Random(8)
    sentences = [systems.features(random, words, words + 2) for words in (12, 4)]
    together = small.batch(sentences, left_pad=left_pad)
    tokens = output_tokens(2)
    tokens[1, 4:] = small.dictionary().pad()
    expected = net(**{**together, "prev_output_tokens": tokens})[0]
    assert expected.isfinite().all()
    for row, (features, length) in enumerate(zip(sentences, (6, 4), strict=True)):
        one = alone(together, row, features, left_pad=left_pad)
        found = net(**one, prev_output_tokens=tokens[row : row + 1, :length])[0]
        torch.testing.assert_close(found[0], expected[row, :length], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("window", [1, 2, 3])
def test_a_window_hides_earlier_tokens_and_walks_know_the_last_two(window):
    """What one token changes in those after it; windows of two layers add up."""
    net_input, tokens = systems.batch(), output_tokens(4, 8)
    other = tokens.clone()
    other[:, 2] = 39 - other[:, 2] // 2
    net = model(target_window=window)

    def changed() -> list[bool]:
        one, two = (net(**{**net_input, "prev_output_tokens": of})[0] for of in (tokens, other))
        return ((one - two).abs().amax(dim=(0, 2)) > 1e-6).tolist()

    assert changed() == [2 <= t <= max(3, 2 * window) for t in range(8)]
    for layer in net.decoder.layers:  # without a match of tokens with the source
        layer.encoder_attn.q_proj.weight.data.zero_()
    assert changed() == [2 <= t <= 2 * window for t in range(8)]


def test_the_parse_reaches_the_decoder_by_walks_alone():
    net = model(syntax_masks="none", position_bias=True)
    assert isinstance(net.decoder, TreeDecoder)
    net_input = systems.batch()
    assert net.syntax_features == TreeWalk.features
    one = net(**net_input)[0]
    flat = {**net_input["src_syntax"], "head": net_input["src_syntax"]["head"].clamp(max=0)}
    other = net(**{**net_input, "src_syntax": flat})[0]
    differs = (one - other).abs().amax(dim=(1, 2)) > 1e-4
    assert differs[1:].tolist() == [True, True, False]  # the last has no parse
    none = {name: torch.full_like(values, -1) for name, values in net_input["src_syntax"].items()}
    without = encoder_out(net, {**net_input, "src_syntax": none})[WALKS][0]
    real = net_input["src_tokens"].ne(1)
    assert without.unique().tolist() == [PADDING, -1]
    assert torch.equal(without[:, 0] == PADDING, ~real)


def test_without_walking_heads_it_is_the_same_model_bit_for_bit():
    one, two = (
        systems.model("tree_bias_transformer", seed=3, **more) for more in ({}, {"tree_cross_attention_heads": 0})
    )
    net_input = systems.batch()
    assert torch.equal(one(**net_input)[0], two(**net_input)[0])
    assert one.state_dict().keys() == two.state_dict().keys()
    assert WALKS not in encoder_out(one, net_input)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"tree_cross_attention_heads": 3}, r"expected at most 2 \(--decoder-attention-heads\), found 3"),
        ({"decoder_embed_dim": 48, "decoder_output_dim": 48}, "to be equal, found 32 and 48"),
        ({"no_cross_attention": True}, "expected without --no-cross-attention"),
        ({"cross_self_attention": True}, "expected without --cross-self-attention"),
        ({**systems.SUPERTAGS, "feature_keys": True}, "expected without --feature-keys"),
        ({"tree_cross_attention_heads": 0}, "--target-window: expected with --tree-cross-attention-heads"),
    ],
)
def test_options_that_exclude_walks_are_refused(options, expected):
    with pytest.raises(ValueError, match=expected):
        model(**options)

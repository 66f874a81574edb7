"""The hidden Markov model whose transitions are moves in the source's tree, and the decoder around it."""

from __future__ import annotations

from random import Random
from types import SimpleNamespace

import pytest
import torch
from fairseq.criterions.cross_entropy import CrossEntropyCriterion
from fairseq.criterions.label_smoothed_cross_entropy import LabelSmoothedCrossEntropyCriterion
from fairseq.sequence_generator import SequenceGenerator

import small
import systems
from fairseq_syntax.encoder.encoder import PARENTS, WORDS
from fairseq_syntax.models.decoder import TreeHmmDecoder
from fairseq_syntax.modules.numerics import UNKNOWN
from fairseq_syntax.modules.tree_moves import TreeMoves, parent_positions
from pairwise import pairwise
from small import alone

SYSTEM = "tree_hmm_transformer"
#: Variants of the model around it.
VARIANTS = {
    "relative position": {},
    "norm before": {"decoder_normalize_before": True, "encoder_normalize_before": True},
    "wide encoder": {"encoder_embed_dim": 48, "share_all_embeddings": False},
    "tree biases": {"syntax_masks": "tree_path", "syntax_combination": "product"},
}


def model(variant: str = "relative position", **options):
    return systems.model(SYSTEM, **{"decoder_layers": 2, **VARIANTS[variant], **options}).eval()


def encoder_out(net, net_input):
    return net.encoder(net_input["src_tokens"], src_syntax=net_input["src_syntax"])


def output_tokens(rows: int, length: int = 6) -> torch.Tensor:
    tokens = torch.randint(5, 40, (rows, length), generator=torch.Generator().manual_seed(1))
    tokens[:, 0] = small.dictionary().eos()
    return tokens


def features(words: list[int], heads: list[int]) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Features of a line with ``</s>`` and two columns of padding, from each subword's word and its head."""
    word = torch.tensor([[*words, max(words) + 1, -1, -1]])
    return word, torch.tensor([[*heads, 0, -1, -1]]), word < 0


def test_subwords_depend_on_the_one_before_and_roots_on_the_end():
    #: she | sle | eps | here | . ; sleeps is the root, and so is "."
    word, head, padding = features([0, 1, 1, 2, 3], [2, 0, 0, 2, 0])
    assert parent_positions(word, head, padding)[0, :6].tolist() == [1, 5, 1, 1, 5, 5]
    without = parent_positions(word, torch.full_like(head, -1), padding)
    assert without[0, :6].tolist() == [5, 5, 1, 5, 5, 5]
    unknown = parent_positions(torch.full_like(word, -1), torch.full_like(head, -1), padding)
    assert unknown[0, :6].tolist() == [5] * 6
    left = [feature.roll(2, dims=1) for feature in (word, head, padding)]
    assert parent_positions(*left)[0, 2:].tolist() == [3, 7, 3, 3, 7, 7]


@pytest.mark.parametrize("heads", [[2, 1, 2], [1, 0, 2]])
def test_a_cycle_of_heads_is_refused(heads):
    with pytest.raises(ValueError, match="expected heads that lead to a root, found a cycle"):
        parent_positions(*features([0, 1, 2], heads))


def moves_by_hand(net: TreeMoves, x: torch.Tensor, parent: list[int]) -> torch.Tensor:
    """Follow all silent ways from each word, step by step, as the class describes them; of one line."""
    n = len(parent)
    step = -1 if net.backward_order else 1
    w = dict(zip(("dependent", "before", "head", "left"), net.words.weight.chunk(4), strict=True))

    def dependents(of: int, right: bool) -> list[int]:
        return [c for c in range(n) if c != of and parent[c] == of and (c > of) == right][::step]

    def before(c: int) -> int | None:
        side = dependents(parent[c], c > parent[c])
        return side[side.index(c) - 1] if side.index(c) else None

    def score(kind: int, **words: int | None) -> torch.Tensor:
        hidden = net.kinds[kind] + sum(w[role] @ x[i] for role, i in words.items() if i is not None)
        return net.score(hidden.relu())[0]

    def first(p: int, right: bool) -> torch.Tensor:
        left_first = net.left_first(x[p])[0]
        return torch.nn.functional.logsigmoid(-left_first if right else left_first)

    def into(c: int, kind: int, **more: int) -> torch.Tensor:
        return score(kind, dependent=c, before=before(c), head=parent[c], **more)

    def choose(scores: dict) -> dict:
        values = torch.stack(list(scores.values())).softmax(0)
        return dict(zip(scores, values, strict=True))

    def after_down(p: int) -> dict:
        scores = {("emit", p): score(10, dependent=p)}
        for right in (False, True):
            for c in dependents(p, right):
                both = first(p, right) if dependents(p, not right) else 0.0
                scores["down", c] = into(c, int(right)) + both
        return choose(scores)

    def after_emit(p: int) -> dict:
        scores = {("emit", p): score(17)}
        if parent[p] != p:
            scores["up", p] = score(11 + (p > parent[p]), left=p, head=parent[p])
        for right in (False, True):
            scores |= {("down", c): into(c, 2 + right) for c in dependents(p, right)}
        return choose(scores)

    def after_up(s: int) -> dict:
        p, right = parent[s], s > parent[s]
        scores = {("emit", p): score(13 + right, left=s, head=p)}
        if parent[p] != p:
            scores["up", p] = score(15 + right, left=s, head=p)
        side = dependents(p, right)
        for c in side[side.index(s) + 1 :]:
            near = side.index(c) == side.index(s) + 1
            scores["down", c] = into(c, 4 + 3 * right + 1 + near, left=s)
        for c in dependents(p, not right):
            scores["down", c] = into(c, 4 + 3 * right, left=s) + first(p, right)
        return choose(scores)

    rules = {"down": after_down, "up": after_up}
    result = torch.zeros(n, n)
    for i in range(n):
        ways = [(after_emit(i), 1.0)]
        while ways:
            steps, probability = ways.pop()
            for (kind, j), p in steps.items():
                if kind == "emit":
                    result[i, j] += probability * p
                else:
                    ways.append((rules[kind](j), probability * p))
    return result


@pytest.mark.parametrize("backward", [False, True])
def test_moves_are_the_sum_of_all_silent_ways(backward):
    random = Random(3)
    for _ in range(6):
        words = random.randint(1, 6)
        heads = [0] * words
        for word in random.sample(range(words), words)[1:]:  # heads that lead to a root
            heads[word] = random.choice([k for k in range(words) if k == 0 or k < word] + [0]) if word else 0
        split = [word for word in range(words) for _ in range(random.randint(1, 2))]
        of_word, head, padding = features(split, [heads[word] for word in split])
        parent = parent_positions(of_word, head, padding)
        net, n = TreeMoves(8, backward=backward), len(split) + 1
        torch.nn.init.normal_(net.score.weight)
        x = torch.randn(1, n + 2, 8)
        with torch.no_grad():
            found = net(x, parent)[0]
            expected = moves_by_hand(net, x[0], parent[0, :n].tolist())
        torch.testing.assert_close(found[:n, :n], expected, rtol=1e-4, atol=1e-6)
        torch.testing.assert_close(found[:n].sum(dim=1), torch.ones(n))
        assert not found[n:].any()
        assert not found[:, n:].any()


def in_words(net: torch.nn.Module, x: torch.Tensor, word: list[int]) -> torch.Tensor:
    """Embeddings of subwords and of the others of their words, by loops."""
    left, right = net.others.weight.chunk(2)
    found = x.clone()
    for j, of_j in enumerate(word):
        others = [i for i, of_i in enumerate(word) if i != j and of_i == of_j >= 0]
        hidden = sum((left if i < j else right) @ x[i] for i in others)
        found[j] += net.out.weight @ hidden.relu() if others else 0.0
    return found


def test_probabilities_are_those_of_the_definition():
    """By loops over tokens and states."""
    net, net_input, tokens = model(), systems.batch(left_pad=True), output_tokens(4)
    out = encoder_out(net, net_input)
    hmm = net.decoder.tree_hmm
    hmm.jump.data.fill_(-0.5)
    words, parents = out[WORDS][0], out[PARENTS][0]
    source = out["encoder_embedding"][0]
    embedded = net.decoder.embed_tokens(tokens)
    found = hmm(tokens, embedded, source, parents, words, net.decoder.output_layer).exp()
    bigram = net.decoder.output_projection(hmm.bigram(embedded)).exp()
    torch.testing.assert_close(found.sum(dim=2), torch.ones(4, 6))
    jump = torch.tensor(-2.0).sigmoid()
    eos = small.dictionary().eos()
    for b in range(4):
        real = parents[b] != UNKNOWN
        n, x = int(real.sum()), in_words(hmm.context, source[b][real], words[b][real].tolist())
        scores = net.decoder.output_projection(hmm.lexicon(x))
        scores[:-1, eos] = -torch.inf
        lexicon = scores.softmax(dim=1)
        lexicon[-1] = torch.eye(lexicon.shape[1])[eos]
        at = torch.zeros(2, n)
        at[:, -1] = 0.5
        offset = int((~real).sum())
        m = [of(x[None], parents[b : b + 1, real] - offset)[0] for of in hmm.moves]
        for t in range(6):
            if t:
                at = a * lexicon[:, tokens[b, t]]  # noqa: F821
                at = at / at.sum()
            a = torch.stack([(1 - jump) * at[k] @ m[k] + jump * at[k].sum() / n for k in range(2)])
            expected = bigram[b, t] * (a.sum(dim=0) @ lexicon)
            torch.testing.assert_close(found[b, t], expected / expected.sum(), rtol=1e-4, atol=1e-6)
    of_decoder = net.decoder.output_layer(net.decoder(tokens, encoder_out=out, features_only=True)[0]).softmax(dim=2)
    both = 0.3 * of_decoder + 0.7 * found
    torch.testing.assert_close(net.decoder(tokens, encoder_out=out)[0].exp(), both, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("smoothing", [None, 0.1])
def test_training_adds_the_losses_of_both(smoothing, monkeypatch):
    """By fairseq's criterions, which log the mixture's loss."""
    net, task = model().train(), SimpleNamespace(target_dictionary=small.dictionary())
    of_both, mix = [], net.decoder.tree_hmm.log_mixture
    monkeypatch.setattr(net.decoder.tree_hmm, "log_mixture", lambda *both: of_both.extend(both) or mix(*both))
    target = output_tokens(4).roll(-1, dims=1)
    target[0, 4:] = small.dictionary().pad()
    sample = {"net_input": {**systems.batch(), "prev_output_tokens": output_tokens(4)}, "target": target, "ntokens": 22}
    criterion = (
        CrossEntropyCriterion(task, sentence_avg=False)
        if smoothing is None
        else LabelSmoothedCrossEntropyCriterion(task, sentence_avg=False, label_smoothing=smoothing)
    )
    loss, _, logged = criterion(net, sample)
    log_p, log_q = of_both[0].log_softmax(dim=2), of_both[1]
    of_mixture = (0.3 * log_p.exp() + 0.7 * log_q.exp()).log()
    plain = SimpleNamespace(get_normalized_probs=lambda out, log_probs: out[0], get_targets=net.get_targets)
    losses = [criterion.compute_loss(plain, (log, None), sample)[0] for log in (of_mixture, log_p, log_q)]
    torch.testing.assert_close(logged["loss"], losses[0].detach())
    parameters = list(net.parameters())
    expected = torch.autograd.grad(sum(losses), parameters, retain_graph=True)
    torch.testing.assert_close(torch.autograd.grad(loss, parameters), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("variant", VARIANTS)
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


def test_padding_on_the_left_of_the_target_changes_nothing():
    net, net_input, tokens = model(), systems.batch(), output_tokens(4)
    expected = net(**{**net_input, "prev_output_tokens": tokens})[0]
    padded = torch.cat([torch.full((4, 2), small.dictionary().pad()), tokens], dim=1)
    found = net(**{**net_input, "prev_output_tokens": padded})[0][:, 2:]
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("scale", [1.0, 60.0])
def test_probabilities_and_gradients_are_those_of_numbers_however_sure_it_is(scale, training):
    net, net_input = model().train(training), systems.batch()
    hmm = net.decoder.tree_hmm
    hmm.jump.data.fill_(-5.0)
    for parameter in hmm.parameters():
        if parameter.dim() > 1:
            parameter.data *= scale
    logits = net(**{**net_input, "prev_output_tokens": output_tokens(4)})[0]
    torch.testing.assert_close(logits.exp().sum(dim=2), torch.ones(4, 6))
    logits.sum().backward()
    assert all(parameter.grad.isfinite().all() for parameter in net.parameters() if parameter.grad is not None)


@pytest.mark.parametrize(("variant", "left_pad"), pairwise(list(VARIANTS), [True, False]))
def test_a_translation_does_not_depend_on_other_sentences_and_padding(variant, left_pad):
    net, random = model(variant), Random(8)
    sentences = [systems.features(random, words, words + 2) for words in (12, 4)]
    together = small.batch(sentences, left_pad=left_pad)
    tokens = output_tokens(2)
    tokens[1, 4:] = small.dictionary().pad()
    expected = net(**{**together, "prev_output_tokens": tokens})[0]
    assert expected.isfinite().all()
    for row, length in enumerate((6, 4)):
        one = alone(together, row, left_pad=left_pad)
        found = net(**one, prev_output_tokens=tokens[row : row + 1, :length])[0]
        torch.testing.assert_close(found[0], expected[row, :length], rtol=1e-4, atol=1e-5)


def test_the_parse_reaches_the_decoder_by_moves_alone():
    net = model()
    assert isinstance(net.decoder, TreeHmmDecoder)
    net_input = systems.batch()
    assert net.syntax_features == ("word", "head")
    one = net(**net_input)[0]
    flat = {**net_input["src_syntax"], "head": net_input["src_syntax"]["head"].clamp(max=0)}
    other = net(**{**net_input, "src_syntax": flat})[0]
    differs = (one - other).abs().amax(dim=(1, 2)) > 1e-4
    assert differs[1:].tolist() == [True, True, False]  # the last has no parse


def test_a_decoder_without_cross_attention_has_none():
    assert not [name for name, _ in model(no_cross_attention=True).named_parameters() if "encoder_attn" in name]


def test_without_it_the_model_is_the_same_bit_for_bit():
    one, two = (systems.model("tree_bias_transformer", seed=3, **more) for more in ({}, {"tree_hmm": False}))
    net_input = systems.batch()
    assert torch.equal(one(**net_input)[0], two(**net_input)[0])
    assert one.state_dict().keys() == two.state_dict().keys()
    assert PARENTS not in encoder_out(one, net_input)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"adaptive_softmax_cutoff": "10,20"}, "expected without --adaptive-softmax-cutoff"),
        ({**systems.SUPERTAGS, "feature_keys": True}, "expected without --feature-keys"),
    ],
)
def test_options_that_exclude_it_are_refused(options, expected):
    with pytest.raises(ValueError, match=f"--tree-hmm: {expected}"):
        model(**options)

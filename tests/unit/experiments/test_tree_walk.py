"""The cross-attention that the recipe depth_controls tries; it registers a model, so the test runs in a fork."""

from __future__ import annotations

import sys
from importlib import import_module
from types import SimpleNamespace

import torch
from fairseq import options
from fairseq.models import build_model

import small
import systems
from forked import Forked
from places import EXPERIMENTS

SYMBOLS = small.dictionary()


def model(arch: str):
    args = ["data", "--task=syntax_translation", f"--arch={arch}", "--dropout=0"]
    args = options.parse_args_and_arch(options.get_training_parser(), args)
    torch.manual_seed(1)
    return build_model(args, SimpleNamespace(source_dictionary=SYMBOLS, target_dictionary=SYMBOLS)).eval()


def check() -> None:
    sys.path.insert(0, str(EXPERIMENTS))
    walks = import_module("tree_walk")
    net, plain = model("tree_walk_transformer_tiny"), model("tree_bias_transformer_tiny")
    plain.load_state_dict({name: x for name, x in net.state_dict().items() if "encoder_attn.table" not in name})
    batch = systems.batch(left_pad=True)
    at_first = net(**batch)[0]
    torch.testing.assert_close(at_first, plain(**batch)[0])  # its tables are 0

    first, second = (layer.encoder_attn for layer in net.decoder.layers)
    assert first.table is None
    second.table.weight.data.normal_()
    whole = net(**batch)[0]
    torch.testing.assert_close(whole[:, 0], at_first[:, 0])
    assert not torch.allclose(whole[:, 1], at_first[:, 1], atol=1e-3)
    whole.sum().backward()
    assert second.table.weight.grad.any()

    dim, heads = second.embed_dim, second.num_heads
    width = dim // heads
    x, (paths,) = torch.randn(3, 1, dim), net.encoder(**without_target(batch))["paths"]
    n = paths.shape[1]
    source, below = torch.randn(n, 1, dim), torch.rand(1, 3, n)
    second.walk = walks.Walk(paths[:1], below)
    found = second(x, source, source, need_head_weights=True)[1][:, 0]
    q, k = second.q_proj(x)[:, 0], second.k_proj(source)[:, 0]
    for h in range(heads):
        part = slice(width * h, width * (h + 1))
        walked = torch.zeros(3, n)
        for t in (1, 2):
            for j in range(n):
                walked[t, j] = sum(below[0, t - 1, i] * second.table.weight[h, paths[0, i, j]] for i in range(n))
        torch.testing.assert_close(found[h], (q[:, part] @ k[:, part].T / width**0.5 + walked).softmax(1))

    # In generation, with hypotheses that change places: each sentence has two.
    net_input, rows = without_target(batch), len(batch["src_tokens"])
    sentences = torch.arange(rows).repeat_interleave(2)
    swap = torch.arange(2 * rows).view(-1, 2).flip(1).flatten()
    encoder_out = net.encoder.reorder_encoder_out(net.encoder(**net_input), sentences)
    tokens = torch.randint(4, len(SYMBOLS), (2 * rows, 5))
    expected = net.decoder(tokens, encoder_out=encoder_out)[0]
    state: dict = {}
    for t in range(5):
        order = swap if t % 2 else torch.arange(2 * rows)
        found = net.decoder(tokens[order, : t + 1], encoder_out=encoder_out, incremental_state=state)[0]
        torch.testing.assert_close(found[:, 0], expected[order, t])
        net.decoder.reorder_incremental_state_scripting(state, swap)


def without_target(batch: dict) -> dict:
    return {name: x for name, x in batch.items() if name != "prev_output_tokens"}


def test_it_is_its_formula_and_the_same_step_by_step(tmp_path):
    process = Forked(check, tmp_path / "log")
    assert process.end() == 0, process.said

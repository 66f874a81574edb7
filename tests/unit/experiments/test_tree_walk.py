"""The cross-attention that the recipe depth_controls tries; it registers a model, so the test runs in a fork."""

from __future__ import annotations

from importlib import import_module

import plugins
import torch

import small
import systems


@plugins.with_plugin("tree_walk")
def test_it_is_its_formula_and_the_same_step_by_step(tmp_path):
    walks = import_module("tree_walk")
    net, plain = (plugins.model(f"{name}_transformer_tiny") for name in ("tree_walk", "tree_bias"))
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
    tokens = torch.randint(4, len(small.dictionary()), (2 * rows, 5))
    expected = net.decoder(tokens, encoder_out=encoder_out)[0]
    state: dict = {}
    for t in range(5):
        order = swap if t % 2 else torch.arange(2 * rows)
        found = net.decoder(tokens[order, : t + 1], encoder_out=encoder_out, incremental_state=state)[0]
        torch.testing.assert_close(found[:, 0], expected[order, t])
        net.decoder.reorder_incremental_state_scripting(state, swap)


def without_target(batch: dict) -> dict:
    return {name: x for name, x in batch.items() if name != "prev_output_tokens"}

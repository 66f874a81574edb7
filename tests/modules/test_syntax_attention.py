"""Attention under masks: the formula, extreme numbers, gradients."""

from __future__ import annotations

import pytest
import torch

from fairseq_syntax.masks import SyntaxBias
from fairseq_syntax.modules.syntax_attention import SyntaxAttention


def attention(**options):
    torch.manual_seed(2)
    return SyntaxAttention(
        16,
        4,
        **{
            "num_masks": 2,
            "syntax_heads": 4,
            "combination": "gate",
            "gate_hidden_dim": 4,
            "gate_batch_norm": None,
            "gate_batch_norm_eps": 0.1,
            "syntax_dropout": 0.0,
            **options,
        },
    )


def random_bias(batch: int, n: int, masks: int = 2) -> SyntaxBias:
    generator = torch.Generator().manual_seed(3)
    m = torch.rand(batch, masks, n, n, generator=generator)
    m = torch.where(m < 0.4, torch.zeros(()), m)
    m[:, :, range(n), range(n)] = 1
    return SyntaxBias(m.log(), torch.ones(batch, masks, dtype=torch.bool))


def test_attention_is_the_papers_formula():
    net = attention().double()
    x = torch.randn(5, 3, 16, dtype=torch.float64)
    bias = random_bias(3, 5)
    output, weights = net(x, x, x, syntax=bias)

    gates = net.gate(x, None)
    expected = torch.zeros(3, 5, 5, dtype=torch.float64)
    outputs = []
    q, k, v = (projection(x) for projection in (net.q_proj, net.k_proj, net.v_proj))
    for b in range(3):
        heads = []
        for h in range(4):
            part = slice(4 * h, 4 * h + 4)
            exps = (q[:, b, part] @ k[:, b, part].T / 2).exp()  # sqrt(4) = 2
            a = (1 - gates[b, :, h].sum()) * exps / exps.sum(-1, keepdim=True)
            for mask in range(2):
                masked = bias.log_masks[b, mask].exp() * exps
                a = a + gates[b, mask, h] * masked / masked.sum(-1, keepdim=True)
            expected[b] += a / 4
            heads.append(a @ v[:, b, part])
        outputs.append(torch.cat(heads, dim=-1))
    torch.testing.assert_close(weights, expected, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(output, net.out_proj(torch.stack(outputs, dim=1)), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("scale", [1e-4, 1.0, 1e4])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_no_nan_at_any_scale(scale, dtype):
    net = attention().to(dtype)
    x = (torch.randn(6, 3, 16) * scale).to(dtype).requires_grad_()
    padding = torch.zeros(3, 6, dtype=torch.bool)
    padding[0, :4] = True
    bias = random_bias(3, 6)
    bias.log_masks[0, :, :4] = 0.0  # as masks are made: padding sees everything
    output, _ = net(x, x, x, key_padding_mask=padding, syntax=bias)
    assert output.dtype == dtype
    output.float().sum().backward()
    assert output.isfinite().all()
    assert x.grad.isfinite().all()


def test_syntax_dropout_acts_on_syntactic_attention_of_parsed_sentences_in_training_only():
    net = attention(syntax_dropout=0.5, num_masks=1)
    x = torch.randn(6, 2, 16)
    bias = random_bias(2, 6, masks=1)
    bias = SyntaxBias(bias.log_masks, torch.tensor([[True], [False]]))
    net.eval()
    quiet = net(x, x, x, syntax=bias)[1]
    torch.testing.assert_close(net(x, x, x, syntax=bias)[1], quiet)
    net.train()
    dropped = net(x, x, x, syntax=bias)[1]
    assert not torch.allclose(dropped[0], quiet[0])
    torch.testing.assert_close(dropped[1], quiet[1])
    many = torch.stack([net(x, x, x, syntax=bias)[1] for _ in range(3000)])
    torch.testing.assert_close(many.mean(0), quiet, rtol=0.1, atol=0.02)


def test_attention_mask_is_refused():
    x = torch.randn(5, 3, 16)
    with pytest.raises(ValueError, match="attn_mask"):
        attention()(x, x, x, attn_mask=torch.zeros(5, 5), syntax=random_bias(3, 5))

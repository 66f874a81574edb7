"""Dropout from 16 random bits an entry is dropout."""

from __future__ import annotations

from argparse import Namespace

import pytest
import torch
from fairseq.modules.fairseq_dropout import FairseqDropout

import small
from fairseq_syntax.models.cpu_dropout import FastDropout
from fairseq_syntax.tasks.syntax_translation import SyntaxTranslationConfig, SyntaxTranslationTask


@pytest.mark.parametrize("p", [0.1, 0.5, 0.9])
def test_drops_with_its_probability_and_keeps_the_mean(p):
    torch.manual_seed(1)
    x = torch.ones(999, 1001)
    dropped = FastDropout(p)(x)
    count = x.numel()
    share = dropped.eq(0).double().mean().item()
    assert abs(share - p) < 5 * (p * (1 - p) / count) ** 0.5
    assert dropped.unique().tolist() == pytest.approx([0, 1 / (1 - p)], rel=2**-13)
    assert dropped.double().mean().item() == pytest.approx(1, abs=5 * (p / (1 - p) / count) ** 0.5)


def test_entries_are_dropped_independently():
    """Also those whose bits come from one 64-bit number, and those of the next call."""
    torch.manual_seed(1)
    dropout = FastDropout(0.3)
    kept = [dropout(torch.ones(2**18)).ne(0).double() for _ in range(2)]
    pairs = [(kept[0][lag:], kept[0][: 2**18 - lag]) for lag in (1, 2, 3, 4, 8)] + [(kept[0], kept[1])]
    for a, b in pairs:
        correlation = torch.corrcoef(torch.stack([a, b]))[0, 1].abs().item()
        assert correlation < 5 * 2**-9


def test_the_gradient_is_dropped_where_the_value_is():
    x = torch.randn(3, 50).expand(4, 3, 50).clone().requires_grad_()
    dropped = FastDropout(0.4)(x)
    dropped.sum().backward()
    torch.testing.assert_close(dropped, x * x.grad)


def test_dtype_and_shape_stay_and_the_ends_of_the_range_are_met():
    for dtype in (torch.float16, torch.bfloat16, torch.float64):
        x = torch.ones(5, 1, 7, dtype=dtype).expand(5, 6, 7)
        dropped = FastDropout(0.5)(x)
        assert (dropped.dtype, dropped.shape, dropped.unique().tolist()) == (dtype, x.shape, [0, 2])
    x = torch.ones(2**16)
    assert FastDropout(0.0)(x) is FastDropout(1e-9)(x) is x
    assert not FastDropout(1.0)(x).any()
    assert FastDropout(1 - 1e-9)(x).eq(0).double().mean() > 0.99  # the nearest probability below 1
    dropout = FastDropout(0.5, "X").eval()
    assert dropout(x) is x
    dropout.make_generation_fast_("x", retain_dropout=True)
    assert dropout(x).eq(0).any()


@pytest.mark.parametrize("arch", ["transformer", "gated_syntax_transformer_tiny"])
def test_all_dropout_modules_of_any_model_of_the_task_are_fast_unless_torch_is_asked_for(arch):
    options = {"dropout": 0.2, "attention_dropout": 0.1, "syntax_dropout": 0.3, "activation_dropout": 0.4}
    sizes = {"max_source_positions": 9, "max_target_positions": 9, "encoder_layers": 2, "decoder_layers": 2}

    def modules(kind: str) -> dict[str, FairseqDropout]:
        cfg = SyntaxTranslationConfig(cpu_dropout=kind, ddp_backend="legacy_ddp")
        task = SyntaxTranslationTask(cfg, small.dictionary(), small.dictionary())
        net = task.build_model(Namespace(arch=arch, **options, **sizes))
        return {name: module for name, module in net.named_modules() if isinstance(module, FairseqDropout)}

    fast, torchs = modules("fast"), modules("torch")
    assert len(fast) >= 12
    assert {type(module) for module in fast.values()} == {FastDropout}
    assert {type(module) for module in torchs.values()} == {FairseqDropout}
    settings = [{name: (module.p, module.module_name) for name, module in found.items()} for found in (fast, torchs)]
    assert settings[0] == settings[1]
    if arch != "transformer":
        assert fast["encoder.layers.0.self_attn.syntax_dropout_module"].p == 0.3

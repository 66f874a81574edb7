"""torch's choice of kernels for attention: no more can be seen of it without a GPU than its switches."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F
from torch.backends import cuda

from fairseq_syntax.tasks.syntax_translation import SyntaxTranslationConfig, SyntaxTranslationTask
from places import GOLDEN


@pytest.fixture(autouse=True)
def switches_as_they_were():
    before = cuda.cudnn_sdp_enabled()
    yield
    cuda.enable_cudnn_sdp(before)


def set_up(**options) -> None:
    cfg = SyntaxTranslationConfig(data=str(GOLDEN / "data-bin"), source_lang="de", target_lang="en", **options)
    SyntaxTranslationTask.setup_task(cfg)


@pytest.mark.parametrize("before", [True, False])
def test_the_task_switches_cudnns_attention_off_unless_it_is_asked_for(before):
    others = cuda.flash_sdp_enabled(), cuda.mem_efficient_sdp_enabled(), cuda.math_sdp_enabled()
    for options, expected in (({}, False), ({"cudnn_attention": True}, True), ({"cudnn_attention": False}, False)):
        cuda.enable_cudnn_sdp(before)
        set_up(**options)
        assert cuda.cudnn_sdp_enabled() == expected
    assert others == (cuda.flash_sdp_enabled(), cuda.mem_efficient_sdp_enabled(), cuda.math_sdp_enabled())


@pytest.mark.gpu
@pytest.mark.skipif(
    not torch.cuda.is_available() or torch.cuda.get_device_capability()[0] not in (9, 10),
    reason="needs a GPU of compute capability 9 or 10",
)
def test_it_is_still_wrong():
    """Fails once torch is mended: delete fairseq_syntax/compat/cudnn_attention.py."""
    n, d = 192, 64
    q, k, v = (torch.randn(1, 1, n, d, device="cuda", dtype=torch.bfloat16) for _ in range(3))
    q, k = q * 0.1, k * 0.1
    q[..., 0], k[..., 0] = 1.0, -120 * math.sqrt(d)  # all scores are about -120
    q.requires_grad_()
    mask = torch.ones(n, n, dtype=torch.bool, device="cuda")
    finite = []
    for on in (True, False):
        cuda.enable_cudnn_sdp(on)
        output = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        (gradient,) = torch.autograd.grad(output.sum(), q)
        finite.append(bool(gradient.isfinite().all()))
    assert finite == [False, True]

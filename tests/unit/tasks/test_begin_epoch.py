"""What a task sets for the whole process, once it trains."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from fairseq_syntax.tasks import syntax_task
from fairseq_syntax.tasks.syntax_translation import SyntaxTranslationConfig, SyntaxTranslationTask


@pytest.fixture(autouse=True)
def kept(monkeypatch) -> list[int]:
    """How often freed memory is kept from now on."""
    calls: list[int] = []
    monkeypatch.setattr(syntax_task, "keep_freed_memory", lambda: calls.append(1))
    before = torch.get_float32_matmul_precision()
    yield calls
    torch.set_float32_matmul_precision(before)


def begin(device: str = "cpu", **options: str) -> None:
    task = SyntaxTranslationTask(SyntaxTranslationConfig(**options), None, None)
    task.begin_epoch(1, nn.Linear(1, 1, device=torch.device(device)))


@pytest.mark.parametrize(("option", "device", "times"), [("keep", "cpu", 1), ("system", "cpu", 0), ("keep", "meta", 0)])
def test_memory_is_kept_on_a_cpu_alone(kept, option, device, times):
    begin(device, cpu_memory=option)
    assert len(kept) == times


@pytest.mark.parametrize("precision", ["medium", "high", "highest"])
def test_products_have_the_precision_that_is_asked_for(precision):
    begin(matmul_precision=precision)
    assert torch.get_float32_matmul_precision() == precision

"""What a task sets for the whole process, once it trains."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
from fairseq.models import BaseFairseqModel
from torch import Tensor, nn

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


@pytest.mark.parametrize(("precision", "dtype"), [("medium", torch.bfloat16), ("highest", torch.float32)])
def test_medium_precision_on_a_cpu_is_mixed_precision(precision, dtype):
    class Product(BaseFairseqModel):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(2, 1)

    def criterion(model: Product, sample: dict[str, Tensor]) -> tuple[Tensor, int, dict[str, str]]:
        product = model.linear(sample["x"])
        return product.sum(), 1, {"dtype": product.dtype}

    model = Product()
    task = SyntaxTranslationTask(SyntaxTranslationConfig(matmul_precision=precision), None, None)
    optimizer = SimpleNamespace(backward=Tensor.backward)
    *_, logged = task.train_step({"x": torch.ones(1, 2)}, model, criterion, optimizer, 0)
    assert logged["dtype"] == dtype
    assert model.linear.weight.grad.dtype == torch.float32

"""What a task sets for the whole process, at its start."""

from __future__ import annotations

import pytest
import torch

from fairseq_syntax.tasks.syntax_task import SyntaxTask, SyntaxTaskConfig


@pytest.fixture(autouse=True)
def precision_as_it_was():
    before = torch.get_float32_matmul_precision()
    yield
    torch.set_float32_matmul_precision(before)


@pytest.mark.parametrize("before", ["highest", "medium"])
@pytest.mark.parametrize(
    ("options", "expected"),
    [({}, "highest"), ({"matmul_precision": "high"}, "high"), ({"matmul_precision": "medium"}, "medium")],
)
def test_products_have_the_precision_that_is_asked_for(before, options, expected):
    torch.set_float32_matmul_precision(before)
    SyntaxTask.prepare_process(SyntaxTaskConfig(tpu=False, **options))
    assert torch.get_float32_matmul_precision() == expected

"""What a unit test may not do, so that all of them take about a minute."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

SECONDS = 10  # of this process's time, which a busy machine does not change


@pytest.fixture(autouse=True)
def small_and_quick(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No program, corpus, training or long computation: tests/integration and tests/system are for those."""
    if large := {"corpus", "trained"} & set(request.fixturenames):
        pytest.fail(f"a unit test uses no {large.pop()}")

    def refused(*args: object, **kwargs: object) -> None:
        raise AssertionError("a unit test starts no program and trains nothing")

    monkeypatch.setattr(subprocess, "Popen", refused)
    monkeypatch.setattr("fairseq_cli.train.main", refused)
    begin = time.process_time()
    yield
    assert time.process_time() - begin < SECONDS, "too long for a unit test"


@pytest.fixture
def process_group(tmp_path: Path) -> Iterator[None]:
    """A group of this process alone, for distributed data parallel training."""
    torch.distributed.init_process_group("gloo", init_method=f"file://{tmp_path}/group", rank=0, world_size=1)
    yield
    torch.distributed.destroy_process_group()

"""Several threads may share a model, and what translates raw text with it."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from random import Random
from typing import Any

import pytest
import torch

import commands
import small
from fairseq_syntax.inference.collect import analyse
from fairseq_syntax.testing import random_features
from fake_parser import FakeParser

THREADS = 4


@pytest.fixture
def often(monkeypatch) -> None:
    """Threads take turns as often as Python can."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(interval)


def at_once(calls: list[Callable[[], Any]], *, threads: int = THREADS) -> list[Any]:
    """The results of the calls, made by several threads."""
    with ThreadPoolExecutor(threads) as pool:
        return [future.result(timeout=60) for future in [pool.submit(call) for call in calls]]


@pytest.mark.usefixtures("often")
@pytest.mark.parametrize("implementation", ["auto", "reference"])
def test_each_pass_has_its_own_syntax(implementation):
    net = small.model(syntax_masks="slr,sdoi", syntax_attention_impl=implementation).eval()
    random = Random(2)
    batches = [small.batch([random_features(random, 6, 9), random_features(random, 4, 5)], seed=i) for i in range(4)]

    def encode(batch):
        with torch.no_grad():
            return small.encode(net, batch)

    def decode(batch):
        with torch.no_grad():
            return net(**batch)[0]

    def attend(batch):
        return analyse(net, {"net_input": batch})["attention"]

    calls = [lambda f=f, batch=batch: f(batch) for batch in batches for f in (encode, decode, attend)] * 4
    expected = [call() for call in calls]
    for i, (found, wanted) in enumerate(zip(at_once(calls), expected, strict=True)):
        assert torch.equal(found, wanted), i


@pytest.mark.usefixtures("often", "fake_parser")
def test_each_call_of_translate_has_its_own_answers_and_messages(trained, caplog, monkeypatch):
    made = []
    begin = FakeParser.__init__

    def start(self, seconds: float) -> None:
        made.append(self)
        time.sleep(0.2)  # as models take to load
        begin(self, seconds)

    monkeypatch.setattr(FakeParser, "__init__", start)
    rng = Random(4)
    asked = []
    for i in range(8):
        lines = [rng.choice(trained.lines) for _ in range(rng.randint(1, 5))]
        lines.insert(i % len(lines), f"FAIL {i} {rng.choice(trained.lines)}")
        asked.append((lines, rng.choice([1, 2, 4])))

    def translate(model: Any, lines: list[str], beam: int) -> tuple[list[str], list[int], list[Any]]:
        tokens = model.read(lines)
        found = [{k: v.tolist() for k, v in one.items()} for one in model.analyse(tokens, ("gates", "attention"))]
        return model.translate(lines, beam=beam, max_len_b=20), tokens.numbers, found

    model = commands.hub(trained)
    with caplog.at_level(logging.WARNING):
        answers = at_once([lambda one=one: translate(model, *one) for one in asked])
    assert len(made) == 1  # the parser is loaded once by all threads
    # Messages count the sentences of their own call: of read, and of translate.
    messages = sorted(r.getMessage() for r in caplog.records if "has no parse" in r.getMessage())
    numbers = [1 + next(i for i, line in enumerate(lines) if "FAIL" in line) for lines, _ in asked for _ in range(2)]
    assert messages == sorted(f"line {number} has no parse (conllu, trees): told to fail" for number in numbers)
    assert answers == [translate(model, *one) for one in asked]

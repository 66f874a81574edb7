"""Memory that a training on a CPU frees is there for its next step."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch
from torch import nn

from fairseq_syntax.tasks import syntax_task
from fairseq_syntax.tasks.syntax_translation import SyntaxTranslationConfig, SyntaxTranslationTask

#: The page faults of a second step, which uses as much memory as the first.
STEPS = """
import resource
import torch
from fairseq_syntax.tasks.cpu_memory import keep_freed_memory

def step():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(3):
        torch.ones(2**24)  # 64 MiB
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

{call}
step()
print(step())
"""


@pytest.mark.skipif(sys.platform != "linux", reason="needs glibc's malloc")
def test_memory_is_kept_for_the_next_step():
    faults = [
        int(subprocess.run([sys.executable, "-c", STEPS.format(call=call)], capture_output=True, check=True).stdout)
        for call in ("", "keep_freed_memory()")
    ]
    assert faults[1] < 100 < faults[0]


@pytest.mark.parametrize(("option", "device", "kept"), [("keep", "cpu", 1), ("system", "cpu", 0), ("keep", "meta", 0)])
def test_it_is_kept_in_trainings_on_a_cpu_alone(monkeypatch, option, device, kept):
    calls = []
    monkeypatch.setattr(syntax_task, "keep_freed_memory", lambda: calls.append(1))
    task = SyntaxTranslationTask(SyntaxTranslationConfig(cpu_memory=option), None, None)
    assert not calls
    task.begin_epoch(1, nn.Linear(1, 1, device=torch.device(device)))
    assert len(calls) == kept

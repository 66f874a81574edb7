"""Memory that a training on a CPU frees is there for its next step."""

from __future__ import annotations

import ctypes
import subprocess
import sys

import pytest

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


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "mallopt"), reason="needs glibc's malloc")
def test_memory_is_kept_for_the_next_step():
    faults = [
        int(subprocess.run([sys.executable, "-c", STEPS.format(call=call)], capture_output=True, check=True).stdout)
        for call in ("", "keep_freed_memory()")
    ]
    assert 10 * faults[1] < faults[0]

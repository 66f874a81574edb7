"""Memory that a training on a CPU frees is there for its next step."""

from __future__ import annotations

import ctypes
import subprocess
import sys

import pytest

from fairseq_syntax.tasks import cpu_memory

#: The fewest page faults of later steps, which use as much memory as the first.
STEPS = """
import resource, runpy
import torch
keep_freed_memory = runpy.run_path({path!r})["keep_freed_memory"]  # without importing fairseq

def step():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(3):
        torch.ones(2**24)  # 64 MiB
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

{call}
step()
print(min(step() for _ in range(5)))
"""


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "mallopt"), reason="needs glibc's malloc")
@pytest.mark.nightly
def test_memory_is_kept_for_the_next_step():
    faults = []
    for call in ("", "keep_freed_memory()"):
        steps = STEPS.format(path=cpu_memory.__file__, call=call)
        done = subprocess.run([sys.executable, "-c", steps], capture_output=True, check=True)
        faults.append(int(done.stdout))
    assert 10 * faults[1] < faults[0]

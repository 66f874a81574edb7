"""The benchmarks' own machinery."""

from __future__ import annotations

import os
import signal
from concurrent.futures.process import BrokenProcessPool

import pytest

from forked import Forked
from places import ROOT


class Killer:
    """Kills the process in which it is unpickled."""

    def __reduce__(self):
        return os.kill, (_OWN_PROCESS, signal.SIGKILL)


class _OwnProcess:
    def __reduce__(self):
        return os.getpid, ()


_OWN_PROCESS = _OwnProcess()


def measure_and_die() -> None:
    import speed

    with pytest.raises(BrokenProcessPool):
        speed.peak_memory(Killer(), 64, True)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
def test_a_measurement_whose_process_is_killed_ends(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    process = Forked(measure_and_die, tmp_path / "log")
    assert process.end(25) == 0, process.said

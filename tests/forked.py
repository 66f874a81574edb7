"""Commands in copies of this process: as good as processes of their own, without importing everything again."""

from __future__ import annotations

import os
import signal
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path


class Forked:
    """`function` in a copy of this process, which ends as Python does; what it prints goes to the file `log`."""

    def __init__(self, function: Callable[[], object], log: Path):
        self._log = log
        sys.stdout.flush()
        self.pid = os.fork()
        if not self.pid:
            status = 1
            try:
                with open(log, "w", buffering=1) as sys.stdout:
                    sys.stderr = sys.stdout
                    os.dup2(sys.stdout.fileno(), 1)
                    os.dup2(sys.stdout.fileno(), 2)
                    status = _run(function)
            finally:
                os._exit(status)

    def end(self, seconds: float = 30) -> int:
        """Its exit status, or minus the number of the signal that ended it; kills it after so many seconds."""
        end = time.monotonic() + seconds
        while True:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                return os.waitstatus_to_exitcode(status)
            if time.monotonic() > end:
                os.kill(self.pid, signal.SIGKILL)
                os.waitpid(self.pid, 0)
                raise TimeoutError(f"not at its end after {seconds} seconds: {self.said}")
            time.sleep(0.005)

    @property
    def said(self) -> str:
        """All that it has printed, its last words too."""
        return self._log.read_text()


def _run(function: Callable[[], object]) -> int:
    try:
        function()
    except SystemExit as stop:
        if isinstance(stop.code, str):
            print(stop.code)
        return stop.code if isinstance(stop.code, int) else int(bool(stop.code))
    except BaseException:
        traceback.print_exc()
        return 1
    return 0

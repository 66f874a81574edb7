"""Commands in copies of this process: as good as processes of their own, without importing everything again."""

from __future__ import annotations

import logging
import multiprocessing
import os
import runpy
import signal
import sys
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib.metadata import entry_points
from pathlib import Path
from typing import IO, Any

import commands


def fork(function: Callable[[], object], *streams: IO[Any]) -> int:
    """The process number of a copy of this process that runs `function` and ends as Python does.

    Args:
        streams: its stdin, stdout and stderr.
    """
    sys.stdout.flush()
    ours = multiprocessing.active_children()
    pid = os.fork()
    if not pid:
        status = 1
        try:
            for number, stream in enumerate(streams):
                os.dup2(stream.fileno(), number)
            with (
                open(0, closefd=False) as sys.stdin,
                open(1, "w", buffering=1, closefd=False) as sys.stdout,
                open(2, "w", buffering=1, closefd=False) as sys.stderr,
            ):
                status = _run(function)
                for process in set(multiprocessing.active_children()).difference(ours):
                    process.terminate()
                    process.join()
        finally:
            os._exit(status)
    return pid


class Forked:
    """`function` in a copy of this process, which ends as Python does; what it prints goes to the file `log`."""

    def __init__(self, function: Callable[[], object], log: Path):
        self._log = log
        with open(os.devnull) as nothing, open(log, "w") as out:
            self.pid = fork(function, nothing, out, out)

    def end(self, seconds: float = 30) -> int:
        """Its exit status, or minus the number of the signal that ended it; kills it after that many seconds."""
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


class ForkedCommand:
    """Stands for :class:`subprocess.Popen`: a command that pip installed, or a program of Python, in a fork."""

    def __init__(
        self,
        words: Sequence[str],
        *,
        stdin: IO[Any],
        stdout: IO[Any],
        stderr: IO[Any],
        env: Mapping[str, str],
        close_fds: bool,
    ):
        self._pid = fork(partial(_command, words, env), stdin, stdout, stderr)

    def wait(self) -> int:
        """Its exit status, or minus the number of the signal that ended it."""
        return os.waitstatus_to_exitcode(os.waitpid(self._pid, 0)[1])


def _command(words: Sequence[str], environment: Mapping[str, str]) -> None:
    os.environ.update(environment)
    commands.forget()
    logging.getLogger().handlers.clear()
    # As fairseq's commands do when they are imported.
    logging.basicConfig(
        format="%(asctime)s | %(levelname)s | %(name)s | %(message)s", level=logging.INFO, stream=sys.stdout
    )
    if words[0] == sys.executable:
        program, sys.argv = words[1], list(words[1:])
        sys.path.insert(0, str(Path(program).parent))
        runpy.run_path(program, run_name="__main__")
    else:
        sys.argv = list(words)
        (entry,) = entry_points(group="console_scripts", name=Path(words[0]).name)
        sys.exit(entry.load()())


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

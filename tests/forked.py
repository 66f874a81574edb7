"""Commands in copies of this process: as good as processes of their own, without importing everything again."""

from __future__ import annotations

import logging
import os
import runpy
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib.metadata import entry_points
from multiprocessing import get_context
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import IO, Any

import commands


def fork(function: Callable[[], object], *streams: IO[Any]) -> BaseProcess:
    """A copy of this process that runs `function` with these streams as its stdin, stdout and stderr."""

    def work() -> None:
        for number, stream in enumerate(streams):
            os.dup2(stream.fileno(), number)
        sys.stdin = open(0, closefd=False)  # noqa: SIM115
        sys.stdout, sys.stderr = (open(n, "w", buffering=1, closefd=False) for n in (1, 2))  # noqa: SIM115
        function()

    process = get_context("fork").Process(target=work)
    process.start()
    return process


class Forked:
    """`function` in a copy of this process, which ends as Python does; what it prints goes to the file `log`."""

    def __init__(self, function: Callable[[], object], log: Path):
        self._log = log
        with open(os.devnull) as nothing, open(log, "w") as out:
            self._process = fork(function, nothing, out, out)
        self.pid = self._process.pid

    def end(self, seconds: float = 30) -> int | None:
        """Its exit status, or minus the number of the signal that ended it; kills it after that many seconds."""
        self._process.join(seconds)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()
            raise TimeoutError(f"not at its end after {seconds} seconds: {self.said}")
        return self._process.exitcode

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
        self._process = fork(partial(_command, words, env), stdin, stdout, stderr)

    def wait(self) -> int | None:
        """Its exit status, or minus the number of the signal that ended it."""
        self._process.join()
        return self._process.exitcode


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

"""Runs the product's and fairseq's commands, as a user would."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from syntax_data.errors import InputError

#: How many of a log's last lines are shown where a command fails.
_SHOWN = 15
#: And how many characters of each.
_WIDTH = 300


def run(
    *command: str | os.PathLike[str],
    log: Path,
    stdin: Path | None = None,
    stdout: Path | None = None,
    threads: int = 1,
) -> None:
    """Runs a command. What it says goes to the end of the file `log`; its output there, too, unless `stdout` is named.

    A command that pip installed is that of this interpreter's environment.

    Raises:
        InputError: it fails; shows the end of the log.
    """
    words = [os.fspath(word) for word in command]
    beside = Path(sys.executable).with_name(words[0])
    words[0] = sys.executable if words[0] == "python" else str(beside) if beside.exists() else words[0]
    if shutil.which(words[0]) is None:
        raise InputError(words[0], None, "expected this command, found none: is the package installed as it is now?")
    with open(log, "ab") as err:
        err.write(f"$ {shlex.join([os.fspath(word) for word in command])}\n".encode())
        err.flush()
        with open(stdin or os.devnull, "rb") as source, open(stdout or log, "wb" if stdout else "ab") as out:
            process = subprocess.Popen(
                words,
                stdin=source,
                stdout=out,
                stderr=err,
                env={**os.environ, "OMP_NUM_THREADS": str(threads)},
                close_fds=False,  # the lock of what is made
            )
            status = wait(process)
    if status:
        lines = log.read_text(errors="replace").splitlines()[-_SHOWN:]
        tail = "\n".join(line if len(line) <= _WIDTH else f"{line[:_WIDTH]} …" for line in lines)
        raise InputError(str(log), None, f"{words[0]} failed with status {status}:\n{tail}")


def filled(command: str, places: Mapping[str, str | os.PathLike[str]]) -> list[str]:
    """The words of a command in which ``{NAME}`` stands for a path: one word, whatever is in it."""
    words = shlex.split(command)
    for name, path in places.items():
        words = [word.replace(f"{{{name}}}", os.fspath(path)) for word in words]
    return words


def wait(process: subprocess.Popen[bytes]) -> int:
    """The exit status of a process. Waiting ends when the process has come to its end.

    So it does on Ctrl-C, which the process gets too, and on SIGTERM, which is passed on to it.
    """
    try:
        return process.wait()
    except KeyboardInterrupt:
        process.wait()
        raise
    except BaseException:
        process.terminate()
        process.wait()
        raise


def options(settings: Mapping[str, Any]) -> list[str]:
    """A command line's words for options by name: ``true`` stands for a flag, ``false`` for none at all."""
    words: list[str] = []
    for name, value in settings.items():
        if value is True:
            words.append(f"--{name}")
        elif value is not False and value is not None:
            words += [f"--{name}", str(value)]
    return words

"""Makes a target: python -m syntax_experiments.make KIND/KEY THREADS.

Its folder is whole when it has metadata.json, which is written last. What a stopped step left there is kept, if the
step can go on with it, or deleted.
"""

from __future__ import annotations

import fcntl
import json
import os
import platform
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path
from typing import Any

from syntax_data.errors import InputError
from syntax_data.io.atomic_write import atomic_write

#: The file that a whole target has.
METADATA = "metadata.json"
#: Lines of a log that are shown where a command fails, and characters of each.
_LINES, _WIDTH = 15, 300
#: Threads of all processes of a job together, by Snakemake. MKL's would go before OMP_NUM_THREADS, which are one's.
_OF_A_JOB = {f"{name}_NUM_THREADS" for name in ("GOTO", "MKL", "NUMEXPR", "OPENBLAS")} | {"VECLIB_MAXIMUM_THREADS"}


@dataclass(frozen=True)
class Step:
    """Arguments of a step; see :class:`syntax_experiments.plan.Target`."""

    settings: dict[str, Any]
    inputs: dict[str, Path]  # folders by name
    local: dict[str, Any]
    threads: int  # cores that it may use
    folder: Path  # where to write


def spec_path(path: str) -> Path:
    """Return the file with the specification of the target at `path`."""
    return Path("specs", f"{path}.json")


def is_made(path: str) -> bool:
    """Return whether the target at `path` is whole."""
    return Path(path, METADATA).exists()


def files_in(folder: Path) -> list[Path]:
    """Return the files that a step wrote into a folder, its log and metadata left out."""
    return [path for path in folder.iterdir() if path.name not in (METADATA, "log") and path.name[0] != "."]


def read_lines(path: Path) -> list[str]:
    """Return the lines of a file that a step wrote; only a line feed ends one."""
    return path.read_text(encoding="utf-8").split("\n")[:-1]


def write_lines(path: Path, lines: Iterable[str]) -> None:
    """Write lines to a file."""
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def make(path: str, threads: int = 1) -> None:
    """Make the target at `path`, unless it is made or another process makes it."""
    from syntax_experiments.steps import RESUMABLE, step_of

    spec = json.loads(spec_path(path).read_text(encoding="utf-8"))
    folder = Path(path)
    folder.mkdir(parents=True, exist_ok=True)
    with locked(folder.with_name(f".{folder.name}.lock")):
        if is_made(path):
            return
        if spec["kind"] not in RESUMABLE:
            shutil.rmtree(folder)
            folder.mkdir()
        inputs = {name: Path(of) for name, of in spec["inputs"].items()}
        step_of(spec["kind"])(Step(spec["settings"], inputs, spec.pop("local"), threads, folder))
        with atomic_write(str(folder / METADATA)) as part:
            Path(part).write_text(json.dumps(spec, indent=1), encoding="utf-8")


@contextmanager
def locked(path: str | os.PathLike[str], *, wait: bool = True) -> Iterator[bool | None]:
    """Hold a lock file; yield whether it is held, ``None`` on a disk without locks.

    Commands that are started inside hold it, too, until they end: one that outlives a killed process still counts.
    """
    lock = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    os.set_inheritable(lock, True)
    held: bool | None = True
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except BlockingIOError:
        held = False
    except OSError as error:
        print(f"{path}: {error.strerror}: going on without a lock; start no second run", file=sys.stderr)
        held = None
    try:
        yield held
    finally:
        os.close(lock)


@contextmanager
def on_a_gpu() -> Iterator[None]:
    """Let commands see one GPU, which no other job here has; wait for one.

    One that CUDA_VISIBLE_DEVICES names n times is for n jobs at once.
    """
    gpus = visible_gpus()
    # Slurm may number the GPU of each of its jobs from 0.
    machine = f"{platform.node()}-{os.environ.get('SLURM_JOB_ID', '')}"
    while gpus:
        shares = [(gpus[:i].count(gpu), gpu) for i, gpu in enumerate(gpus)]
        for share, gpu in sorted(shares, key=itemgetter(0)):
            with locked(f".gpu-{machine}-{gpu}{f'-{share}' * bool(share)}.lock", wait=False) as held:
                if held is not False:
                    os.environ["CUDA_VISIBLE_DEVICES"] = gpu  # for the rest of this process
                    yield
                    return
        time.sleep(1)
    yield


def visible_gpus() -> list[str]:
    """Return the GPUs that jobs may use, as CUDA_VISIBLE_DEVICES names them."""
    listed = os.environ.get("CUDA_VISIBLE_DEVICES")
    if listed is None and shutil.which("nvidia-smi"):
        query = ["nvidia-smi", "--query-gpu=index", "--format=csv,noheader"]
        listed = ",".join(subprocess.run(query, capture_output=True, text=True).stdout.split())
    return [gpu for gpu in (listed or "").split(",") if gpu not in ("", "-1")]


def run(
    *command: str | os.PathLike[str],
    log: Path,
    stdin: Path | None = None,
    stdout: Path | None = None,
    threads: int = 1,
) -> None:
    """Run a command of this environment; what is not `stdout` is added to `log`, whose end an error shows."""
    words = [os.fspath(word) for word in command]
    beside = os.path.join(os.path.dirname(sys.executable), words[0])
    program = sys.executable if words[0] == "python" else shutil.which(beside) or shutil.which(words[0])
    if program is None:
        raise InputError(words[0], None, "expected this command, found none: install the package again")
    with (
        open(log, "ab", buffering=0) as err,
        open(stdin or os.devnull, "rb") as source,
        open(stdout or log, "wb" if stdout else "ab") as out,
    ):
        err.write(f"$ {shlex.join(words)}\n".encode())
        environment = {name: value for name, value in os.environ.items() if name not in _OF_A_JOB}
        environment["OMP_NUM_THREADS"] = str(threads)
        if named := os.environ.get("CUDA_VISIBLE_DEVICES"):  # torch sees no GPU if one is named twice
            environment["CUDA_VISIBLE_DEVICES"] = ",".join(dict.fromkeys(named.split(",")))
        arguments = [program, *words[1:]]
        # It inherits the locks (close_fds).
        status = subprocess.call(arguments, stdin=source, stdout=out, stderr=err, env=environment, close_fds=False)
    if status:
        lines = log.read_text(encoding="utf-8", errors="replace").splitlines()[-_LINES:]
        tail = "\n".join(line if len(line) <= _WIDTH else f"{line[:_WIDTH]} …" for line in lines)
        raise InputError(str(log), None, f"{words[0]} failed with exit status {status}:\n{tail}")


def fill(command: str, paths: Mapping[str, str | os.PathLike[str]]) -> list[str]:
    """Return the words of a command, ``{NAME}`` replaced by the path of that name."""
    words = shlex.split(command)
    for name, path in paths.items():
        words = [word.replace(f"{{{name}}}", os.fspath(path)) for word in words]
    return words


def options(settings: Mapping[str, Any]) -> list[str]:
    """Return words of a command line: true is a flag, false and ``None`` are nothing."""
    words: list[str] = []
    for name, value in settings.items():
        if value is not False and value is not None:
            words += [f"--{name}"] if value is True else [f"--{name}", str(value)]
    return words


def main() -> None:
    """Run the step that the command line names; a failure is one message."""
    try:
        make(sys.argv[1], int(sys.argv[2]))
    except (ValueError, OSError) as error:
        sys.exit(f"{sys.argv[1]}: {error}")
    except KeyboardInterrupt:
        sys.exit(f"{sys.argv[1]}: stopped")


if __name__ == "__main__":
    main()

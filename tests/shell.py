"""Commands in processes of their own, as a user runs them."""

from __future__ import annotations

import socket
import subprocess
from pathlib import Path

#: Goes before commands that train: models and trainings are small, and what is installed stays as it is.
SMALL = """
pip() { :; }
fairseq-train() {
    command fairseq-train "$@" --cpu --max-epoch 1 --num-workers 0 --encoder-embed-dim 16 --encoder-ffn-embed-dim 16 \
        --decoder-embed-dim 16 --decoder-ffn-embed-dim 16 --decoder-layers 1
}
fairseq-generate() { command fairseq-generate "$@" --max-len-b 10; }
"""


def run_command(*command: object, cwd: Path) -> str:
    """What a command prints; it must succeed."""
    words = [str(part) for part in command]
    done = subprocess.run(words, cwd=cwd, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-1000:] + done.stderr[-2000:]
    return done.stdout


def run(commands: str, folder: Path) -> str:
    """What commands of bash print, run in a folder; they must succeed."""
    return run_command("bash", "-euo", "pipefail", "-c", commands, cwd=folder)


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]

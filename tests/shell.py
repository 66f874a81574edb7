"""Commands of the documentation, run by bash as a user would."""

from __future__ import annotations

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


def run(commands: str, folder: Path) -> str:
    """What the commands print, run in a folder; they must succeed."""
    command = ["bash", "-euo", "pipefail", "-c", commands]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    assert done.returncode == 0, done.stdout[-1000:] + done.stderr[-2000:]
    return done.stdout

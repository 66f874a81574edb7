"""What a run is doing: one bar over all steps, and beside it which of them run and how far they are.

In a log, it is a line for each step that is done.
"""

from __future__ import annotations

import re
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

from tqdm import tqdm

from syntax_experiments.plan import Artefact

_SECONDS = 1.0


class Progress:
    """Shows it while its block lasts.

    Args:
        artefacts: what is to be made.
        active: whether to show anything.
    """

    def __init__(self, artefacts: Sequence[Artefact], *, active: bool):
        self._waiting = {artefact.path: artefact for artefact in artefacts}
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._follow, daemon=True)
        self._active = active

    def __enter__(self) -> Progress:
        if self._active:
            self._thread.start()
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._ends.set()
        if self._active:
            self._thread.join()

    def _follow(self) -> None:
        waiting, total = self._waiting, len(self._waiting)
        with tqdm(total=total, unit=" steps", disable=None) as bar:
            ends = False
            while not ends:
                ends = self._ends.wait(_SECONDS)
                for artefact in [a for a in waiting.values() if _made(a)]:
                    del waiting[artefact.path]
                    if bar.disable:
                        told = f"{total - len(waiting)} of {total} steps: {artefact.label}"
                        print(told, file=sys.stderr, flush=True)
                bar.n = total - len(waiting)
                if not bar.disable:
                    at_work = [a for a in waiting.values() if _hidden(a).exists()]
                    bar.set_postfix_str("; ".join(f"{a.label}{_epoch(a)}" for a in at_work))


def _made(artefact: Artefact) -> bool:
    return Path(artefact.path, "made.json").exists()


def _hidden(artefact: Artefact) -> Path:
    path = Path(artefact.path)
    return path.with_name(f".{path.name}")


def _epoch(artefact: Artefact) -> str:
    """How far a training is."""
    log = _hidden(artefact) / "train.log"
    if artefact.kind != "models" or not log.exists():
        return ""
    with open(log, "rb") as file:
        file.seek(max(0, log.stat().st_size - 4000))
        epochs = re.findall(rb'"epoch": (\d+)', file.read())
    return f", epoch {epochs[-1].decode()}" if epochs else ""

"""Scores of one text: BLEU, chrF2 and TER by sacreBLEU, and metrics of the recipe's own, each a command."""

from __future__ import annotations

import math
import re
import shlex
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from syntax_data.scoring.metrics import ScoreSettings, corpus_scores

_NUMBER = re.compile(r"(?<![\w.+-])[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?(?!\w)")
_TAIL = 600  # characters of a failed command's output


def score(
    hypotheses: Sequence[str],
    references: Sequence[str],
    *,
    settings: ScoreSettings,
    own: Mapping[str, str] | None = None,
    sources: Sequence[str] | None = None,
) -> dict[str, Any]:
    """``{"sentences": …, "metrics": {"BLEU": {"score": …, "signature": …}, "chrF2": …, "TER": …, …}}``.

    Args:
        hypotheses: detokenised text, one a sentence.
        references: raw text, one a sentence.
        settings: sacreBLEU's.
        own: commands of other metrics by name (see :func:`own_score`); their signature is the command.
        sources: text that was translated, one a sentence; a command with ``{source}`` needs it.

    Raises :class:`ValueError` if there are no sentences or not as many of each, or a command fails.
    """
    same_length(hypotheses=hypotheses, references=references, sources=sources)
    metrics = corpus_scores(hypotheses, [references], settings=settings)
    texts = {"hypotheses": hypotheses, "references": references, "source": sources}
    for name, command in (own or {}).items():
        if name in metrics:
            raise ValueError(f"metrics: {name}: expected another name than sacreBLEU's metric has")
        metrics[name] = {"score": own_score(name, command, texts=texts), "signature": command}
    return {"sentences": len(references), "metrics": metrics}


def own_score(name: str, command: str, *, texts: Mapping[str, Sequence[str] | None]) -> float:
    """The last number that a command of bash prints.

    Args:
        name: of the metric, for messages.
        command: ``{source}``, ``{hypotheses}`` and ``{references}`` in it stand for files, one sentence a line; other
            braces are left alone.
        texts: by the names above.

    Raises :class:`ValueError` if the command, or a part of its pipe, fails, or it prints no number.
    """
    if "{hypotheses}" not in command:
        raise ValueError(f"metrics: {name}: expected a command with {{hypotheses}}, found {command!r}")
    with TemporaryDirectory(prefix="experiment-") as folder:
        filled = command
        for text, lines in texts.items():
            if (place := f"{{{text}}}") not in command:
                continue
            if lines is None:
                raise ValueError(f"metrics: {name}: the command needs {place}, and there is no such text")
            path = Path(folder, text)
            path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
            filled = filled.replace(place, shlex.quote(str(path)))
        ended = subprocess.run(
            ["bash", "-o", "pipefail", "-c", filled],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
        )
    if ended.returncode:
        said = (ended.stderr.strip() or ended.stdout.strip())[-_TAIL:]
        raise ValueError(f"metrics: {name}: {command!r} ended with status {ended.returncode}: {said}")
    numbers = _NUMBER.findall(ended.stdout)
    if not numbers or not math.isfinite(float(numbers[-1])):
        said = (ended.stdout + ended.stderr).strip()[-_TAIL:]
        raise ValueError(f"metrics: {name}: expected a number on stdout of {command!r}, found {said!r}")
    return float(numbers[-1])


def same_length(**texts: Sequence[str] | None) -> None:
    """Raises :class:`ValueError` unless all texts that there are have equally many sentences, and at least one."""
    counts = {name: len(lines) for name, lines in texts.items() if lines is not None}
    if len(set(counts.values())) != 1 or not all(counts.values()):
        found = ", ".join(f"{count} {name}" for name, count in counts.items())
        raise ValueError(f"expected as many sentences of each, and at least one, found {found}")

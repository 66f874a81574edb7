"""Scores of a translation: BLEU, chrF2 and TER by sacreBLEU, and a recipe's own metrics, each by a command."""

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
from syntax_experiments.make import write_lines

_NUMBER = re.compile(r"(?<![\w.+-])[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?(?!\w)")
_TAIL = 600  # characters of a failed command's output


def score(
    hypotheses: Sequence[str],
    references: Sequence[str],
    *,
    settings: ScoreSettings,
    own: Mapping[str, str],
    source: Sequence[str],
) -> dict[str, dict[str, Any]]:
    """Return ``{"BLEU": {"score": …, "signature": …}, "chrF2": …, "TER": …, …}``.

    Args:
        hypotheses: detokenised text, one a sentence.
        references: raw text, one a sentence.
        settings: sacreBLEU's.
        own: commands of other metrics by name. ``{source}``, ``{hypotheses}`` and ``{references}`` in it are replaced
            by files, one sentence a line; bash runs it, the last number that it prints is the score, and the command
            the signature.
        source: text that was translated, one a sentence.

    Raises:
        ValueError: a command or a part of its pipe fails, or it prints no number.
    """
    metrics = corpus_scores(hypotheses, [references], settings=settings)
    texts = {"hypotheses": hypotheses, "references": references, "source": source}
    for name, command in own.items():
        try:
            metrics[name] = {"score": _own_score(command, texts), "signature": command}
        except ValueError as error:
            raise ValueError(f"metrics: {name}: {error}") from None
    return metrics


def _own_score(command: str, texts: Mapping[str, Sequence[str]]) -> float:
    with TemporaryDirectory(prefix="experiment-") as folder:
        filled = command
        for text, lines in texts.items():
            write_lines(path := Path(folder, text), lines)
            filled = filled.replace(f"{{{text}}}", shlex.quote(str(path)))
        words = ["bash", "-o", "pipefail", "-c", filled]
        done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, encoding="utf-8", errors="replace")
    if done.returncode:
        output = (done.stderr.strip() or done.stdout.strip())[-_TAIL:]
        raise ValueError(f"{command!r} ended with status {done.returncode}: {output}")
    numbers = _NUMBER.findall(done.stdout)
    if not numbers or not math.isfinite(float(numbers[-1])):
        output = (done.stdout + done.stderr).strip()[-_TAIL:]
        raise ValueError(f"expected a number on stdout of {command!r}, found {output!r}")
    return float(numbers[-1])

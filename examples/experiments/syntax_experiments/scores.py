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
    """Return ``{"sentences": …, "metrics": {"BLEU": {"score": …, "signature": …}, "chrF2": …, "TER": …, …}}``.

    Args:
        hypotheses: detokenised text, one a sentence.
        references: raw text, one a sentence.
        settings: sacreBLEU's.
        own: commands of other metrics by name. ``{source}``, ``{hypotheses}`` and ``{references}`` in it are replaced
            by files, one sentence a line; bash runs it, the last number that it prints is the score, and the command
            the signature.
        sources: text that was translated, one a sentence.

    Raises:
        ValueError: there are no sentences or not equally many of each, or a command or a part of its pipe fails, or it
            prints no number.
    """
    texts = {"hypotheses": hypotheses, "references": references, "sources": sources}
    same_length(**texts)
    metrics = corpus_scores(hypotheses, [references], settings=settings)
    texts["source"] = texts.pop("sources")
    for name, command in (own or {}).items():
        if name in metrics:
            raise ValueError(f"metrics: {name}: expected another name than sacreBLEU's metric has")
        try:
            metrics[name] = {"score": _own_score(command, texts), "signature": command}
        except ValueError as error:
            raise ValueError(f"metrics: {name}: {error}") from None
    return {"sentences": len(references), "metrics": metrics}


def _own_score(command: str, texts: Mapping[str, Sequence[str] | None]) -> float:
    if "{hypotheses}" not in command:
        raise ValueError(f"expected a command with {{hypotheses}}, found {command!r}")
    with TemporaryDirectory(prefix="experiment-") as folder:
        filled = command
        for text, lines in texts.items():
            if f"{{{text}}}" in command:
                if lines is None:
                    raise ValueError(f"the command needs {{{text}}}, and there is no such text")
                path = Path(folder, text)
                path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
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


def same_length(**texts: Sequence[str] | None) -> None:
    """Raise :class:`ValueError` unless all texts have equally many sentences, and at least one."""
    counts = {name: len(lines) for name, lines in texts.items() if lines is not None}
    if len(set(counts.values())) != 1 or not all(counts.values()):
        found = ", ".join(f"{count} {name}" for name, count in counts.items())
        raise ValueError(f"expected as many sentences of each, and at least one, found {found}")

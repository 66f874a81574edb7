"""Scores of a run, and paired tests of two runs, on test sets and subsets."""

from __future__ import annotations

import json
import math
import re
import shlex
import subprocess
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from sacrebleu.metrics import BLEU

from syntax_data.scoring.metrics import ScoreSettings, corpus_scores
from syntax_experiments.make import Step, read_lines, write_lines
from syntax_experiments.metric_names import EXACT_MATCH, TOKENISED
from syntax_experiments.recipe import Scoring
from syntax_experiments.significance import compare

_NUMBER = re.compile(r"(?<![\w.+-])[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?(?!\w)")
_TAIL = 600  # characters of a failed command's output


def score_run(step: Step) -> None:
    """Write ``scores.json``: ``test, subset, metrics`` (:func:`score`) of each part."""
    wanted = Scoring(**step.settings["score"])
    found = []
    for test in step.settings["tests"]:
        text, run = step.inputs["text"] / test, step.inputs["run"] / test
        files = {"hypotheses": f"{run}.txt", "references": f"{text}.reference", "source": f"{text}.raw"}
        if wanted.tokenized:
            files |= {"tokens": f"{run}.tokens", "target": f"{text}.{step.settings['target']}"}
        texts = {name: read_lines(Path(path)) for name, path in files.items()}
        subsets = json.loads((step.inputs["subsets"] / f"{test}.json").read_text())
        for subset, lines in {None: range(len(texts["references"])), **subsets}.items():
            part = {name: [of[i] for i in lines] for name, of in texts.items()}
            metrics = score(part, settings=_settings(wanted), own=step.local["metrics"])
            if wanted.tokenized:
                metrics[TOKENISED] = _score_of_tokens(part["tokens"], part["target"], wanted.lowercase)
            if wanted.exact_match:
                same = sum(a == b for a, b in zip(part["hypotheses"], part["references"], strict=True))
                metrics[EXACT_MATCH] = {"score": 100 * same / len(lines), "signature": "the same text, in %"}
            found.append({"test": test, "subset": subset, "metrics": metrics})
    (step.folder / "scores.json").write_text(json.dumps(found, indent=1))


def compare_runs(step: Step) -> None:
    """Write ``comparison.json``: ``test, subset, metrics`` (:func:`compare`).

    Subsets have no test within a seed: TER's statistics of them would take longer than many a training.
    """
    wanted = Scoring(**step.settings["score"])
    more: dict[str, Any] = {"bootstrap": wanted.bootstrap, "randomisation": wanted.randomisation}
    more["settings"] = _settings(wanted)
    found = []
    for test in step.settings["tests"]:
        files = [step.inputs[side] / f"{test}.txt" for side in ("system", "baseline")]
        texts = map(read_lines, [*files, step.inputs["text"] / f"{test}.reference"])
        found.append({"test": test, "subset": None, "metrics": compare(*texts, **more)})
    (step.folder / "comparison.json").write_text(json.dumps(found, indent=1))


def score(texts: Mapping[str, list[str]], *, settings: ScoreSettings, own: Mapping[str, str]) -> dict[str, Any]:
    """Return ``{"BLEU": {"score": …, "signature": …}, "chrF2": …, "TER": …, …}``.

    Args:
        texts: ``hypotheses``, detokenised, ``references`` and ``source``, as raw text; one a sentence.
        own: commands of other metrics by name. ``{source}``, ``{hypotheses}`` and ``{references}`` in it are replaced
            by files, one sentence a line; bash runs it, the last number that it prints is the score, and the command
            the signature.

    Raises:
        ValueError: a command or a part of its pipe fails, or it prints no number.
    """
    metrics = corpus_scores(texts["hypotheses"], [texts["references"]], settings=settings)
    for name, command in own.items():
        try:
            metrics[name] = {"score": _own_score(command, texts), "signature": command}
        except ValueError as error:
            raise ValueError(f"metrics: {name}: {error}") from None
    return metrics


def _own_score(command: str, texts: Mapping[str, list[str]]) -> float:
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


def _score_of_tokens(tokens: list[str], target: list[str], lowercase: bool) -> dict[str, Any]:
    """Return BLEU of tokens, before they are detokenised, against the text's target."""
    bleu = BLEU(lowercase=lowercase, tokenize="none", force=True)  # force: no warning that the text is tokenised
    score = bleu.corpus_score(tokens, [target]).score
    return {"score": score, "signature": bleu.get_signature().format()}


def _settings(wanted: Scoring) -> ScoreSettings:
    return ScoreSettings(tokenize=wanted.tokenize, lowercase=wanted.lowercase)

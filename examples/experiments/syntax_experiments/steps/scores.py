"""Scores of a run, and paired tests of two runs, on each test set and each subset of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from syntax_data.scoring.metrics import ScoreSettings
from syntax_experiments.make import Step, read_lines
from syntax_experiments.metric_names import EXACT_MATCH, TOKENISED
from syntax_experiments.recipe import Scoring
from syntax_experiments.scores import score
from syntax_experiments.significance import compare


def score_run(step: Step) -> None:
    """Write ``scores.json``: a list of :func:`syntax_experiments.scores.score`, each with ``test`` and ``subset``."""
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
            asked = part["hypotheses"], part["references"]
            metrics = score(*asked, settings=_settings(wanted), own=step.local["metrics"], source=part["source"])
            if wanted.tokenized:
                metrics[TOKENISED] = _score_of_tokens(part["tokens"], part["target"], wanted.lowercase)
            if wanted.exact_match:
                same = sum(a == b for a, b in zip(*asked, strict=True))
                metrics[EXACT_MATCH] = {"score": 100 * same / len(lines), "signature": "the same text, in %"}
            found.append({"test": test, "subset": subset, "metrics": metrics})
    (step.folder / "scores.json").write_text(json.dumps(found, indent=1))


def compare_runs(step: Step) -> None:
    """Write ``comparison.json``: a list of :func:`syntax_experiments.significance.compare`, one a test set.

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


def _score_of_tokens(tokens: list[str], target: list[str], lowercase: bool) -> dict[str, Any]:
    """Return BLEU of a translation before it is detokenised, against the target as the recipe's text has it."""
    from sacrebleu.metrics import BLEU

    bleu = BLEU(lowercase=lowercase, tokenize="none", force=True)  # force: no warning that the text is tokenised
    score = bleu.corpus_score(tokens, [target]).score
    return {"score": score, "signature": bleu.get_signature().format()}


def _settings(wanted: Scoring) -> ScoreSettings:
    return ScoreSettings(tokenize=wanted.tokenize, lowercase=wanted.lowercase)
